import assert from 'node:assert/strict';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { type DomainRef, LibvirtError } from '../../../../src/libvirt/index.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { domainName, job, type MigrationBench, migratingVmi, migrationBench, noJob } from './bench.ts';

const incoming = { type: 2, params: new Map([['operation', 4]]) };
/** What libvirt 9 answers on a target. */
const refusesStats = new LibvirtError(
  'OPERATION_UNSUPPORTED',
  'migration statistics are available only on the source host',
);

/** QEMU waits here, paused, as libvirt reports it. */
async function incomingDomain({ hypervisor }: MigrationBench): Promise<DomainRef> {
  const domain = await hypervisor.define(`<domain><name>${domainName}</name></domain>`);
  hypervisor.pretend(domainName, 3, 2);
  hypervisor.job = incoming;
  hypervisor.emit({ kind: 'lifecycle', domain, event: 2, detail: 1 });
  return domain;
}

function resumed({ hypervisor }: MigrationBench, domain: DomainRef): void {
  hypervisor.pretend(domainName, 1, 2);
  hypervisor.emit({ kind: 'lifecycle', domain, event: 4, detail: 1 });
}

test('making ready defines no domain, and is noted; as often as it is asked for', async (t) => {
  let prepared = 0;
  const bench = await migrationBench(t, {
    role: 'target',
    prepare: async () => `<domain><x>${++prepared}</x></domain>`,
  });
  const { migration, metadata, hypervisor, dir } = bench;
  await migration.prepareTarget(migratingVmi('m1'), {});
  const first = metadata.metadata.Migration;
  await migration.prepareTarget(migratingVmi('m1'), {});
  assert.equal(prepared, 2);
  assert.deepEqual(metadata.metadata.Migration, first);
  assert.deepEqual([first?.UID, first?.Mode, first?.EndTimestamp], ['m1', 'PreCopy', null]);
  assert.ok(!hypervisor.calls.includes('define'));
  assert.equal(statSync(path.join(dir, 'migrationproxy')).mode & 0o777, 0o755);
});

test('what cannot be made ready is the answer, and nothing is noted', async (t) => {
  const prepare = () => Promise.reject(new Error('no room for volume root'));
  const { migration, metadata } = await migrationBench(t, { role: 'target', prepare });
  await assert.rejects(migration.prepareTarget(migratingVmi('m1'), {}), /no room for volume root/);
  assert.equal(metadata.metadata.Migration, null);
});

test('a guest that runs here is not received once more', async (t) => {
  const { migration } = await migrationBench(t);
  await assert.rejects(migration.prepareTarget(migratingVmi('m1'), {}), {
    code: 'MIGRATING',
    message: /runs here already/,
  });
});

test('a guest on its way is changed by nobody, and its coming is not prepared for another migration', async (t) => {
  const bench = await migrationBench(t, { role: 'target' });
  const { migration, lock, hypervisor } = bench;
  await migration.prepareTarget(migratingVmi('m1'), {});
  migration.refuse('SyncVMI');
  const domain = await incomingDomain(bench);
  await assert.rejects(
    lock.run('SyncVMI', async () => assert.fail()),
    { code: 'MIGRATING' },
  );
  await assert.rejects(migration.giveWay('SignalShutdownVMI'), { code: 'MIGRATING' });
  await assert.rejects(migration.prepareTarget(migratingVmi('m2'), {}), { code: 'MIGRATING', message: /migration m1/ });
  hypervisor.emit({ kind: 'lifecycle', domain, event: 5, detail: 5 });
  migration.refuse('SyncVMI');
});

test('a guest has arrived when it runs and libvirt has no job any more', async (t) => {
  const bench = await migrationBench(t, { role: 'target' });
  const { migration, metadata, hypervisor, clock } = bench;
  await migration.prepareTarget(migratingVmi('m1'), {});
  const domain = await incomingDomain(bench);
  await clock.pass(5_000);
  resumed(bench, domain);
  await clock.pass(1_000);
  assert.equal(metadata.metadata.Migration?.EndTimestamp, null);
  hypervisor.failures.set('jobStats', refusesStats);
  await clock.pass(200);
  assert.equal(metadata.metadata.Migration?.EndTimestamp, null);
  hypervisor.job = noJob;
  await clock.pass(200);
  assert.ok(metadata.metadata.Migration?.EndTimestamp);
  assert.equal(metadata.state.run.kind, 'has-run');
  migration.refuse('SyncVMI');
  await assert.rejects(migration.prepareTarget(migratingVmi('m1'), {}), /already executed/);
});

test('a guest that was paused by its user arrives paused, and no sync resumes it', async (t) => {
  const bench = await migrationBench(t, { role: 'target' });
  const { migration, metadata, hypervisor, clock } = bench;
  const conditions = [{ type: 'Paused', status: 'True' }];
  await migration.prepareTarget(migratingVmi('m1', { conditions }), {});
  assert.equal(metadata.state.run.paused, true);
  const domain = await incomingDomain(bench);
  hypervisor.job = noJob;
  hypervisor.emit({ kind: 'lifecycle', domain, event: 3, detail: 0 });
  await clock.pass(200);
  assert.ok(metadata.metadata.Migration?.EndTimestamp);
});

