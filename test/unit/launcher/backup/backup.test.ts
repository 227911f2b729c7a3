import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import { silentLogger } from '../../../../src/base/index.ts';
import { VmBackup } from '../../../../src/launcher/backup/index.ts';
import { MetadataCache } from '../../../../src/launcher/lifecycle/index.ts';
import type { HypervisorEvent } from '../../../../src/launcher/ports.ts';
import { LibvirtError } from '../../../../src/libvirt/index.ts';
import { TestAuthority } from '../../../fixtures/certificates.ts';
import { eventually, stays } from '../../../fixtures/eventually.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { MemoryHypervisor } from '../../../fixtures/memory-hypervisor.ts';

const record = '/var/lib/libvirt/qemu/cbt/data.qcow2';
const xml = `<domain><name>default_small</name><devices>
  <disk type='file' device='disk'><source file='${record}'/><target dev='vda'/><alias name='ua-data'/></disk>
  <disk type='file' device='disk'><source file='/var/lib/libvirt/qemu/cbt/new.qcow2'/><target dev='vdb'/><alias name='ua-new'/></disk>
  <disk type='file' device='cdrom'><source file='/ci.iso'/><target dev='sda'/><alias name='ua-ci'/></disk>
</devices></domain>`;
const startTime = '2026-01-02T03:04:05Z';

