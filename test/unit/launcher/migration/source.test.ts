import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pausedOnPurpose } from '../../../../src/launcher/lifecycle/index.ts';
import { begunMigration } from '../../../../src/launcher/migration/record.ts';
import { LibvirtError, MigrateFlag, type MigrationTarget } from '../../../../src/libvirt/index.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';
import { disk, domainName, HeldCall, job, json, migratingVmi, migrationBench, noJob, usual } from './bench.ts';

test('an order is taken at once, carried out in the background, and noted with its begin and its end', async (t) => {
  const { hypervisor, metadata, order } = await migrationBench(t);
  const call = new HeldCall();
  hypervisor.onMigrate = call.run;
  await order('m1');
  const { StartTimestamp, ...begun } = metadata.metadata.Migration ?? assert.fail();
  assert.ok(StartTimestamp);
  assert.deepEqual(begun, {
    UID: 'm1',
    EndTimestamp: null,
    Failed: false,
    FailureReason: '',
    AbortStatus: '',
    Mode: 'PreCopy',
    Resumable: true,
  });
  call.end();
  await settle();
  const ended = metadata.metadata.Migration ?? assert.fail();
  assert.ok(ended.EndTimestamp);
  assert.deepEqual([ended.Failed, ended.FailureReason, ended.AbortStatus], [false, '', '']);
});

test('the same order again changes nothing while it is under way, and is told of its end afterwards', async (t) => {
  const { hypervisor, order } = await migrationBench(t);
  const call = new HeldCall();
  hypervisor.onMigrate = call.run;
  await order('m1');
  await order('m1');
  call.fail(new LibvirtError('OPERATION_FAILED', 'no'));
  await settle();
  assert.equal(hypervisor.calls.filter((name) => name === 'migrate').length, 1);
  await assert.rejects(
    order('m1'),
    /^LauncherError: migration job m1 already executed, finished at .*, failed: true, abortStatus: $/,
  );
});

test('a second migration of the same guest is refused', async (t) => {
  const { hypervisor, order } = await migrationBench(t);
  hypervisor.onMigrate = new HeldCall().run;
  await order('m1');
  await assert.rejects(order('m2'), { code: 'MIGRATING', message: /migration m1/ });
});

test('what an order lacks is said', async (t) => {
  const { migration, hypervisor } = await migrationBench(t);
  await assert.rejects(migration.migrate(migratingVmi(''), json(usual)), /until migrationState is ready/);
  await assert.rejects(migration.migrate(migratingVmi('m1'), Buffer.alloc(0)), /no usable options/);
  hypervisor.end(domainName, 1);
  await assert.rejects(migration.migrate(migratingVmi('m1'), json(usual)), /only a guest that runs/);
  hypervisor.domains.clear();
  await assert.rejects(migration.migrate(migratingVmi('m1'), json(usual)), { code: 'DOMAIN_NOT_FOUND' });
});

test('a failure is noted in the words of libvirt, and the next migration may begin', async (t) => {
  const { hypervisor, metadata, order } = await migrationBench(t);
  hypervisor.onMigrate = () =>
    Promise.reject(new LibvirtError('INTERNAL_ERROR', 'internal error: no', { libvirtCode: 1 }));
  await order('m1');
  await settle();
  const { Failed, FailureReason } = metadata.metadata.Migration ?? assert.fail();
  assert.deepEqual([Failed, FailureReason], [true, "LibvirtError(Code=1, Domain=0, Message='internal error: no')"]);
  hypervisor.onMigrate = async () => undefined;
  await order('m2');
  await settle();
  assert.equal(metadata.metadata.Migration?.Failed, false);
});

test('a daemon that goes before the guest can leave is a loss of the migration, and no refusal of it', async (t) => {
  const { hypervisor, metadata, order } = await migrationBench(t);
  const state = hypervisor.state.bind(hypervisor);
  hypervisor.state = () => Promise.reject(new LibvirtError('CONNECTION_LOST', 'connection to libvirt lost'));
  await order('m1');
  const { UID, Failed, FailureReason, StartTimestamp, EndTimestamp } = metadata.metadata.Migration ?? assert.fail();
  assert.deepEqual([UID, Failed, EndTimestamp], ['m1', true, StartTimestamp]);
  assert.match(FailureReason, /connection to libvirt lost/);
  await assert.rejects(order('m1'), { code: 'CONNECTION_LOST' });
  hypervisor.state = state;
  await order('m2');
  await settle();
  assert.equal(metadata.metadata.Migration?.Failed, false);
});

