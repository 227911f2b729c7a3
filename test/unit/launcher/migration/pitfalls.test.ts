import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { daemonConf } from '../../../../src/launcher/daemon/config.ts';
import { readLiveDomain } from '../../../../src/launcher/domain/index.ts';
import { type MigrationFacts, planMigration } from '../../../../src/launcher/migration/plan.ts';
import { migrationSettings } from '../../../../src/launcher/migration/settings.ts';
import { LibvirtError, MigrateFlag } from '../../../../src/libvirt/index.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import {
  brokenPipe,
  disk,
  domainName,
  HeldCall,
  job,
  json,
  migratingVmi,
  migrationBench,
  noJob,
  usual,
} from './bench.ts';

/** What goes wrong with libvirt 9.0 and QEMU 7.2 when nobody takes care, each seen on real ones; docs/migration-pitfalls.md has all, with their tests. */

const block = { migrationMethod: 'BlockMigration' };
const volumes = [
  { name: 'root', containerDisk: { image: 'x' } },
  { name: 'data', emptyDisk: { capacity: '1Gi' } },
  { name: 'claim', persistentVolumeClaim: { claimName: 'c' } },
  { name: 'seed', cloudInitNoCloud: { userData: '' } },
];

function guestOf(status: object = {}): VirtualMachineInstance {
  const vmi = migratingVmi('m1', status);
  return { ...vmi, spec: { ...vmi.spec, volumes } } as VirtualMachineInstance;
}

function factsOf(vmi: VirtualMachineInstance, change: Partial<MigrationFacts> = {}): MigrationFacts {
  const readOnly = '<readonly/>';
  const disks = `${disk('root', 'vda')}${disk('data', 'vdb')}${disk('claim', 'vdc')}${disk('seed', 'vdd', readOnly)}`;
  return {
    vmi,
    disks: readLiveDomain(`<domain><devices>${disks}</devices></domain>`).disks,
    hostDevices: [],
    qemuMajor: 7,
    isPausedByUser: false,
    proxyDir: '/p',
    isSession: false,
    ...change,
  };
}

const plan = (change: object = {}, facts = factsOf(guestOf(block))) =>
  planMigration(facts, migrationSettings(json({ ...usual, ...change })));
const has = ({ flags }: { readonly flags: number }, flag: number) => (flags & flag) !== 0;

test('pitfall 1: two daemons of one machine are told apart by a host_uuid of their own', () => {
  assert.match(daemonConf({ hostUuid: 'a-b' }), /^host_uuid = "a-b"$/m);
});

test('pitfall 3: the daemon of a root launcher is called by the system path, that of another one by the session path', () => {
  const uriOf = (facts: MigrationFacts) => plan({}, facts).target.connectUri;
  const { uid = '' } = guestOf().metadata;
  assert.equal(uriOf(factsOf(guestOf())), `qemu+unix:///system?socket=/p/${uid}-source.sock`);
  assert.match(uriOf(factsOf(guestOf(), { isSession: true })), /:\/\/\/session\?/);
  assert.match(uriOf(factsOf(guestOf({ runtimeUser: 107 }))), /:\/\/\/session\?/);
});

test('pitfall 4: what only this node has is copied, what is shared is not, and a check of libvirt is lifted on request only', () => {
  const copied = plan();
  assert.deepEqual(copied.target.disks, ['vda', 'vdb']);
  assert.ok(has(copied, MigrateFlag.NON_SHARED_INC) && !has(copied, MigrateFlag.UNSAFE));
  assert.match(copied.target.disksUri ?? '', /^unix:\/\/\/p\/.*-49153-source\.sock$/);
  const shared = plan({ UnsafeMigration: true }, factsOf(guestOf()));
  assert.equal(shared.target.disks, undefined);
  assert.ok(!has(shared, MigrateFlag.NON_SHARED_INC) && has(shared, MigrateFlag.UNSAFE));
});

test('pitfall 6: a read-only disk is never copied, for which libvirt would refuse the whole migration', () => {
  assert.ok(!plan().target.disks?.includes('vdd'));
});