async function guest(t: TestContext, definition = xml) {
  const dir = mkdtempSync(path.join(tmpdir(), 'backup-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const volume = path.join(dir, 'hotplug-disks/target');
  mkdirSync(volume, { recursive: true });
  const hypervisor = new MemoryHypervisor();
  const domain = await hypervisor.define(definition);
  await hypervisor.start(domain, { paused: false });
  hypervisor.onMonitor = () => nodes('/y');
  hypervisor.calls.length = 0;
  const log = silentLogger;
  const metadata = new MetadataCache({ file: path.join(dir, 'state.json') }, { log });
  const frozen: string[] = [];
  const freezer = {
    freeze: async () => void frozen.push('freeze'),
    unfreeze: async () => void frozen.push('thaw'),
  };
  const tunnels: unknown[] = [];
  let reached = () => {};
  const tunnel = {
    open: (to: unknown, connected: () => void) => {
      tunnels.push(to);
      reached = connected;
    },
    close: () => void tunnels.push('closed'),
  };
  const given: string[] = [];
  const giveToQemu = async (file: string) => {
    given.push(path.basename(file));
    if (given.length === 1) throw new Error('the first one cannot be given');
  };
  const deps = { hypervisor, metadata, freezer, tunnel, giveToQemu, log, clock: new FakeClock() };
  const hotplugDir = path.join(dir, 'hotplug-disks');
  const nbdSocket = path.join(dir, 'nbd-sock');
  const options = { domainName: 'default_small', vmiName: 'small', hotplugDir, nbdSocket };
  const backup = new VmBackup(options, deps);
  hypervisor.onEvent((event) => backup.handle(event));
  const order = (change: object = {}, of = backup) =>
    of.order(
      Buffer.from(
        JSON.stringify({
          cmd: 'Start',
          mode: 'Push',
          backupName: 'b',
          backupStartTime: startTime,
          targetPath: volume,
          ...change,
        }),
      ),
    );
  const ended = (success: boolean, message = ''): HypervisorEvent => ({
    ...{ kind: 'job-ended', domain, operation: 9, success, message },
  });
  const told = () => metadata.metadata.Backup ?? {};
  const settled = () => eventually(() => assert.equal(typeof told().EndTimestamp, 'string'));
  const directory = path.join(volume, 'small/b-2026-01-02_03-04-05');
  /** What libvirt has of a backup while it is under way. */
  const begins = () => {
    hypervisor.job = { type: 2, params: new Map([['operation', 9]]) };
  };
  const wrote = () => {
    for (const name of ['data', 'new']) writeFileSync(path.join(directory, `b-${name}.qcow2`), '');
  };
  return {
    tunnels,
    given,
    /** The launcher's connection to the exporter is made. */
    reach: () => reached(),
    begins,
    wrote,
    backup,
    options,
    deps,
    hypervisor,
    domain,
    order,
    ended,
    told,
    settled,
    frozen,
    volume,
    directory,
  };
}

const nodes = (file: string, ...bitmaps: object[]) =>
  JSON.stringify({ return: [{ 'node-name': 'libvirt-1-format', file, 'dirty-bitmaps': bitmaps }, { file: '/x' }] });

test('a backup holds the tracked disks at an instant when the guest is frozen, and is told when it is whole', async (t) => {
  const { hypervisor, order, ended, told, settled, frozen, directory, wrote, given } = await guest(t);
  await order();
  assert.deepEqual(frozen, ['freeze', 'thaw']);
  const [{ backup = '', checkpoint = '' } = {}] = hypervisor.backups;
  assert.match(backup, new RegExp(`<target file=.${directory}/b-data.qcow2.`));
  assert.match(backup, /<disk name=.sda. backup=.no./);
  assert.match(checkpoint, /<name>b-2026-01-02_03-04-05<\/name>.*name=.vda. checkpoint=.bitmap./s);
  assert.deepEqual([told().Completed, told().QuiesceStatus], [false, 'Succeeded']);
  hypervisor.emit({ ...ended(true), operation: 5 } as HypervisorEvent);
  assert.equal(told().EndTimestamp, null);
  wrote();
  hypervisor.emit(ended(true));
  await settled();
  assert.deepEqual([told().Completed, told().Failed, told().BackupMsg], [true, false, '']);
  assert.deepEqual(given, ['b-data.qcow2', 'b-new.qcow2'], 'both are given to QEMU, though one cannot be');
  assert.ok(existsSync(directory));
});

test('a backup is told to be whole when QEMU has closed its files, not before', async (t) => {
  const { hypervisor, deps, order, ended, told, settled, directory, wrote } = await guest(t);
  await order();
  wrote();
  let looks = 0;
  hypervisor.onMonitor = () => nodes(looks++ < 2 ? `${directory}/b-data.qcow2` : record);
  hypervisor.emit(ended(true));
  for (const look of [1, 2]) {
    await eventually(() => assert.equal(looks, look));
    assert.equal(told().EndTimestamp, null);
    await eventually(() => assert.equal(deps.clock.timers, 1));
    deps.clock.advance(100);
  }
  await settled();
  assert.deepEqual([looks, told().Failed], [3, false]);
});

test('a guest that is gone before QEMU has closed the files leaves no backup', async (t) => {
  const { hypervisor, deps, domain, order, ended, told, settled, directory } = await guest(t);
  await order();
  hypervisor.onMonitor = () => nodes(`${directory}/b-data.qcow2`);
  hypervisor.emit(ended(true));
  await eventually(() => assert.equal(deps.clock.timers, 1));
  await hypervisor.destroy(domain, { graceful: false });
  deps.clock.advance(100);
  await settled();
  assert.equal(told().Failed, true);
  assert.match(String(told().BackupMsg), /^the guest stopped before the backup was whole/);
  assert.equal(existsSync(directory), false);
});

test('an abort that comes behind the end says so', async (t) => {
  const { hypervisor, order, begins } = await guest(t);
  await order();
  begins();
  hypervisor.failures.set('abortJob', new LibvirtError('OPERATION_INVALID', 'no job is active on the domain'));
  await assert.rejects(order({ cmd: 'Abort' }), { code: 'INVALID_REQUEST', message: /has just ended/ });
});

test('what failed leaves neither files nor a checkpoint', async (t) => {
  const { hypervisor, order, ended, told, settled, directory, volume } = await guest(t);
  await order();
  writeFileSync(path.join(directory, 'half'), '');
  hypervisor.emit(ended(false, 'No space left on device'));
  await settled();
  assert.equal(told().Failed, true);
  assert.match(String(told().BackupMsg), /^the claim is too small: .* make it larger, or use another one$/);
  assert.equal(existsSync(path.join(volume, 'small')), false);
  assert.ok(hypervisor.calls.includes('deleteCheckpoint'));
});

test('a backup that does not begin leaves nothing and can be asked for again', async (t) => {
  const { hypervisor, order, told, directory, frozen } = await guest(t);
  hypervisor.failures.set('beginBackup', new LibvirtError('OPERATION_FAILED', 'Read-only file system'));
  await assert.rejects(order(), { code: 'INVALID_REQUEST', message: /QEMU may not write to the claim/ });
  assert.equal(existsSync(directory), false);
  assert.deepEqual([told(), frozen], [{}, ['freeze', 'thaw']]);
  await order();
  assert.equal(told().Name, 'b');
});

test('a directory that was there before is nothing that a backup which does not begin takes away', async (t) => {
  const { backup, hypervisor, domain, order, told, directory } = await guest(t);
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, 'b-data.qcow2'), 'whole');
  await assert.rejects(order(), { code: 'SETUP_FAILED', message: /remove it, or give the backup another name/ });
  assert.ok(existsSync(path.join(directory, 'b-data.qcow2')));
  hypervisor.failures.set('xml', new LibvirtError('OPERATION_TIMEOUT', 'busy'));
  const refused = assert.rejects(order());
  backup.handle({ kind: 'lifecycle', domain, event: 5, detail: 0 });
  await refused;
  assert.ok(existsSync(path.join(directory, 'b-data.qcow2')));
  assert.deepEqual(told(), {});
});