test('a daemon that is away when a broken post-copy is to be resumed leaves it open', async (t) => {
  const { hypervisor, metadata, order } = await migrationBench(t);
  metadata.updateMetadata({ Migration: { ...begunMigration('m1', new Date()), Mode: 'PostCopy' } });
  hypervisor.state = () => Promise.reject(new LibvirtError('CONNECTION_LOST', 'connection to libvirt lost'));
  await assert.rejects(order('m1'), { code: 'CONNECTION_LOST' });
  assert.equal(metadata.metadata.Migration?.EndTimestamp, null);
});

test('a cancelled migration is aborted, and the abort is noted from its order on', async (t) => {
  const { hypervisor, metadata, migration, order } = await migrationBench(t);
  const call = new HeldCall();
  hypervisor.onMigrate = call.run;
  hypervisor.job = job();
  const seen = new Set<string | undefined>();
  metadata.onChange(() => seen.add(metadata.metadata.Migration?.AbortStatus));
  await order('m1');
  migration.cancel(migratingVmi('m1'));
  await settle();
  migration.cancel(migratingVmi('m1'));
  call.fail(new LibvirtError('OPERATION_ABORTED', "operation aborted: job 'migration out' canceled by client"));
  await settle();
  assert.deepEqual([...seen], ['', 'Aborting', 'Succeeded']);
  assert.equal(metadata.metadata.Migration?.FailureReason, 'Live migration has been aborted');
  assert.equal(hypervisor.calls.filter((name) => name === 'abortJob').length, 1);
});

test('a cancel before libvirt has a job waits for it', async (t) => {
  const { hypervisor, migration, order, clock } = await migrationBench(t);
  hypervisor.onMigrate = new HeldCall().run;
  await order('m1');
  migration.cancel(migratingVmi('m1'));
  await clock.pass(5_000);
  assert.ok(!hypervisor.calls.includes('abortJob'));
  hypervisor.job = job();
  await clock.pass(1_000);
  assert.ok(hypervisor.calls.includes('abortJob'));
});

test('a cancel that finds no job in its time has failed, and may be asked for again', async (t) => {
  const { hypervisor, migration, metadata, order, clock } = await migrationBench(t);
  hypervisor.onMigrate = new HeldCall().run;
  await order('m1');
  migration.cancel(migratingVmi('m1'));
  await clock.pass(31_000);
  assert.equal(metadata.metadata.Migration?.AbortStatus, 'Failed');
  hypervisor.job = job();
  migration.cancel(migratingVmi('m1'));
  await clock.pass(1_000);
  assert.equal(metadata.metadata.Migration?.AbortStatus, 'Succeeded');
});

test('a cancel of another migration, or of none, has no effect', async (t) => {
  const { hypervisor, migration, metadata, order, clock } = await migrationBench(t);
  migration.cancel(migratingVmi('m1'));
  hypervisor.onMigrate = new HeldCall().run;
  hypervisor.job = job();
  await order('m1');
  migration.cancel(migratingVmi('m0'));
  await clock.pass(1_000);
  assert.ok(!hypervisor.calls.includes('abortJob'));
  assert.equal(metadata.metadata.Migration?.AbortStatus, '');
});

test('an abort that comes too late is no abort: the guest has left', async (t) => {
  const { hypervisor, migration, metadata, order } = await migrationBench(t);
  const call = new HeldCall();
  hypervisor.onMigrate = call.run;
  hypervisor.job = job();
  await order('m1');
  migration.cancel(migratingVmi('m1'));
  await settle();
  call.end();
  await settle();
  const { Failed, AbortStatus } = metadata.metadata.Migration ?? assert.fail();
  assert.deepEqual([Failed, AbortStatus], [false, 'Failed']);
});

test('changes of a guest that leaves are refused, and those that wait already, too', async (t) => {
  const { hypervisor, lock, order, migration } = await migrationBench(t);
  hypervisor.onMigrate = new HeldCall().run;
  const ordered = order('m1');
  const waiting = lock.run('PauseVMI', async () => assert.fail());
  await assert.rejects(waiting, {
    code: 'MIGRATING',
    message: /^PauseVMI: not while the guest is being migrated \(migration m1\)/,
  });
  await ordered;
  await assert.rejects(
    lock.run('SyncVMI', async () => assert.fail()),
    { code: 'MIGRATING' },
  );
  assert.throws(() => migration.refuse('ResetVMI'), { code: 'MIGRATING' });
});

