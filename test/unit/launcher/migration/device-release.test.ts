import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LibvirtError, LifecycleEvent } from '../../../../src/libvirt/index.ts';
import { domainName, type MigrationBench, migratingVmi, migrationBench, usual } from './bench.ts';

const device = (alias: string) => `<hostdev type='pci'><alias name='ua-${alias}'/></hostdev>`;
const both = device('sriov-blue') + device('sriov-red');

function guest({ hypervisor, metadata }: MigrationBench) {
  const domain = hypervisor.domains.get(domainName)?.ref ?? assert.fail();
  return {
    says: (name: string, isGone = true, at = domain) =>
      hypervisor.emit({ kind: 'unplug', domain: at, alias: `ua-sriov-${name}`, isGone }),
    domain,
    asked: () => hypervisor.calls.filter((call) => call.startsWith('requestUnplug')),
    hasMigrated: () => hypervisor.calls.includes('migrate'),
    migration: () => metadata.metadata.Migration ?? assert.fail(),
  };
}

test('a guest migrates when it has let go of the last of its SR-IOV devices', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  const { says, asked, hasMigrated, migration, domain } = guest(bench);
  await bench.order('m1');
  await bench.clock.pass(0);
  assert.deepEqual(asked(), ['requestUnplug ua-sriov-blue', 'requestUnplug ua-sriov-red']);
  says('red');
  says('blue', true, { ...domain, name: 'default_other' });
  says('green');
  await bench.clock.pass(10_000);
  assert.equal(hasMigrated(), false);
  assert.throws(() => bench.migration.refuse('SyncVMI'), { code: 'MIGRATING' });
  says('blue');
  await bench.clock.pass(0);
  assert.equal(hasMigrated(), true);
  assert.deepEqual([migration().Failed, migration().FailureReason], [false, '']);
});

test('it has 30 s for each; then the migration has failed, in words that name what it kept', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  const { says, hasMigrated, migration } = guest(bench);
  await bench.order('m1');
  await bench.clock.pass(29_000);
  says('red');
  await bench.clock.pass(29_000);
  assert.equal(migration().EndTimestamp, null);
  await bench.clock.pass(1_000);
  assert.deepEqual([migration().Failed, migration().AbortStatus, hasMigrated()], [true, '', false]);
  assert.match(
    migration().FailureReason,
    /SR-IOV interfaces within 30 s \(blue\), .*: see that its operating system has booted/,
  );
  assert.doesNotThrow(() => bench.migration.refuse('HotplugHostDevices'), 'what it gave up can be given back');
});

test('neither another device nor a guest that stands still and goes on gives it more time', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  const { says, migration, domain } = guest(bench);
  await bench.order('m1');
  for (const event of [LifecycleEvent.SUSPENDED, LifecycleEvent.RESUMED]) {
    await bench.clock.pass(10_000);
    says('green');
    bench.hypervisor.emit({ kind: 'lifecycle', domain, event, detail: 0 });
  }
  await bench.clock.pass(10_000);
  assert.match(migration().FailureReason, /within 30 s \(blue, red\)/);
});

test('the time that the migration itself may take begins when they are gone', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  bench.hypervisor.onMigrate = () => new Promise(() => undefined);
  bench.hypervisor.job = { type: 2, params: new Map([['operation', 5]]) };
  const { says } = guest(bench);
  await bench.order('m1', { ...usual, CompletionTimeoutPerGiB: 20 });
  await bench.clock.pass(19_000);
  says('red');
  says('blue');
  await bench.clock.pass(19_000);
  assert.ok(!bench.hypervisor.calls.includes('abortJob'));
  await bench.clock.pass(2_000);
  assert.ok(bench.hypervisor.calls.includes('abortJob'));
});

test('a guest that refuses ends it at once', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  const { says, migration } = guest(bench);
  await bench.order('m1');
  await bench.clock.pass(0);
  says('blue', false);
  await bench.clock.pass(0);
  assert.match(migration().FailureReason, /refuses to let go of its SR-IOV interface blue/);
});

test('what libvirt does not even ask for ends it at once', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  bench.hypervisor.failures.set('requestUnplug', new LibvirtError('OPERATION_FAILED', 'no hotplugging on this bus'));
  await bench.order('m1');
  await bench.clock.pass(0);
  const { migration, hasMigrated } = guest(bench);
  assert.match(
    migration().FailureReason,
    /SR-IOV interface blue .*no hotplugging on this bus.*: an interface with a pciAddress/,
  );
  assert.equal(hasMigrated(), false);
});