test('only disks that have the checkpoint are incremental; libvirt is told of it when it does not know it', async (t) => {
  const { hypervisor, order } = await guest(t);
  hypervisor.onMonitor = () => nodes(record, { name: 'cp' });
  await order({ incremental: 'cp', skipQuiesce: true });
  const xmlOf = hypervisor.backups[0]?.backup ?? '';
  assert.match(xmlOf, /name=.vda. [^>]*backupmode=.incremental. incremental=.cp./);
  assert.match(xmlOf, /name=.vdb. [^>]*backupmode=.full./);
  assert.deepEqual(hypervisor.knownCheckpoints, ['cp']);
});

test('a checkpoint without a usable bitmap is refused as such, by a backup and by a redefinition', async (t) => {
  const { backup, hypervisor, order, told } = await guest(t);
  hypervisor.onMonitor = () => nodes(record, { name: 'cp', inconsistent: true });
  const invalid = { code: 'CHECKPOINT_INVALID', message: /no disk knows checkpoint cp.*forceFullBackup/ };
  await assert.rejects(order({ incremental: 'cp' }), invalid);
  const json = (change: object) => Buffer.from(JSON.stringify({ name: 'cp', creationTime: startTime, ...change }));
  await assert.rejects(backup.redefine(json({})), invalid);
  hypervisor.onMonitor = () => nodes(record, { name: 'cp' });
  hypervisor.failures.set('redefineCheckpoint', new LibvirtError('CHECKPOINT_INCONSISTENT', 'broken'));
  await assert.rejects(backup.redefine(json({})), { code: 'CHECKPOINT_INVALID', message: /checkpoint cp is broken/ });
  hypervisor.failures.set('redefineCheckpoint', new LibvirtError('OPERATION_TIMEOUT', 'busy'));
  await assert.rejects(backup.redefine(json({})), { code: 'OPERATION_TIMEOUT' });
  await backup.redefine(json({}));
  assert.deepEqual([hypervisor.knownCheckpoints, told()], [['cp'], {}]);
});

test('a second backup waits for none: it is refused at once, and the same one again changes nothing', async (t) => {
  const { backup, hypervisor, order } = await guest(t);
  await Promise.all([order(), order(), assert.rejects(order({ backupName: 'c' }), { code: 'BUSY' })]);
  assert.equal(hypervisor.backups.length, 1);
  assert.throws(() => backup.refuse('a migration'), /a migration is not possible until backup b has ended/);
});