test('pitfall 7: libvirt is never asked to detect zeroes, which this version does not know', () => {
  assert.deepEqual(Object.keys(plan().target).sort(), [
    'connectUri',
    'destinationName',
    'disks',
    'disksUri',
    'migrateUri',
  ]);
});

test('pitfall 8: a compression that libvirt does not know is left out, and the user reads it', async (t) => {
  const { order, events, hypervisor } = await migrationBench(t);
  await order('m1', { ...usual, Compression: 'zstd' });
  await settle();
  assert.ok(hypervisor.calls.includes('migrate'));
  assert.deepEqual(
    events.map(({ reason, type }) => [reason, type]),
    [['MigrationAdjusted', 'Warning']],
  );
  assert.match(events[0]?.message ?? '', /not compressed: zstd/);
});

test('pitfall 9: where post-copy is not permitted the guest migrates without it, and the user reads why', async (t) => {
  const { order, events, hypervisor, metadata } = await migrationBench(t);
  const tried: boolean[] = [];
  hypervisor.onMigrate = async (_target, flags) => {
    tried.push(has({ flags }, MigrateFlag.POSTCOPY));
    if (tried.length > 1) return;
    const text = "unable to execute QEMU command 'migrate-set-capabilities': Postcopy is not supported";
    throw new LibvirtError('INTERNAL_ERROR', `internal error: ${text}`);
  };
  await order('m1', { ...usual, AllowPostCopy: true });
  await settle();
  assert.deepEqual(tried, [true, false]);
  assert.equal(metadata.metadata.Migration?.Failed, false);
  assert.match(events[0]?.message ?? '', /migrates without it: .*Postcopy is not supported/);
});

test('pitfall 9: without the flag nothing switches to post-copy later', async (t) => {
  const { order, hypervisor, metadata, clock } = await migrationBench(t);
  let tries = 0;
  hypervisor.onMigrate = () =>
    tries++ === 0
      ? Promise.reject(new LibvirtError('INTERNAL_ERROR', 'Postcopy is not supported'))
      : new Promise(() => undefined);
  hypervisor.job = job();
  await order('m1', { ...usual, AllowPostCopy: true, AllowWorkloadDisruption: true, CompletionTimeoutPerGiB: 1 });
  await clock.pass(1_500);
  assert.equal(metadata.metadata.Migration?.Mode, 'Paused');
  assert.ok(!hypervisor.calls.includes('startPostCopy'));
});

test('pitfall 10: several connections only with a QEMU that tells them apart in any order', () => {
  const [old, recent] = [7, 8].map((qemuMajor) =>
    plan({ ParallelMigrationThreads: 8 }, factsOf(guestOf(), { qemuMajor })),
  );
  assert.ok(old && !has(old, MigrateFlag.PARALLEL));
  assert.deepEqual([old.target.parallelConnections, old.notes.length], [undefined, 1]);
  assert.ok(recent && has(recent, MigrateFlag.PARALLEL));
  assert.equal(recent.target.parallelConnections, 8);
});

test('the directory that QEMU binds its sockets in is there again when a guest is to come', async (t) => {
  const { migration, dir } = await migrationBench(t, { role: 'target' });
  await migration.prepareTarget(guestOf(), {});
  await rm(path.join(dir, 'migrationproxy'), { recursive: true });
  await migration.prepareTarget(guestOf(), {});
  assert.ok(existsSync(path.join(dir, 'migrationproxy')));
});

test('pitfall 12: a frozen stream is noticed by us alone, and what was aborted is known from our order, not from the error', async (t) => {
  const { order, hypervisor, metadata, clock } = await migrationBench(t);
  const call = new HeldCall();
  hypervisor.onMigrate = call.run;
  hypervisor.onAbort = async () => call.fail(brokenPipe);
  hypervisor.job = job({ data_processed: 7n, data_remaining: 9n });
  await order('m1', { ...usual, ProgressTimeout: 5 });
  await clock.pass(4_000);
  assert.equal(metadata.metadata.Migration?.EndTimestamp, null);
  await clock.pass(3_000);
  const { AbortStatus, FailureReason } = metadata.metadata.Migration ?? assert.fail();
  assert.equal(AbortStatus, 'Succeeded');
  assert.match(FailureReason, /^Live migration has been aborted: no data has moved for \d s$/);
});