test('a shutdown ends a migration first, and waits for its end', async (t) => {
  const { hypervisor, migration, metadata, order } = await migrationBench(t);
  const call = new HeldCall();
  hypervisor.onMigrate = call.run;
  hypervisor.job = job();
  hypervisor.onAbort = async () => call.fail(new LibvirtError('OPERATION_ABORTED', 'aborted'));
  await migration.giveWay('SignalShutdownVMI');
  await order('m1');
  await migration.giveWay('SignalShutdownVMI');
  assert.equal(metadata.metadata.Migration?.FailureReason, 'Live migration has been aborted: SignalShutdownVMI');
  assert.doesNotThrow(() => migration.refuse('SignalShutdownVMI'));
});

test('a migration that does not end for a shutdown holds it up only for a time, in words', async (t) => {
  const { hypervisor, migration, order, clock } = await migrationBench(t);
  hypervisor.onMigrate = new HeldCall().run;
  hypervisor.job = job();
  await order('m1');
  const refused = assert.rejects(migration.giveWay('SignalShutdownVMI'), {
    code: 'MIGRATING',
    message: /not over yet/,
  });
  await clock.pass(16_000);
  await refused;
});

test('a guest in post-copy is neither cancelled nor shut down', async (t) => {
  const { hypervisor, migration, metadata, order, clock } = await migrationBench(t);
  hypervisor.onMigrate = new HeldCall().run;
  hypervisor.job = job();
  await order('m1', { ...usual, AllowPostCopy: true, AllowWorkloadDisruption: true, CompletionTimeoutPerGiB: 1 });
  await clock.pass(3_000);
  assert.equal(metadata.metadata.Migration?.Mode, 'PostCopy');
  migration.cancel(migratingVmi('m1'));
  await settle();
  assert.ok(!hypervisor.calls.includes('abortJob'));
  assert.equal(metadata.metadata.Migration?.AbortStatus, 'Failed');
  await assert.rejects(migration.giveWay('SignalShutdownVMI'), { code: 'MIGRATING' });
});

test('a migration with a stall detector is looked at when a pass begins, and switched by the pause that QEMU may take', async (t) => {
  const { hypervisor, metadata, order, clock } = await migrationBench(t);
  hypervisor.onMigrate = () => new Promise(() => undefined);
  const StallDetectorOptions = { StallMargin: 0.1, StallProgressTimeout: 1, SwitchoverTimeout: 60 };
  await order('m1', { ...usual, AllowWorkloadDisruption: true, StallDetectorOptions });
  const domain = hypervisor.domains.get(domainName)?.ref ?? assert.fail();
  for (const data_processed of [1n, 2n, 3n]) {
    hypervisor.job = job({ data_processed, data_remaining: 5_000_000n, memory_bps: 1_000_000n });
    await clock.pass(1_000);
    hypervisor.emit({ kind: 'migration-pass', domain });
    await settle();
  }
  assert.deepEqual(
    hypervisor.calls.filter((call) => call.startsWith('setMaxDowntime')),
    ['setMaxDowntime 250', 'setMaxDowntime 2000000'],
  );
  hypervisor.pretend(domainName, 3, 2);
  await clock.pass(1_000);
  assert.equal(metadata.metadata.Migration?.Mode, 'Paused');
});

test('a guest that was paused for its migration runs again when that has failed', async (t) => {
  const { hypervisor, metadata, order, clock } = await migrationBench(t);
  const call = new HeldCall();
  hypervisor.onMigrate = call.run;
  hypervisor.job = job();
  await order('m1', { ...usual, AllowWorkloadDisruption: true, CompletionTimeoutPerGiB: 1 });
  await clock.pass(1_400);
  assert.equal(metadata.metadata.Migration?.Mode, 'Paused');
  call.fail(new LibvirtError('OPERATION_FAILED', 'no'));
  await settle();
  assert.equal((await hypervisor.state(hypervisor.domains.get(domainName)?.ref ?? assert.fail())).state, 1);
});

test('a guest that its user has paused stays paused when its migration has taken too long and failed', async (t) => {
  const { hypervisor, metadata, order, clock } = await migrationBench(t);
  const ref = hypervisor.domains.get(domainName)?.ref ?? assert.fail();
  await hypervisor.suspend(ref);
  metadata.record(pausedOnPurpose(true));
  const call = new HeldCall();
  hypervisor.onMigrate = call.run;
  hypervisor.job = job();
  await order('m1', { ...usual, AllowWorkloadDisruption: true, CompletionTimeoutPerGiB: 1 });
  await clock.pass(1_400);
  assert.equal(metadata.metadata.Migration?.Mode, 'Paused');
  call.fail(new LibvirtError('OPERATION_FAILED', 'no'));
  await settle();
  assert.equal(metadata.metadata.Migration?.Failed, true);
  assert.equal((await hypervisor.state(ref)).state, 3);
});