test('an abort ends it, and is not told as something else', async (t) => {
  const { hypervisor, order, begins, ended, told, settled } = await guest(t);
  await assert.rejects(order({ cmd: 'Abort' }), { code: 'INVALID_REQUEST', message: /not under way/ });
  await order();
  await assert.rejects(order({ cmd: 'Abort' }), { code: 'BUSY', message: /try again/ });
  begins();
  hypervisor.onAbort = async () => hypervisor.emit(ended(false, 'Operation canceled'));
  await order({ cmd: 'Abort' });
  await settled();
  assert.deepEqual([told().Failed, told().BackupMsg], [true, 'it was aborted']);
});

test('the end of the guest is the end of its backup', async (t) => {
  const { hypervisor, domain, order, told, settled } = await guest(t);
  await order();
  hypervisor.emit({ kind: 'lifecycle', domain, event: 5, detail: 0 });
  await settled();
  assert.match(String(told().BackupMsg), /the guest stopped before the backup was whole/);
});

test('a launcher that was started again goes on with a job that runs, and fails one whose end it has missed', async (t) => {
  const { options, deps, hypervisor, order, begins, told } = await guest(t);
  await order();
  begins();
  const next = new VmBackup(options, deps);
  await next.resume();
  assert.equal(told().EndTimestamp, null);
  hypervisor.job = { type: 0, params: new Map() };
  await next.resume();
  assert.deepEqual([told().Failed, told().Completed], [true, true]);
  assert.match(String(told().BackupMsg), /started again meanwhile .* make another backup/);
});

test('a guest that cannot be frozen is backed up all the same, and that stays told', async (t) => {
  const { hypervisor, deps, order, ended, told, settled, wrote } = await guest(t);
  deps.freezer.freeze = async () => {
    throw new Error('no agent');
  };
  await order();
  wrote();
  hypervisor.emit(ended(true));
  await settled();
  assert.deepEqual([told().Failed, told().QuiesceStatus], [false, 'Failed']);
  assert.equal(told().BackupMsg, "the guest's file systems were not frozen: no agent");
});

test('a pull is brought to the exporter that the agent names, and the connection ends with the backup', async (t) => {
  const { order, begins, hypervisor, ended, settled, tunnels } = await guest(t);
  const toExport = await exportOrder(t);
  const { backupCert: cert, backupKey: key, caCert: ca } = toExport;
  await assert.rejects(order(toExport), /backup b is not under way: there is nothing to be read/);
  await order({ mode: 'Pull' });
  begins();
  await assert.rejects(order({ ...toExport, backupName: 'c' }), /backup c is not under way/);
  for (const [field, value] of [
    ['exportServerAddr', 'a b'],
    ['exportServerName', '../x'],
    ['exportServerName', ''],
    ['backupKey', undefined],
    ['caCert', 'garbage'],
    ['backupCert', ca],
  ] as const) {
    await assert.rejects(order({ ...toExport, [field]: value }), { code: 'INVALID_REQUEST' }, field);
  }
  assert.deepEqual(tunnels, []);
  await order(toExport);
  const to = { address: 'x.default.svc', serverName: 'x.default.svc.cluster.local', cert, key };
  assert.deepEqual(tunnels, [{ ...to, ca }]);
  hypervisor.emit(ended(false, 'Operation canceled'));
  await settled();
  assert.equal(tunnels.at(-1), 'closed');
});

async function exportOrder(t: TestContext) {
  const authority = await TestAuthority.make();
  t.after(() => authority.remove());
  const { cert, key } = await authority.issue();
  const named = { exportServerAddr: 'x.default.svc', exportServerName: 'x.default.svc.cluster.local' };
  return { cmd: 'Export', mode: 'Pull', ...named, backupCert: cert, backupKey: key, caCert: authority.pair.cert };
}

