import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, openSync, readdirSync, rmSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { BackupGuest, mebibyte } from '../../fixtures/backup-guest.ts';
import { LauncherBench } from '../../fixtures/launcher-bench.ts';
import { guestDir, guestVmi } from '../../fixtures/launcher-vmi.ts';

/** So many that a backup is under way for as long as a second order takes. */
const diskBytes = 768 * mebibyte;

const vmi = guestVmi({
  devices: {
    disks: [
      { name: 'data', disk: { bus: 'virtio' } },
      { name: 'scratch', disk: { bus: 'virtio' } },
    ],
    autoattachPodInterface: false,
  },
  more: {
    volumes: [
      { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
      { name: 'scratch', emptyDisk: { capacity: '4Mi' } },
    ],
  },
});
vmi.status = { ...vmi.status, changedBlockTracking: { state: 'Initializing' } };

function emptyDisk(image: string): void {
  writeFileSync(image, '');
  truncateSync(image, diskBytes);
}

describe('backups of a running guest', () => {
  let bench: LauncherBench;
  let now: BackupGuest;
  let checkpoint = '';
  const ok = { success: true, message: '' };

  before(async () => {
    assert.ok(existsSync(`${guestDir}/vmlinuz`), 'there is no guest: run node scripts/guest/build.mjs');
    bench = await LauncherBench.create();
    now = await BackupGuest.start(bench, vmi, emptyDisk);
  });
  after(async () => {
    now?.shell.close();
    await bench?.dispose();
  });

  test('the disk on a claim has a record of its changes, and the agent sees which', async () => {
    const { domain } = await now.cmd.call(now.cmd.client.getDomain, {});
    const disks = JSON.parse(domain).Spec.Devices.Disks as {
      Alias: { Name: string };
      Source: { DataStore: unknown };
    }[];
    const tracked = disks.filter(({ Source }) => Source.DataStore !== null).map(({ Alias }) => Alias.Name);
    assert.deepEqual(tracked, ['data']);
  });

  test('a full backup has what the guest wrote, and the guest goes on', async () => {
    await now.write('first', 1);
    assert.deepEqual(await now.order({ backupName: 'full' }), ok, now.pod.log());
    const { StartTimestamp, EndTimestamp, BackupMsg, Directory, ...told } = await now.ended('full');
    assert.deepEqual(told, {
      Name: 'full',
      Mode: 'Push',
      SkipQuiesce: false,
      Completed: true,
      Failed: false,
      CheckpointName: 'full-2026-01-02_03-04-05',
      Volumes: '[{"volumeName":"data","diskTarget":"vda"}]',
      QuiesceStatus: 'Failed',
      Tunnel: 'none',
    });
    assert.match(String(BackupMsg), /^the guest's file systems were not frozen: .*agent/i);
    checkpoint = told.CheckpointName as string;
    assert.equal(now.bytesAt(now.fileOf('full'), 'qcow2', 1), 'first');
    assert.deepEqual(readdirSync(now.backupDir('full')), ['full-data.qcow2']);
  });

  test('an incremental backup has only what came after it; on top of the full one it is the disk', async () => {
    await now.write('later', 5);
    assert.deepEqual(await now.order({ backupName: 'more', incremental: checkpoint, skipQuiesce: true }), ok);
    const told = await now.ended('more');
    assert.deepEqual([told.Failed, told.QuiesceStatus, told.BackupMsg], [false, 'Skipped', '']);
    execFileSync('qemu-img', [
      'rebase',
      '-u',
      '-f',
      'qcow2',
      '-F',
      'qcow2',
      '-b',
      now.fileOf('full'),
      now.fileOf('more'),
    ]);
    const map = JSON.parse(
      execFileSync('qemu-img', ['map', '--output=json', now.fileOf('more')], { encoding: 'utf8' }),
    );
    const own = map.filter(({ depth }: { depth: number }) => depth === 0) as { start: number; length: number }[];
    assert.deepEqual(
      own.map(({ start, length }) => [start, length]),
      [[5 * mebibyte, 65536]],
    );
    assert.deepEqual(
      [1, 5].map((mib) => now.bytesAt(now.fileOf('more'), 'qcow2', mib)),
      ['first', 'later'],
    );
    assert.equal(now.bytesAt(now.image, 'raw', 5), 'later');
    checkpoint = String(told.CheckpointName);
  });

  test('the same order again is refused with the reason, and nothing of it is written', async () => {
    const { success, message } = await now.order({ backupName: 'more' });
    assert.deepEqual([success, message], [false, 'backup more has ended already: make one with another name']);
  });

  test('a checkpoint that nobody knows is told as such, and how to go on', async () => {
    const { success, message } = await now.order({ backupName: 'odd', incremental: 'nobodys' });
    assert.equal(success, false);
    assert.match(message, /^no disk knows checkpoint nobodys.*: ask for a full backup \(spec.forceFullBackup: true\)$/);
    const answer = await now.redefine('nobodys');
    assert.deepEqual([answer.response?.success, answer.checkpointInvalid], [false, true]);
    assert.equal(existsSync(now.backupDir('odd')), false);
    assert.equal((await now.metadata()).Name, 'more');
  });

  test('no other place is written to, and an export is refused', async () => {
    for (const [change, told] of [
      [{ targetPath: '/etc' }, /"\/etc" is no place for a backup: it must be .*hotplug-disks\/<volume>/],
      [{ targetPath: '/var/run/kubevirt/hotplug-disks/gone' }, /volume gone is not there yet/],
      [{ mode: 'Pull', cmd: 'Export' }, /exportServerAddr is missing/],
      [{ backupName: '../x' }, /backupName "..\/x" is no name/],
      [{ cmd: 'Abort' }, /backup bad is not under way/],
    ] as const) {
      const { success, message } = await now.order({ backupName: 'bad', ...change });
      assert.equal(success, false);
      assert.match(message, told);
    }
  });

  test('of two at once one is refused at once, and one that is aborted leaves nothing', async () => {
    assert.deepEqual(await now.order({ backupName: 'long', skipQuiesce: true }), ok);
    const [second, abort] = await Promise.all([
      now.order({ backupName: 'second' }),
      now.order({ backupName: 'long', cmd: 'Abort' }),
    ]);
    assert.deepEqual(abort, ok);
    assert.match(second.message, /^backup second is not possible until backup long has ended$/);
    const told = await now.ended('long');
    assert.deepEqual([told.Failed, told.BackupMsg], [true, 'it was aborted']);
    assert.equal(existsSync(now.backupDir('long')), false);
  });

  test('a file that somebody deletes while it is written is no backup', async () => {
    assert.deepEqual(await now.order({ backupName: 'robbed', skipQuiesce: true }), ok);
    rmSync(now.fileOf('robbed'));
    const told = await now.ended('robbed');
    assert.equal(told.Failed, true);
    assert.match(String(told.BackupMsg), /^robbed-data.qcow2 is not in the claim any more/);
    assert.equal(existsSync(now.backupDir('robbed')), false);
  });

  test('a claim that is too small fails the backup with what to do, and what was written is gone', async () => {
    const [pid] = now.pod.pids('/usr/sbin/libvirtd');
    const small = '/run/kubevirt/hotplug-disks/small';
    const mount = `mkdir ${small} && mount -t tmpfs -o size=8m,uid=107,gid=107 tmpfs ${small}`;
    execFileSync('nsenter', ['-t', String(pid), '-m', 'sh', '-c', mount]);
    assert.deepEqual(
      await now.order({ backupName: 'huge', skipQuiesce: true, targetPath: '/var/run/kubevirt/hotplug-disks/small' }),
      ok,
    );
    const told = await now.ended('huge');
    assert.equal(told.Failed, true);
    assert.match(String(told.BackupMsg), /^the claim is too small/);
    const left = execFileSync('nsenter', ['-t', String(pid), '-m', 'ls', small], { encoding: 'utf8' });
    assert.equal(left, '');
  });

  test('a guest that stops in the middle fails the backup', async () => {
    assert.deepEqual(await now.order({ backupName: 'cut', skipQuiesce: true }), ok);
    const failed = now.agent.waitFor(({ domain: { Spec } }) => {
      const { Name, Failed } = Spec.Metadata?.KubeVirt?.Backup ?? {};
      return Name === 'cut' && Failed === true;
    }, 20_000);
    await now.kill();
    const { domain } = await failed;
    assert.match(String(domain.Spec.Metadata?.KubeVirt?.Backup?.BackupMsg), /stopped|cancel/i);
    assert.equal(existsSync(now.backupDir('cut')), false);
    now.shell.close();
  });

  test('after a new start in another pod the next backup begins at the last checkpoint', async () => {
    await now.over(diskBytes);
    now = await BackupGuest.start(bench, vmi, now);
    await now.write('again', 9);
    const answer = await now.redefine(checkpoint);
    assert.deepEqual([answer.response, answer.checkpointInvalid], [ok, false]);
    assert.deepEqual(await now.order({ backupName: 'after', incremental: checkpoint, skipQuiesce: true }), ok);
    assert.equal((await now.ended('after')).Failed, false);
    execFileSync('qemu-img', ['rebase', '-u', '-f', 'qcow2', '-b', '', now.fileOf('after')]);
    const map = JSON.parse(
      execFileSync('qemu-img', ['map', '--output=json', now.fileOf('after')], { encoding: 'utf8' }),
    );
    const changed = map.filter(({ data }: { data: boolean }) => data).map(({ start }: { start: number }) => start);
    assert.deepEqual(changed, [9 * mebibyte]);
    assert.equal(now.bytesAt(now.fileOf('after'), 'qcow2', 9), 'again');
  });

  test('after a write to the image of a stopped guest no checkpoint is trusted, and a full backup is asked for', async () => {
    await now.kill();
    await now.over(diskBytes);
    const image = openSync(now.image, 'r+');
    writeSync(image, 'beside', 13 * mebibyte);
    closeSync(image);
    now = await BackupGuest.start(bench, vmi, now);
    const answer = await now.redefine(checkpoint);
    assert.deepEqual([answer.response?.success, answer.checkpointInvalid], [false, true]);
    const { success, message } = await now.order({ backupName: 'lost', incremental: checkpoint, skipQuiesce: true });
    assert.equal(success, false);
    assert.match(message, /what changed since is not known: ask for a full backup/);
    assert.deepEqual(await now.order({ backupName: 'whole', skipQuiesce: true }), ok);
    assert.equal((await now.ended('whole')).Failed, false);
    assert.equal(now.bytesAt(now.fileOf('whole'), 'qcow2', 13), 'besid');
  });
});
