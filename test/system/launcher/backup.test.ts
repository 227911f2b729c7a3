import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chownSync,
  closeSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { GuestShell } from '../../fixtures/guest-shell.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { guestDir, guestVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import type { NotifyAgent } from '../../fixtures/notify-agent.ts';

const mebibyte = 2 ** 20;
/** So many that a backup is under way for as long as a second order takes. */
const diskBytes = 768 * mebibyte;
const started = '2026-01-02T03:04:05Z';

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

interface Pod {
  readonly pod: LauncherSandbox;
  readonly agent: NotifyAgent;
  readonly cmd: CmdCaller;
  readonly shell: GuestShell;
}

describe('backups of a running guest', () => {
  let bench: LauncherBench;
  let now: Pod;
  let checkpoint = '';

  const trackingOf = (pod: LauncherSandbox) => path.join(pod.privateDir, 'libvirt/qemu/cbt');
  const imageOf = (pod: LauncherSandbox) => path.join(pod.privateDir, 'vmi-disks/data/disk.img');
  const backupDir = (name: string) =>
    path.join(now.pod.shareDir, 'hotplug-disks/target/small', `${name}-2026-01-02_03-04-05`);
  const fileOf = (name: string) => path.join(backupDir(name), `${name}-data.qcow2`);
  const give = (file: string) => chownSync(file, 107, 107);
  const order = (change: object) =>
    now.cmd.call(now.cmd.client.backupVirtualMachine, {
      vmi: vmiRequest(vmi).vmi,
      options: Buffer.from(
        JSON.stringify({
          cmd: 'Start',
          mode: 'Push',
          backupStartTime: started,
          targetPath: '/var/run/kubevirt/hotplug-disks/target',
          ...change,
        }),
      ),
    });
  const redefine = (name: string) =>
    now.cmd.call(now.cmd.client.redefineCheckpoint, {
      vmi: vmiRequest(vmi).vmi,
      checkpoint: Buffer.from(JSON.stringify({ name, creationTime: started, volumes: [] })),
    });
  const ok = { success: true, message: '' };
  const metadata = async (): Promise<Record<string, unknown>> => {
    const { domain } = await now.cmd.call(now.cmd.client.getDomain, {});
    return JSON.parse(domain).Spec.Metadata.KubeVirt.Backup ?? {};
  };
  const ended = async (name: string) => {
    let found: Record<string, unknown> = {};
    await eventually(async () => {
      found = await metadata();
      assert.deepEqual([found.Name, typeof found.EndTimestamp], [name, 'string'], now.pod.log());
    }, 30_000);
    return found;
  };
  /** Bytes of a backup, or of the disk, at a place. */
  const bytesAt = (file: string, format: 'qcow2' | 'raw', mib: number) => {
    const raw = path.join(now.pod.shareDir, 'look.raw');
    execFileSync('qemu-img', ['convert', '-U', '-f', format, '-O', 'raw', file, raw]);
    return readFileSync(raw)
      .subarray(mib * mebibyte, mib * mebibyte + 5)
      .toString('latin1');
  };
  const write = (text: string, mib: number) =>
    now.shell.run(`printf %s ${text} | dd of=/dev/vda bs=1M seek=${mib} conv=notrunc 2>/dev/null; sync`);

  /** With the end of its guest written down. */
  async function endPod(pod: LauncherSandbox): Promise<void> {
    await eventually(() => assert.deepEqual(pod.pids('qemu-system'), []), 20_000);
    await eventually(() => {
      const origin = JSON.parse(readFileSync(path.join(trackingOf(pod), 'data.qcow2.origin'), 'utf8'));
      assert.equal(origin.atEnd?.sizeBytes, String(diskBytes));
    }, 5000);
  }

  async function startPod(from?: LauncherSandbox): Promise<Pod> {
    const pod = await bench.startPod({ nonRoot: true, kernelBootDir: guestDir });
    const agent = await bench.startAgent(pod);
    for (const dir of [trackingOf(pod), path.dirname(imageOf(pod)), path.join(pod.shareDir, 'hotplug-disks/target')]) {
      mkdirSync(dir, { recursive: true });
    }
    execFileSync('chown', ['-R', '107:107', pod.privateDir, path.join(pod.shareDir, 'hotplug-disks')]);
    if (from) {
      execFileSync('cp', ['-a', '--reflink=auto', imageOf(from), imageOf(pod)]);
      // The claim is the same one in both pods.
      for (const name of readdirSync(trackingOf(from))) {
        copyFileSync(path.join(trackingOf(from), name), path.join(trackingOf(pod), name));
        give(path.join(trackingOf(pod), name));
      }
      const origin = path.join(trackingOf(pod), 'data.qcow2.origin');
      const { ino } = lstatSync(imageOf(pod));
      // The next guest is that of another VMI.
      const earlier = { ...JSON.parse(readFileSync(origin, 'utf8')), inode: ino, usedBy: 'earlier' };
      writeFileSync(origin, JSON.stringify(earlier));
      give(origin);
    } else {
      writeFileSync(imageOf(pod), '');
      truncateSync(imageOf(pod), diskBytes);
      give(imageOf(pod));
    }
    const cmd = await bench.callerOf(pod);
    assert.deepEqual(await cmd.sync(vmi), ok, pod.log());
    await agent.waitFor(hasStatus('Running'), 5000);
    const shell = new GuestShell(path.join(pod.privateDir, launcherVmiUid, 'virt-serial0'));
    await shell.login();
    return { pod, agent, cmd, shell };
  }

  before(async () => {
    assert.ok(existsSync(`${guestDir}/vmlinuz`), 'there is no guest: run node scripts/guest/build.mjs');
    bench = await LauncherBench.create();
    now = await startPod();
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
    await write('first', 1);
    assert.deepEqual(await order({ backupName: 'full' }), ok, now.pod.log());
    const { StartTimestamp, EndTimestamp, BackupMsg, Directory, ...told } = await ended('full');
    assert.deepEqual(told, {
      Name: 'full',
      Mode: 'Push',
      SkipQuiesce: false,
      Completed: true,
      Failed: false,
      CheckpointName: 'full-2026-01-02_03-04-05',
      Volumes: '[{"volumeName":"data","diskTarget":"vda"}]',
      QuiesceStatus: 'Failed',
    });
    assert.match(String(BackupMsg), /^the guest's file systems were not frozen: .*agent/i);
    checkpoint = told.CheckpointName as string;
    assert.equal(bytesAt(fileOf('full'), 'qcow2', 1), 'first');
    assert.deepEqual(readdirSync(backupDir('full')), ['full-data.qcow2']);
  });

  test('an incremental backup has only what came after it; on top of the full one it is the disk', async () => {
    await write('later', 5);
    assert.deepEqual(await order({ backupName: 'more', incremental: checkpoint, skipQuiesce: true }), ok);
    const told = await ended('more');
    assert.deepEqual([told.Failed, told.QuiesceStatus, told.BackupMsg], [false, 'Skipped', '']);
    execFileSync('qemu-img', ['rebase', '-u', '-f', 'qcow2', '-F', 'qcow2', '-b', fileOf('full'), fileOf('more')]);
    const map = JSON.parse(execFileSync('qemu-img', ['map', '--output=json', fileOf('more')], { encoding: 'utf8' }));
    const own = map.filter(({ depth }: { depth: number }) => depth === 0) as { start: number; length: number }[];
    assert.deepEqual(
      own.map(({ start, length }) => [start, length]),
      [[5 * mebibyte, 65536]],
    );
    assert.deepEqual(
      [1, 5].map((mib) => bytesAt(fileOf('more'), 'qcow2', mib)),
      ['first', 'later'],
    );
    assert.equal(bytesAt(imageOf(now.pod), 'raw', 5), 'later');
    checkpoint = String(told.CheckpointName);
  });

  test('the same order again is refused with the reason, and nothing of it is written', async () => {
    const { success, message } = await order({ backupName: 'more' });
    assert.deepEqual([success, message], [false, 'backup more has ended already: make one with another name']);
  });

  test('a checkpoint that nobody knows is told as such, and how to go on', async () => {
    const { success, message } = await order({ backupName: 'odd', incremental: 'nobodys' });
    assert.equal(success, false);
    assert.match(message, /^no disk knows checkpoint nobodys.*: ask for a full backup \(spec.forceFullBackup: true\)$/);
    const answer = await redefine('nobodys');
    assert.deepEqual([answer.response?.success, answer.checkpointInvalid], [false, true]);
    assert.equal(existsSync(backupDir('odd')), false);
    assert.equal((await metadata()).Name, 'more');
  });

  test('no other place is written to, and a pull is refused', async () => {
    for (const [change, told] of [
      [{ targetPath: '/etc' }, /"\/etc" is no place for a backup: it must be .*hotplug-disks\/<volume>/],
      [{ targetPath: '/var/run/kubevirt/hotplug-disks/gone' }, /volume gone is not there yet/],
      [{ mode: 'Pull' }, /mode Pull are not supported by this launcher: use mode Push/],
      [{ backupName: '../x' }, /backupName "..\/x" is no name/],
      [{ cmd: 'Abort' }, /backup bad is not under way/],
    ] as const) {
      const { success, message } = await order({ backupName: 'bad', ...change });
      assert.equal(success, false);
      assert.match(message, told);
    }
  });

  test('of two at once one is refused at once, and one that is aborted leaves nothing', async () => {
    assert.deepEqual(await order({ backupName: 'long', skipQuiesce: true }), ok);
    const [second, abort] = await Promise.all([
      order({ backupName: 'second' }),
      order({ backupName: 'long', cmd: 'Abort' }),
    ]);
    assert.deepEqual(abort, ok);
    assert.match(second.message, /^backup second is not possible until backup long has ended$/);
    const told = await ended('long');
    assert.deepEqual([told.Failed, told.BackupMsg], [true, 'it was aborted']);
    assert.equal(existsSync(backupDir('long')), false);
  });

  test('a claim that is too small fails the backup with what to do, and what was written is gone', async () => {
    const [pid] = now.pod.pids('/usr/sbin/libvirtd');
    const small = '/run/kubevirt/hotplug-disks/small';
    const mount = `mkdir ${small} && mount -t tmpfs -o size=8m,uid=107,gid=107 tmpfs ${small}`;
    execFileSync('nsenter', ['-t', String(pid), '-m', 'sh', '-c', mount]);
    assert.deepEqual(
      await order({ backupName: 'huge', skipQuiesce: true, targetPath: '/var/run/kubevirt/hotplug-disks/small' }),
      ok,
    );
    const told = await ended('huge');
    assert.equal(told.Failed, true);
    assert.match(String(told.BackupMsg), /^the claim is too small/);
    const left = execFileSync('nsenter', ['-t', String(pid), '-m', 'ls', small], { encoding: 'utf8' });
    assert.equal(left, '');
  });

  test('a guest that stops in the middle fails the backup', async () => {
    assert.deepEqual(await order({ backupName: 'cut', skipQuiesce: true }), ok);
    const failed = now.agent.waitFor(({ domain: { Spec } }) => {
      const { Name, Failed } = Spec.Metadata?.KubeVirt?.Backup ?? {};
      return Name === 'cut' && Failed === true;
    }, 20_000);
    await now.cmd.call(now.cmd.client.killVirtualMachine, vmiRequest(vmi));
    const { domain } = await failed;
    assert.match(String(domain.Spec.Metadata?.KubeVirt?.Backup?.BackupMsg), /stopped|cancel/i);
    assert.equal(existsSync(backupDir('cut')), false);
    now.shell.close();
  });

  test('after a new start in another pod the next backup begins at the last checkpoint', async () => {
    const old = now.pod;
    await endPod(old);
    now = await startPod(old);
    await write('again', 9);
    const answer = await redefine(checkpoint);
    assert.deepEqual([answer.response, answer.checkpointInvalid], [ok, false]);
    assert.deepEqual(await order({ backupName: 'after', incremental: checkpoint, skipQuiesce: true }), ok);
    assert.equal((await ended('after')).Failed, false);
    execFileSync('qemu-img', ['rebase', '-u', '-f', 'qcow2', '-b', '', fileOf('after')]);
    const map = JSON.parse(execFileSync('qemu-img', ['map', '--output=json', fileOf('after')], { encoding: 'utf8' }));
    const changed = map.filter(({ data }: { data: boolean }) => data).map(({ start }: { start: number }) => start);
    assert.deepEqual(changed, [9 * mebibyte]);
    assert.equal(bytesAt(fileOf('after'), 'qcow2', 9), 'again');
  });

  test('after a write to the image of a stopped guest no checkpoint is trusted, and a full backup is asked for', async () => {
    const old = now.pod;
    now.shell.close();
    await now.cmd.call(now.cmd.client.killVirtualMachine, vmiRequest(vmi));
    await endPod(old);
    const image = openSync(imageOf(old), 'r+');
    writeSync(image, 'beside', 13 * mebibyte);
    closeSync(image);
    now = await startPod(old);
    const answer = await redefine(checkpoint);
    assert.deepEqual([answer.response?.success, answer.checkpointInvalid], [false, true]);
    const { success, message } = await order({ backupName: 'lost', incremental: checkpoint, skipQuiesce: true });
    assert.equal(success, false);
    assert.match(message, /what changed since is not known: ask for a full backup/);
    assert.deepEqual(await order({ backupName: 'whole', skipQuiesce: true }), ok);
    assert.equal((await ended('whole')).Failed, false);
    assert.equal(bytesAt(fileOf('whole'), 'qcow2', 13), 'besid');
  });
});