test('a pull that no exporter was ever reached for has failed, and leaves no checkpoint behind', async (t) => {
  const discardCheckpoint = true;
  for (const [tunnel, abort, message] of [
    ['ordered', {}, /^nobody could read it, because its launcher never reached its exporter: /],
    ['connected', {}, /^$/],
    // virt-controller never told anybody where it is read.
    ['connected', { discardCheckpoint }, /^nobody could read it, because it was ended before its exporter was ready/],
    // Upstream's controller says nothing of it.
    ['none', {}, /^nobody could read it, because its launcher was told of no exporter: /],
    ['none', { discardCheckpoint }, /^nobody could read it, because its launcher was told of no exporter: /],
  ] as const) {
    const hasFailed = !message.test('');
    const { order, begins, hypervisor, ended, settled, told, reach } = await guest(t);
    await order({ mode: 'Pull' });
    begins();
    if (tunnel !== 'none') await order(await exportOrder(t));
    if (tunnel === 'connected') reach();
    hypervisor.onAbort = async () => hypervisor.emit(ended(false, 'Operation canceled'));
    await order({ cmd: 'Abort', ...abort });
    await settled();
    assert.deepEqual([told().Completed, told().Failed], [true, hasFailed]);
    assert.equal(hypervisor.calls.includes('deleteCheckpoint'), hasFailed);
    assert.match(String(told().BackupMsg), message);
  }
});

test('nobody reads a push', async (t) => {
  const { order, begins } = await guest(t);
  await order();
  begins();
  await assert.rejects(order(await exportOrder(t)), /backup b is in mode Push, which nobody reads/);
});

test('a guest without tracked disks, and places that are none, are refused', async (t) => {
  const untracked = await guest(t, '<domain><name>default_small</name></domain>');
  await assert.rejects(untracked.order(), /no disk of this guest has its changed blocks tracked/);
  const { order, volume, directory, options } = await guest(t);
  await assert.rejects(order({ targetPath: '/etc' }), /no place for a backup/);
  await assert.rejects(order({ targetPath: `${options.hotplugDir}/../x` }), /no place for a backup/);
  await assert.rejects(order({ targetPath: `${options.hotplugDir}/gone` }), /volume gone is not there yet/);
  await assert.rejects(order({ cmd: 'Export' }), /only a backup in mode Pull is brought to an exporter/);
  await assert.rejects(order({ mode: 'Odd' }), /mode "Odd" is none of Push, Pull/);
  await assert.rejects(order({ backupStartTime: 'soon' }), /no time as of RFC 3339/);
  await assert.rejects(order({ backupName: '../b' }), /is no name/);
  symlinkSync('/tmp', path.join(volume, 'small'));
  await assert.rejects(
    order(),
    /small cannot be made in volume target: there is a file or link of that name: remove it/,
  );
  rmSync(path.join(volume, 'small'));
  mkdirSync(directory, { recursive: true });
  await assert.rejects(order(), /remove it, or give the backup another name/);
  await assert.rejects(order({ backupName: 'b'.repeat(240) }), /the name is too long: give the backup a shorter one/);
});

test('files that somebody has deleted meanwhile are no backup', async (t) => {
  const { hypervisor, order, ended, told, settled, directory, wrote } = await guest(t);
  await order();
  wrote();
  rmSync(path.join(directory, 'b-new.qcow2'));
  hypervisor.emit(ended(true));
  await settled();
  assert.equal(told().Failed, true);
  assert.match(String(told().BackupMsg), /^b-new.qcow2 is not in the claim any more/);
  assert.ok(hypervisor.calls.includes('deleteCheckpoint'));
});