test('pitfall 12: the same error without an order of ours is a failure', async (t) => {
  const { order, hypervisor, metadata } = await migrationBench(t);
  hypervisor.onMigrate = () => Promise.reject(brokenPipe);
  await order('m1');
  await settle();
  const { AbortStatus, FailureReason } = metadata.metadata.Migration ?? assert.fail();
  assert.equal(AbortStatus, '');
  assert.match(FailureReason, /Broken pipe/);
});

test('pitfall 13: when the daemon is lost, the domain is asked what became of the guest as soon as it can be', async (t) => {
  const lost = new LibvirtError('CONNECTION_LOST', 'connection to libvirt lost');
  for (const [state, reason, failed] of [
    [1, 1, true],
    [5, 4, false],
  ] as const) {
    const { order, hypervisor, metadata, clock } = await migrationBench(t);
    const call = new HeldCall();
    hypervisor.onMigrate = call.run;
    await order('m1');
    const lookup = hypervisor.lookup.bind(hypervisor);
    hypervisor.lookup = () => Promise.reject(lost);
    call.fail(lost);
    await clock.pass(10_000);
    assert.equal(metadata.metadata.Migration?.EndTimestamp, null);
    hypervisor.lookup = lookup;
    hypervisor.job = job();
    await clock.pass(120_000);
    assert.equal(metadata.metadata.Migration?.EndTimestamp, null, 'it goes on without us');
    hypervisor.job = noJob;
    hypervisor.pretend(domainName, state, reason);
    await clock.pass(1_000);
    assert.equal(metadata.metadata.Migration?.Failed, failed);
    assert.ok(metadata.metadata.Migration?.EndTimestamp);
  }
});

test('the pause that the policy allows is set before the migration begins: QEMU would aim at its own', async (t) => {
  const { order, hypervisor } = await migrationBench(t);
  await order('m1', { ...usual, MaxDowntimeMs: 120 });
  await settle();
  const [set, begun] = ['setMaxDowntime 120', 'migrate'].map((call) => hypervisor.calls.indexOf(call));
  assert.ok(set !== undefined && begun !== undefined && set >= 0 && set < begun);
});

test('a pause that QEMU does not take costs no migration', async (t) => {
  const { order, hypervisor, metadata } = await migrationBench(t);
  hypervisor.failures.set('setMaxDowntime', new LibvirtError('OPERATION_FAILED', 'no'));
  await order('m1');
  await settle();
  assert.equal(metadata.metadata.Migration?.Failed, false);
});

test('volumes and statuses of a wrong shape are none', async (t) => {
  const vmi = { ...guestOf(block), spec: { ...guestOf().spec, volumes: 'x' } } as unknown as VirtualMachineInstance;
  assert.deepEqual(plan({}, factsOf(vmi)).target.disks, ['vda', 'vdb', 'vdc']);
  const { migration } = await migrationBench(t, { role: 'target' });
  await migration.prepareTarget(guestOf({ volumeStatus: { name: 1 } }), {});
});

test('what this launcher cannot move is refused in words, before anything is noted', async (t) => {
  const refused = (vmi: VirtualMachineInstance, change: Partial<MigrationFacts> = {}) =>
    assert.throws(() => plan({}, factsOf(vmi, change)), { code: 'NOT_SUPPORTED' });
  const { spec } = guestOf();
  refused({ ...guestOf(), spec: { ...spec, domain: { ...spec.domain, cpu: { dedicatedCpuPlacement: true } } } });
  refused(guestOf(), { hostDevices: ['ua-sriov-blue', 'ua-gpu-card'] });
  refused(guestOf({ migratedVolumes: [{ volumeName: 'claim' }] }));
  const { order, metadata } = await migrationBench(t);
  await assert.rejects(order('m1', usual, { migratedVolumes: [{ volumeName: 'x' }] }), { code: 'NOT_SUPPORTED' });
  assert.equal(metadata.metadata.Migration, null);
});