test('a guest that stops meanwhile holds nothing up', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  await bench.order('m1');
  await bench.clock.pass(0);
  bench.hypervisor.end(domainName, 1);
  await bench.clock.pass(0);
  assert.match(guest(bench).migration().FailureReason, /^the guest has stopped before it gave up/);
});

test('an abort ends the wait at once, and has succeeded; so has a shutdown', async (t) => {
  const ends: readonly (readonly [string, (bench: MigrationBench) => unknown])[] = [
    ['Live migration has been aborted', ({ migration }) => migration.cancel(migratingVmi('m1'))],
    ['Live migration has been aborted: SignalShutdownVMI', ({ migration }) => migration.giveWay('SignalShutdownVMI')],
  ];
  for (const [reason, end] of ends) {
    const bench = await migrationBench(t, { devices: both });
    const { says, hasMigrated, migration } = guest(bench);
    const seen = new Set<string | undefined>();
    bench.metadata.onChange(() => seen.add(bench.metadata.metadata.Migration?.AbortStatus));
    await bench.order('m1');
    await bench.clock.pass(5_000);
    says('red');
    await end(bench);
    await bench.clock.pass(0);
    assert.deepEqual([migration().Failed, migration().FailureReason], [true, reason]);
    assert.deepEqual([...seen], ['', 'Aborting', 'Succeeded']);
    assert.deepEqual([hasMigrated(), bench.hypervisor.calls.includes('abortJob')], [false, false]);
  }
});

test('an abort counts when what it met has failed as well', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  await bench.order('m1');
  await bench.clock.pass(0);
  const { says, migration } = guest(bench);
  bench.migration.cancel(migratingVmi('m1'));
  says('blue', false);
  await bench.clock.pass(0);
  assert.deepEqual(
    [migration().AbortStatus, migration().FailureReason],
    ['Succeeded', 'Live migration has been aborted'],
  );
});

test('a daemon that was started anew is asked again: it may have told of the device to nobody', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  const { asked, hasMigrated, says } = guest(bench);
  await bench.order('m1');
  await bench.clock.pass(0);
  says('blue');
  await bench.hypervisor.define(`<domain><name>${domainName}</name></domain>`);
  await bench.hypervisor.start(guest(bench).domain, { paused: false });
  bench.hypervisor.emit({ kind: 'connected' });
  await bench.clock.pass(0);
  assert.deepEqual(asked().slice(2), ['requestUnplug ua-sriov-red']);
  assert.equal(hasMigrated(), true);
});

test('a launcher that is started anew meanwhile says that the guest stays', async (t) => {
  const first = await migrationBench(t, { devices: both });
  await first.order('m1');
  const { metadata } = await first.restarted();
  await first.clock.pass(0);
  assert.equal(metadata.metadata.Migration?.Failed, true);
  assert.match(metadata.metadata.Migration?.FailureReason ?? '', /launcher was started anew/);
});

test('a paused guest cannot let go of anything: its migration is refused with what to do', async (t) => {
  const bench = await migrationBench(t, { devices: both });
  bench.hypervisor.pretend(domainName, 3, 1);
  const message = /paused guest cannot give up its SR-IOV interfaces \(blue, red\).*: let it run/;
  await assert.rejects(bench.order('m1'), { code: 'INVALID_REQUEST', message });
  assert.equal(bench.metadata.metadata.Migration, null);
});

test('other devices of the machine are refused by their names, and nothing is asked of the guest', async (t) => {
  const bench = await migrationBench(t, { devices: `${both}${device('gpu-card')}<hostdev type='usb'/>` });
  const message = /devices of the host \(ua-gpu-card, one without a name\) is not supported/;
  await assert.rejects(bench.order('m1'), { code: 'NOT_SUPPORTED', message });
  assert.deepEqual(guest(bench).asked(), []);
});

test('an interface that only has such a name is left alone', async (t) => {
  const bench = await migrationBench(t, {
    devices: "<interface type='ethernet'><alias name='ua-sriov-blue'/></interface>",
  });
  await bench.order('m1');
  await bench.clock.pass(0);
  const { asked, hasMigrated } = guest(bench);
  assert.deepEqual([asked(), hasMigrated()], [[], true]);
});