test('a pull is served on the socket until it is told to end, which is no failure, and leaves a checkpoint alone', async (t) => {
  const { hypervisor, options, order, begins, ended, told, settled, directory, wrote, reach } = await guest(t);
  hypervisor.onMonitor = () => nodes(record, { name: 'cp' });
  await order({ mode: 'Pull', incremental: 'cp' });
  const [{ backup = '', checkpoint = '' } = {}] = hypervisor.backups;
  const [server] = /<server[^>]*>/.exec(backup) ?? [];
  assert.equal(server, `<server transport="unix" socket="${options.nbdSocket}"/>`);
  assert.match(backup, /<domainbackup mode="pull">/);
  assert.match(backup, /name="vda" [^>]*incremental="cp" exportname="data" exportbitmap="b-2026-01-02_03-04-05"/);
  assert.match(backup, new RegExp(`name="vdb" [^>]*exportname="new".*<scratch file="${directory}/b-new.qcow2"/>`, 's'));
  assert.doesNotMatch(backup, /<target/);
  assert.match(checkpoint, /<name>b-2026-01-02_03-04-05</);
  assert.deepEqual([told().Mode, told().Completed], ['Pull', false]);
  begins();
  wrote();
  writeFileSync(options.nbdSocket, '');
  await order(await exportOrder(t));
  reach();
  hypervisor.onAbort = async () => hypervisor.emit(ended(false, 'Operation canceled'));
  await order({ mode: 'Pull', cmd: 'Abort' });
  await settled();
  assert.deepEqual([told().Completed, told().Failed, told().BackupMsg], [true, false, '']);
  assert.deepEqual([existsSync(directory), existsSync(options.nbdSocket)], [false, false]);
  assert.equal(hypervisor.calls.includes('deleteCheckpoint'), false);
});

test('a pull that ends without an order has failed when the guest is gone or libvirt says why', async (t) => {
  for (const [state, message, reason] of [
    [5, '', /^the guest stopped before/],
    [1, 'No space left on device', /^the claim is too small: a pull needs room for all that the guest overwrites/],
  ] as const) {
    const { hypervisor, domain, order, ended, told, settled, directory } = await guest(t);
    await order({ mode: 'Pull' });
    hypervisor.pretend(domain.name, state, 0);
    hypervisor.emit(ended(message === '', message));
    await settled();
    assert.equal(told().Failed, true);
    assert.match(String(told().BackupMsg), reason);
    assert.equal(existsSync(directory), false);
  }
});

test('a guest that a pull keeps from writing goes on without it, at once or after a start of this launcher', async (t) => {
  for (const isMissed of [false, true]) {
    const { backup, hypervisor, domain, order, begins, ended, told, settled } = await guest(t);
    await order({ mode: 'Pull' });
    begins();
    hypervisor.onAbort = async () => hypervisor.emit(ended(true));
    hypervisor.pretend(domain.name, 3, 5);
    const stands: HypervisorEvent = { kind: 'lifecycle', domain, event: 3, detail: 2 };
    backup.handle(isMissed ? { kind: 'connected' } : stands);
    await settled();
    assert.equal((await hypervisor.state(domain)).state, 1);
    assert.equal(told().Failed, true);
    assert.match(String(told().BackupMsg), /^the guest could not write, which a backup in mode Pull may be/);
  }
});

test('a push, and a guest that somebody has paused, are left alone', async (t) => {
  for (const [mode, detail] of [
    ['Push', 2],
    ['Pull', 0],
  ] as const) {
    const { backup, hypervisor, domain, order } = await guest(t);
    await order({ mode });
    backup.handle({ kind: 'lifecycle', domain, event: 3, detail });
    await order({ mode });
    assert.equal(hypervisor.calls.includes('abortJob'), false);
  }
});

const late = () => new LibvirtError('CALL_TIMEOUT', 'libvirt did not answer procedure 421 in 60000 ms');

