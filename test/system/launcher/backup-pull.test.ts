import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { BackupGuest, mebibyte } from '../../fixtures/backup-guest.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { LauncherBench } from '../../fixtures/launcher-bench.ts';
import { launcherVmi } from '../../fixtures/launcher-vmi.ts';
import { WaitingExporter } from '../../fixtures/waiting-exporter.ts';

/** Nothing runs in it: it is QEMU, libvirt and the launcher that are tried. */
const vmi = launcherVmi();
vmi.spec.domain.devices = { disks: [{ name: 'data', disk: { bus: 'virtio' } }], autoattachPodInterface: false };
vmi.spec.volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }];
vmi.status = { ...vmi.status, changedBlockTracking: { state: 'Initializing' } };

const emptyDisk = (image: string) => {
  writeFileSync(image, '');
  truncateSync(image, 64 * mebibyte);
};
const ok = { success: true, message: '' };

describe('backups that are read at the socket of QEMU', () => {
  let bench: LauncherBench;
  let now: BackupGuest;
  let exporter: WaitingExporter;

  const socket = () => path.join(now.pod.socketsDir, 'backup-nbd-sock');
  const pull = (backupName: string, change: object = {}) =>
    now.order({ mode: 'Pull', backupName, skipQuiesce: true, ...change });
  const abort = (backupName: string) => pull(backupName, { cmd: 'Abort' });
  /** Only of what an exporter could read it is a backup. */
  const brought = async (backupName: string) => {
    assert.deepEqual(await pull(backupName, exporter.order), ok);
    await eventually(async () => assert.equal((await now.metadata()).Tunnel, 'connected', now.pod.log()), 20_000);
  };
  /** As a backup program reads it. */
  const exported = (mib: number) => {
    const raw = path.join(now.pod.shareDir, 'pulled.raw');
    execFileSync('qemu-img', ['convert', '-f', 'raw', '-O', 'raw', `nbd+unix:///data?socket=${socket()}`, raw]);
    return now.bytesAt(raw, 'raw', mib);
  };
  /** Where the bitmap of the export says that something has changed: QEMU's client shows that as blocks without data. */
  const changed = (bitmap: string) => {
    const server = `driver=nbd,export=data,server.type=unix,server.path=${socket()}`;
    const options = `${server},x-dirty-bitmap=qemu:dirty-bitmap:${bitmap}`;
    const map = execFileSync('qemu-img', ['map', '--output=json', '--image-opts', options], { encoding: 'utf8' });
    const extents = JSON.parse(map) as { start: number; length: number; data: boolean }[];
    return extents.filter(({ data }) => !data).map(({ start, length }) => [start / mebibyte, length]);
  };
  const leftIn = (name: string) => [existsSync(now.backupDir(name)), existsSync(socket())];

  before(async () => {
    bench = await LauncherBench.create();
    exporter = await WaitingExporter.start();
    now = await BackupGuest.start(bench, vmi, emptyDisk);
  });
  after(async () => {
    now?.shell.close();
    await exporter?.close();
    await bench?.dispose();
  });

  test('what is read is the disk at one instant, whatever the guest writes meanwhile, until the backup is told to end', async () => {
    await now.fill('a', 1);
    assert.deepEqual(await pull('full'), ok, now.pod.log());
    await now.fill('b', 1);
    assert.equal(exported(1), 'aaaaa');
    assert.equal(now.bytesAt(now.image, 'raw', 1), 'bbbbb');
    const { EndTimestamp, Completed, Mode, CheckpointName, Volumes } = await now.metadata();
    assert.deepEqual([EndTimestamp, Completed, Mode], [null, false, 'Pull']);
    assert.equal(CheckpointName, now.checkpointOf('full'));
    assert.equal(Volumes, '[{"volumeName":"data","diskTarget":"vda"}]');
    assert.deepEqual(readdirSync(now.backupDir('full')), ['full-data.qcow2']);
    await brought('full');
    assert.deepEqual(await abort('full'), ok);
    const told = await now.ended('full');
    assert.deepEqual([told.Completed, told.Failed, told.BackupMsg], [true, false, '']);
    assert.deepEqual(leftIn('full'), [false, false]);
  });

  test('an incremental one says what has changed since the checkpoint, and a push may go on from it', async () => {
    await now.fill('c', 5);
    assert.deepEqual(await pull('more', { incremental: now.checkpointOf('full') }), ok, now.pod.log());
    assert.deepEqual(changed(now.checkpointOf('more')), [
      [1, 65536],
      [5, 65536],
    ]);
    assert.deepEqual([exported(1), exported(5)], ['bbbbb', 'ccccc']);
    await brought('more');
    assert.deepEqual(await abort('more'), ok);
    assert.equal((await now.ended('more')).Failed, false);
    await now.fill('d', 9);
    assert.deepEqual(await now.order({ backupName: 'push', incremental: now.checkpointOf('more') }), ok);
    assert.equal((await now.ended('push')).Failed, false);
    execFileSync('qemu-img', ['rebase', '-u', '-f', 'qcow2', '-b', '', now.fileOf('push')]);
    assert.equal(now.bytesAt(now.fileOf('push'), 'qcow2', 9), 'ddddd');
    assert.equal(now.bytesAt(now.fileOf('push'), 'qcow2', 5), '\0'.repeat(5));
  });

  test('beside one that is read there is no other, no migration, and none of the same name comes after it', async () => {
    assert.deepEqual(await pull('long'), ok);
    assert.deepEqual(await pull('long'), ok);
    assert.match((await pull('second')).message, /^backup second is not possible until backup long has ended$/);
    assert.match((await now.order({ backupName: 'third' })).message, /^backup third is not possible until/);
    const other = await abort('other');
    assert.match(other.message, /^backup other is not under way/);
    assert.deepEqual(await abort('long'), ok);
    await now.ended('long');
    assert.match((await pull('long')).message, /^backup long has ended already: make one with another name$/);
  });

  test('one that no exporter was told of is none, whoever ends it, and nothing goes on from its checkpoint', async () => {
    assert.deepEqual(await pull('unread'), ok);
    assert.deepEqual(await abort('unread'), ok);
    const { Failed, BackupMsg } = await now.ended('unread');
    assert.equal(Failed, true);
    assert.match(String(BackupMsg), /^nobody could read it, because its launcher was told of no exporter: /);
    const after = await pull('after', { incremental: now.checkpointOf('unread') });
    assert.match(after.message, /no disk knows checkpoint unread/);
  });

  test('no other place is written to', async () => {
    for (const [change, told] of [
      [{ targetPath: '/etc' }, /is no place for a backup/],
      [{ targetPath: '/var/run/kubevirt/hotplug-disks/../../etc' }, /is no place for a backup/],
      [{ targetPath: undefined }, /targetPath is missing/],
      [{ mode: 'Odd' }, /mode "Odd" is none of Push, Pull/],
    ] as const) {
      const { success, message } = await pull('bad', change);
      assert.equal(success, false);
      assert.match(message, told);
    }
  });

  test('a directory that somebody takes away under it keeps nobody from reading or ending it', async () => {
    assert.deepEqual(await pull('robbed'), ok);
    rmSync(now.backupDir('robbed'), { recursive: true });
    await now.fill('e', 5);
    assert.equal(exported(5), 'ccccc');
    await brought('robbed');
    assert.deepEqual(await abort('robbed'), ok);
    assert.equal((await now.ended('robbed')).Failed, false);
  });

  test('a QEMU that is killed, and one that ends with its launcher, leave neither files nor socket', async () => {
    assert.deepEqual(await pull('killed'), ok);
    const told = now.agent.waitFor(({ domain: { Spec } }) => {
      const { Name, Failed } = Spec.Metadata?.KubeVirt?.Backup ?? {};
      return Name === 'killed' && Failed === true;
    }, 20_000);
    for (const pid of now.pod.pids('qemu-system')) process.kill(pid, 'SIGKILL');
    assert.match(String((await told).domain.Spec.Metadata?.KubeVirt?.Backup?.BackupMsg), /stopped/);
    assert.deepEqual(leftIn('killed'), [false, false]);
    now.shell.close();
    now = await BackupGuest.start(bench, vmi, emptyDisk);
    assert.deepEqual(await pull('left'), ok);
    now.pod.terminate();
    await eventually(() => assert.deepEqual(leftIn('left'), [false, false]), 20_000);
  });
});