test('a guest that does not come leaves no end: its domain is gone', async (t) => {
  const bench = await migrationBench(t, { role: 'target' });
  await bench.migration.prepareTarget(migratingVmi('m1'), {});
  const domain = await incomingDomain(bench);
  bench.hypervisor.domains.clear();
  bench.hypervisor.emit({ kind: 'lifecycle', domain, event: 5, detail: 5 });
  await bench.clock.pass(61_000);
  assert.equal(bench.metadata.metadata.Migration?.EndTimestamp, null);
});

test('in post-copy the guest runs here, and has not arrived until its memory is here, too', async (t) => {
  const bench = await migrationBench(t, { role: 'target' });
  await bench.migration.prepareTarget(migratingVmi('m1'), {});
  const domain = await incomingDomain(bench);
  bench.hypervisor.emit({ kind: 'lifecycle', domain, event: 4, detail: 3 });
  await bench.clock.pass(1_000);
  assert.deepEqual(
    [bench.metadata.metadata.Migration?.Mode, bench.metadata.metadata.Migration?.EndTimestamp],
    ['PostCopy', null],
  );
});

test('a launcher that was started anew, or whose daemon was, finds the guest that came meanwhile', async (t) => {
  const bench = await migrationBench(t, { role: 'target' });
  await bench.migration.prepareTarget(migratingVmi('m1'), {});
  await incomingDomain(bench);
  const next = await bench.restarted();
  assert.throws(() => next.migration.refuse('SyncVMI'), { code: 'MIGRATING' });
  next.hypervisor.job = noJob;
  next.hypervisor.pretend(domainName, 1, 2);
  next.hypervisor.emit({ kind: 'connected' });
  await settle();
  assert.ok(next.metadata.metadata.Migration?.EndTimestamp);
});

test('images that are made anew here are as large as those of the source', async (t) => {
  const xml = (file: string) =>
    `<domain><devices><disk type='file' device='cdrom'><source file='${file}'/><target dev='sda'/><readonly/><alias name='ua-seed'/></disk></devices></domain>`;
  let image = '';
  const bench = await migrationBench(t, { role: 'target', prepare: async () => xml(image) });
  image = path.join(bench.dir, 'noCloud.iso');
  writeFileSync(image, 'content');
  const volumeStatus = [{ name: 'seed', target: 'sda', size: 4096 }];
  await bench.migration.prepareTarget(migratingVmi('m1', { volumeStatus }), {});
  assert.equal(statSync(image).size, 4096);
});

test('when the guest has arrived its clock is set, and interfaces that ask for it lose their link for a moment', async (t) => {
  const nic = (name: string) => `<interface type='ethernet'><alias name='ua-${name}'/></interface>`;
  const { migration, hypervisor, clock } = await migrationBench(t, { devices: nic('one') + nic('two') });
  const updates: string[] = [];
  hypervisor.updateDevice = async (...[, xml]: unknown[]) => void updates.push(String(xml));
  const done = migration.finalize({ one: 'link-refresh', two: 'other', gone: 'link-refresh' });
  await clock.pass(100);
  await done;
  assert.deepEqual(
    updates.map((xml) => [xml.includes('ua-one'), /link state=.down/.test(xml)]),
    [
      [true, true],
      [true, false],
    ],
  );
  assert.ok(hypervisor.calls.includes('syncTime'));
});

test('of a guest that leaves again, what happens to it here is no arrival', async (t) => {
  const { hypervisor, metadata, order, clock, dir } = await migrationBench(t);
  hypervisor.onMigrate = () => new Promise(() => undefined);
  hypervisor.job = job();
  await order('m1');
  const domain = hypervisor.domains.get(domainName)?.ref ?? assert.fail();
  hypervisor.emit({ kind: 'lifecycle', domain, event: 3, detail: 0 });
  hypervisor.emit({ kind: 'lifecycle', domain, event: 4, detail: 1 });
  await clock.pass(2_000);
  assert.equal(metadata.metadata.Migration?.EndTimestamp, null);
  assert.ok(!existsSync(path.join(dir, 'migrationproxy')));
});

test('a guest that waits for the rest of its memory is noted as waiting, until it comes', async (t) => {
  const bench = await migrationBench(t, { role: 'target' });
  const { metadata, hypervisor, clock } = bench;
  await bench.migration.prepareTarget(migratingVmi('m1'), {});
  const domain = await incomingDomain(bench);
  const happens = (detail: number) => hypervisor.emit({ kind: 'lifecycle', domain, event: 4, detail });
  const noted = () => [metadata.metadata.Migration?.Mode, metadata.metadata.Migration?.FailureReason];
  happens(3);
  assert.deepEqual(noted(), ['PostCopy', '']);
  happens(4);
  assert.match(noted().join(' '), /^PostCopy post-copy broke: the guest waits for memory/);
  happens(3);
  assert.deepEqual(noted(), ['PostCopy', '']);
  happens(4);
  hypervisor.job = noJob;
  resumed(bench, domain);
  await clock.pass(200);
  assert.ok(metadata.metadata.Migration?.EndTimestamp);
  assert.deepEqual(noted(), ['PostCopy', '']);
});