test('a backup that begins after libvirt was given up is not said to have failed, nor to be of a frozen guest', async (t) => {
  const { hypervisor, order, begins, ended, told, settled, directory, wrote } = await guest(t);
  hypervisor.failures.set('beginBackup', late());
  begins();
  await order();
  assert.ok(existsSync(directory));
  assert.equal(told().QuiesceStatus, 'Failed');
  assert.match(String(told().BackupMsg), /frozen at the instant of the backup is not known/);
  wrote();
  hypervisor.emit(ended(true));
  await settled();
  assert.equal(told().Failed, false);
});

test('one that has not begun then is taken back; one of which libvirt says nothing is found out later', async (t) => {
  const taken = await guest(t);
  taken.hypervisor.failures.set('beginBackup', late());
  await assert.rejects(taken.order(), { code: 'INVALID_REQUEST' });
  assert.deepEqual([taken.told(), existsSync(taken.directory)], [{}, false]);
  for (const hasBegun of [true, false]) {
    const { deps, hypervisor, order, begins, told, settled, directory } = await guest(t);
    hypervisor.failures.set('beginBackup', late());
    hypervisor.failures.set('jobStats', late());
    await assert.rejects(order({ skipQuiesce: true }), {
      code: 'BUSY',
      message: /does not say whether it begins/,
    });
    assert.equal(told().EndTimestamp, null);
    await order();
    await assert.rejects(order({ backupName: 'c' }), { code: 'BUSY' });
    if (hasBegun) begins();
    for (let second = 0; second < 40 && !hasBegun; second++) {
      await eventually(() => assert.equal(deps.clock.timers, 1));
      deps.clock.advance(1000);
    }
    if (!hasBegun) await settled();
    assert.deepEqual([told().Failed, existsSync(directory)], [!hasBegun, hasBegun]);
  }
});

test('libvirt that is connected to anew while a backup begins, or while that is found out, says nothing of its end', async (t) => {
  const beginning = await guest(t);
  let freeze = () => {};
  const frozen = new Promise<void>((resolve) => {
    freeze = resolve;
  });
  beginning.deps.freezer.freeze = () => frozen as Promise<undefined>;
  const ordered = beginning.order();
  await eventually(() => assert.ok(existsSync(beginning.directory)));
  await beginning.backup.resume();
  beginning.begins();
  freeze();
  await ordered;
  assert.deepEqual([beginning.told().EndTimestamp, existsSync(beginning.directory)], [null, true]);

  const asking = await guest(t);
  asking.hypervisor.failures.set('beginBackup', late());
  asking.hypervisor.failures.set('jobStats', late());
  await assert.rejects(asking.order({ skipQuiesce: true }), { code: 'BUSY' });
  await asking.backup.resume();
  assert.equal(asking.told().EndTimestamp, null);
});

test('a connection that was made anew while a backup could not begin says nothing of the next one', async (t) => {
  const { backup, deps, hypervisor, order, directory, told } = await guest(t);
  const { freeze } = deps.freezer;
  let go = () => {};
  const frozen = new Promise<void>((resolve) => {
    go = resolve;
  });
  deps.freezer.freeze = () => frozen as Promise<undefined>;
  hypervisor.failures.set('beginBackup', new LibvirtError('OPERATION_FAILED', 'Read-only file system'));
  const ordered = order();
  await eventually(() => assert.ok(existsSync(directory)));
  await backup.resume();
  go();
  await assert.rejects(ordered, /Read-only file system/);
  hypervisor.failures.delete('beginBackup');
  deps.freezer.freeze = freeze;
  await order();
  await stays(() => assert.equal(told().EndTimestamp, null), 100);
});

test('the end of a backup that libvirt could not tell of while it began is found afterwards', async (t) => {
  const { backup, deps, order, directory, settled, told } = await guest(t);
  let freeze = () => {};
  const frozen = new Promise<void>((resolve) => {
    freeze = resolve;
  });
  deps.freezer.freeze = () => frozen as Promise<undefined>;
  const ordered = order();
  await eventually(() => assert.ok(existsSync(directory)));
  await backup.resume();
  freeze();
  await ordered;
  await settled();
  assert.equal(told().Failed, true);
});