test('a launcher that is started anew after it paused its guest for a migration lets it run when that has failed', async (t) => {
  const first = await migrationBench(t);
  first.hypervisor.onMigrate = new HeldCall().run;
  first.hypervisor.job = job();
  await first.order('m1', { ...usual, AllowWorkloadDisruption: true, CompletionTimeoutPerGiB: 1 });
  await first.clock.pass(1_400);
  assert.equal(first.metadata.metadata.Migration?.Mode, 'Paused');
  const { metadata, hypervisor, clock } = await first.restarted();
  hypervisor.job = noJob;
  await clock.pass(2_000);
  assert.equal(metadata.metadata.Migration?.Failed, true);
  assert.equal((await hypervisor.state(hypervisor.domains.get(domainName)?.ref ?? assert.fail())).state, 1);
});

test('a launcher that is started anew in post-copy does not cancel what cannot be undone', async (t) => {
  const first = await migrationBench(t);
  first.hypervisor.onMigrate = new HeldCall().run;
  first.hypervisor.job = job();
  await first.order('m1', { ...usual, AllowPostCopy: true, AllowWorkloadDisruption: true, CompletionTimeoutPerGiB: 1 });
  await first.clock.pass(1_400);
  assert.equal(first.metadata.metadata.Migration?.Mode, 'PostCopy');
  const { migration, hypervisor, clock } = await first.restarted();
  migration.cancel(migratingVmi('m1'));
  await clock.pass(1_000);
  assert.ok(!hypervisor.calls.some((call) => call.startsWith('abortJob')), hypervisor.calls.join());
});

test('a post-copy that broke stays open, and the next order resumes it', async (t) => {
  const { hypervisor, metadata, order } = await migrationBench(t);
  const flags: number[] = [];
  hypervisor.onMigrate = async (_target, given) => {
    flags.push(given);
    hypervisor.pretend(domainName, 3, 13);
    throw new LibvirtError('OPERATION_FAILED', 'job failed in post-copy phase');
  };
  await order('m1', { ...usual, AllowPostCopy: true });
  await settle();
  const { StartTimestamp, ...broken } = metadata.metadata.Migration ?? assert.fail();
  assert.deepEqual([broken.Mode, broken.EndTimestamp, broken.Failed], ['PostCopy', null, false]);
  hypervisor.onMigrate = async (_target, given) => void flags.push(given);
  await order('m1', { ...usual, AllowPostCopy: true });
  await settle();
  assert.deepEqual(
    flags.map((each) => (each & MigrateFlag.POSTCOPY_RESUME) !== 0),
    [false, true],
  );
  const { Failed, Mode, StartTimestamp: kept } = metadata.metadata.Migration ?? assert.fail();
  assert.deepEqual([Failed, Mode, kept], [false, 'PostCopy', StartTimestamp]);
});

test('a resume is tried again while the daemons are busy with the streams that broke, for a minute at the most', async (t) => {
  const { hypervisor, metadata, order, clock } = await migrationBench(t);
  hypervisor.pretend(domainName, 3, 13);
  let tries = 0;
  hypervisor.onMigrate = async () => {
    tries++;
    throw new LibvirtError(
      'OPERATION_INVALID',
      'migration of domain default_small is being actively monitored by another thread',
    );
  };
  await order('m1');
  await clock.pass(30_000);
  assert.ok(tries > 10);
  assert.equal(metadata.metadata.Migration?.EndTimestamp, null);
  await clock.pass(40_000);
  const triesInAll = tries;
  await clock.pass(10_000);
  assert.equal(tries, triesInAll, 'the next order resumes it');
  assert.equal(metadata.metadata.Migration?.EndTimestamp, null);
  hypervisor.onMigrate = async () => undefined;
  await order('m1');
  await clock.pass(0);
  assert.equal(metadata.metadata.Migration?.Failed, false);
});

test('a launcher that is started anew follows a migration that goes on, and may still cancel it', async (t) => {
  const first = await migrationBench(t);
  first.hypervisor.onMigrate = new HeldCall().run;
  first.hypervisor.job = job();
  await first.order('m1');
  const { migration, metadata, hypervisor, clock, order } = await first.restarted();
  assert.throws(() => migration.refuse('PauseVMI'), { code: 'MIGRATING' });
  await order('m1');
  migration.cancel(migratingVmi('m1'));
  await clock.pass(1_000);
  hypervisor.job = noJob;
  await clock.pass(1_000);
  const { Failed, AbortStatus } = metadata.metadata.Migration ?? assert.fail();
  assert.deepEqual([Failed, AbortStatus], [true, 'Succeeded']);
});

test('a launcher that is started anew finds that its guest has left meanwhile, or has not', async (t) => {
  for (const [leave, failed] of [
    [true, false],
    [false, true],
  ] as const) {
    const first = await migrationBench(t);
    first.hypervisor.onMigrate = new HeldCall().run;
    await first.order('m1');
    first.hypervisor.pretend(domainName, leave ? 5 : 1, leave ? 4 : 1);
    const { metadata } = await first.restarted();
    await settle();
    assert.ok(metadata.metadata.Migration?.EndTimestamp);
    assert.equal(metadata.metadata.Migration?.Failed, failed);
  }
});

test('what is done about a guest that has left waits for the last word of its migration', async (t) => {
  const { hypervisor, migration, order } = await migrationBench(t);
  const call = new HeldCall();
  hypervisor.onMigrate = call.run;
  await order('m1');
  hypervisor.pretend(domainName, 5, 4);
  let isOver = false;
  const waiting = migration.awaitEnd('DeleteVMI').then(() => {
    isOver = true;
  });
  await settle();
  assert.equal(isOver, false);
  call.end();
  await waiting;
  migration.refuse('DeleteVMI');
});

const elsewhere = {
  virtualMachineInstanceUID: '0c7ad33b-0f1f-4c34-9a2e-2b3b5d9a8f10',
  domainNamespace: 'there',
  domainName: 'copy',
};
const toElsewhere = (targetState: object = elsewhere, more: object = {}) => ({
  migrationState: { migrationUid: 'm1', sourceState: { migrationUID: 'm1' }, targetState },
  ...more,
});

test('a guest that becomes the one of another VMI has that one’s name and paths in what libvirt is given', async (t) => {
  const { uid } = launcherVmi().metadata;
  const serial = `<serial><source path='/p/${uid}/virt-serial0'/></serial>`;
  const { hypervisor, order } = await migrationBench(t, { devices: serial });
  const given: MigrationTarget[] = [];
  hypervisor.onMigrate = async (target) => void given.push(target);
  await order('m1', usual, toElsewhere());
  await settle();
  const [{ destinationName, destinationXml, persistentXml, migrateUri } = assert.fail()] = given;
  assert.equal(destinationName, 'there_copy');
  assert.ok(destinationXml?.includes(`/p/${elsewhere.virtualMachineInstanceUID}/virt-serial0`), destinationXml);
  assert.equal(persistentXml, destinationXml);
  // The other side's agent calls its sockets by the UID that the guest comes from.
  assert.match(migrateUri ?? '', new RegExp(`/${uid}-49152-source.sock$`));
});

test('disks of a guest that becomes another VMI’s go with it, and no further than the guest sees them', async (t) => {
  const devices = disk('claim', 'vda');
  const { hypervisor, order } = await migrationBench(t, { devices });
  const given: MigrationTarget[] = [];
  hypervisor.onMigrate = async (target) => void given.push(target);
  await order('m1', usual, toElsewhere(elsewhere, { migratedVolumes: [{ volumeName: 'claim' }] }));
  await settle();
  assert.deepEqual(given[0]?.disks, ['vda']);
  assert.match(given[0]?.destinationXml ?? '', /<slice type="storage" offset="0" size="\d+"\/>/);
});

test('what another VMI cannot take over is refused before anything moves', async (t) => {
  const refused: readonly (readonly [object, RegExp])[] = [
    [toElsewhere({ ...elsewhere, domainName: '../etc' }), /called "\.\.\/etc", which is no name/],
    [toElsewhere({ ...elsewhere, virtualMachineInstanceUID: 'a/b' }), /no name/],
    [
      toElsewhere(elsewhere, {
        migratedVolumes: [
          { volumeName: 'v', sourcePVCInfo: { volumeMode: 'Block' }, destinationPVCInfo: { volumeMode: 'Filesystem' } },
        ],
      }),
      /from a file system to a block device/,
    ],
  ];
  const { hypervisor, order, metadata } = await migrationBench(t);
  for (const [status, words] of refused) await assert.rejects(order('m1', usual, status), words);
  assert.equal(metadata.metadata.Migration, null);
  assert.ok(!hypervisor.calls.includes('migrate'));
});
