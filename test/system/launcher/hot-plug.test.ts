import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Disk, VirtualMachineInstance, Volume, VolumeStatus } from '../../../src/api/index.ts';
import { type CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { GuestShell } from '../../fixtures/guest-shell.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { guestDir, guestVmi, launcherVmiUid } from '../../fixtures/launcher-vmi.ts';
import type { NotifyAgent } from '../../fixtures/notify-agent.ts';

/** Device nodes need real root; loop devices need the kernel's module. */
const noLoop = process.getuid?.() === 0 && existsSync('/dev/loop-control') ? false : 'no loop devices here';
const mebibyte = 2 ** 20;

interface Plugged {
  readonly disk: Disk;
  readonly volume?: Volume;
  readonly status?: Partial<VolumeStatus>;
}

const drive: Disk = { name: 'cd', cdrom: { bus: 'scsi' } };

function vmiWith(plugged: readonly Plugged[]): VirtualMachineInstance {
  const vmi = guestVmi({
    phase: 'Running',
    devices: { disks: plugged.map(({ disk }) => disk), autoattachPodInterface: false },
    more: { volumes: plugged.flatMap(({ volume }) => (volume ? [volume] : [])) },
  });
  const volumeStatus = plugged.flatMap(({ volume, status }): VolumeStatus[] =>
    volume ? [{ name: volume.name, target: '', phase: 'MountedToPod', hotplugVolume: {}, ...status }] : [],
  );
  vmi.status = { ...vmi.status, volumeStatus };
  return vmi;
}

const claim = (name: string, change: Partial<Disk> = {}, status: Partial<VolumeStatus> = {}): Plugged => ({
  disk: { name, disk: { bus: 'scsi' }, serial: name, ...change },
  volume: { name, persistentVolumeClaim: { claimName: name, hotpluggable: true } },
  status,
});

const emptyDrive: Plugged = { disk: drive };
const filledDrive: Plugged = { ...claim('cd'), disk: drive };

for (const nonRoot of [false, true]) {
  describe(`disks of a running guest under a ${nonRoot ? 'non-root' : 'root'} launcher`, () => {
    let bench: LauncherBench;
    let pod: LauncherSandbox;
    let agent: NotifyAgent;
    let cmd: CmdCaller;
    let shell: GuestShell;

    const fileOf = (name: string) => path.join(pod.shareDir, 'hotplug-disks', `${name}.img`);
    const put = (name: string, bytes: number, content = '') => {
      writeFileSync(fileOf(name), content);
      truncateSync(fileOf(name), bytes);
      chownSync(fileOf(name), 107, 107);
    };
    const ok = async (...plugged: Plugged[]) =>
      assert.deepEqual(await cmd.sync(vmiWith(plugged)), { success: true, message: '' }, pod.log());
    const refused = async (...plugged: Plugged[]) => {
      const answer = await cmd.sync(vmiWith(plugged));
      assert.equal(answer.success, false);
      return answer.message;
    };
    const disks = async () => {
      const { domain } = await cmd.call(cmd.client.getDomain, {});
      const found = JSON.parse(domain).Spec.Devices.Disks ?? [];
      return Object.fromEntries(
        found.map((disk: { Alias: { Name: string }; Target: { Device: string }; Source: { File: string } }) => [
          disk.Alias.Name,
          `${disk.Target.Device} ${path.basename(disk.Source.File)}`.trim(),
        ]),
      );
    };
    /** Sizes of the guest's disks in sectors, by name. */
    const seen = async () => {
      const text = await shell.run(
        'for d in /sys/block/[sv]d*; do [ -e $d ] && echo "disk $(basename $d) $(cat $d/size)"; done',
      );
      return [...text.matchAll(/^disk (\w+) (\d+)$/gm)].map(([, name, sectors]) => `${name} ${Number(sectors) / 2048}`);
    };

    before(async () => {
      assert.ok(existsSync(`${guestDir}/vmlinuz`), 'there is no guest: run node scripts/guest/build.mjs');
      bench = await LauncherBench.create();
      pod = await bench.startPod({ nonRoot, kernelBootDir: guestDir });
      mkdirSync(path.join(pod.shareDir, 'hotplug-disks'));
      agent = await bench.startAgent(pod);
      cmd = await bench.callerOf(pod);
      const start = vmiWith([emptyDrive]);
      start.status = { ...start.status, phase: 'Scheduled' };
      assert.deepEqual(await cmd.sync(start), { success: true, message: '' }, pod.log());
      await agent.waitFor(hasStatus('Running'), 5000);
      shell = new GuestShell(path.join(pod.privateDir, launcherVmiUid, 'virt-serial0'));
      await shell.login();
    });
    after(async () => {
      shell?.close();
      await bench?.dispose();
    });

    test('a volume whose file is not there, or not mounted yet, is waited for without an error', async () => {
      await ok(emptyDrive, claim('data'));
      put('data', 8 * mebibyte);
      await ok(emptyDrive, claim('data', {}, { phase: 'AttachedToNode' }));
      assert.deepEqual(await disks(), { cd: 'sda' });
    });

    test('a plugged disk is seen by the guest, written, and a second sync changes nothing', async () => {
      await ok(emptyDrive, claim('data'));
      await eventually(async () => assert.deepEqual(await seen(), ['sda 8']), 20_000);
      await ok(emptyDrive, claim('data', {}, { phase: 'Ready', target: 'sdb' }));
      assert.deepEqual(await disks(), { cd: 'sda', data: 'sdb data.img' });
      await shell.run('echo written-by-guest > /dev/sda; sync');
      await eventually(
        () => assert.match(readFileSync(fileOf('data'), 'latin1').slice(0, 32), /^written-by-guest/),
        20_000,
      );
    });

    test('a virtio disk is plugged beside it, into a free PCI port', async () => {
      put('fast', 4 * mebibyte);
      await ok(emptyDrive, claim('data'), claim('fast', { disk: { bus: 'virtio' } }));
      await eventually(async () => assert.deepEqual(await seen(), ['sda 8', 'vda 4']), 20_000);
    });

    test('a disk that QEMU refuses is told in words, leaves nothing, and does not hold up another one', async () => {
      put('odd', mebibyte);
      put('good', 2 * mebibyte);
      const odd = claim('odd', { blockSize: { custom: { logical: 4096, physical: 512 } } });
      const message = await refused(
        emptyDrive,
        claim('data'),
        claim('fast', { disk: { bus: 'virtio' } }),
        odd,
        claim('good'),
      );
      assert.match(message, /^volume odd could not be plugged in: LibvirtError/);
      assert.deepEqual(Object.keys(await disks()).sort(), ['cd', 'data', 'fast', 'good']);
      await ok(emptyDrive, claim('data'), claim('fast', { disk: { bus: 'virtio' } }));
      assert.deepEqual(Object.keys(await disks()).sort(), ['cd', 'data', 'fast']);
      await ok(emptyDrive, claim('data'), claim('fast', { disk: { bus: 'virtio' } }), claim('odd'));
      await ok(emptyDrive, claim('data'), claim('fast', { disk: { bus: 'virtio' } }));
    });

    test('a medium is put into the drive and taken out of it', async () => {
      put('cd', mebibyte, 'medium-one');
      const others = [claim('data'), claim('fast', { disk: { bus: 'virtio' } })];
      await ok(filledDrive, ...others);
      assert.equal((await disks()).cd, 'sda cd.img');
      await eventually(async () => assert.match(await shell.run('head -c 10 /dev/sr0'), /medium-one/), 20_000);
      await ok(emptyDrive, ...others);
      assert.equal((await disks()).cd, 'sda');
      await ok(emptyDrive, ...others);
    });

    test('a claim that has grown is a bigger disk for the guest', async () => {
      const info = { capacity: { storage: '20Mi' }, requests: { storage: '20Mi' }, filesystemOverhead: '0.1' };
      const grown = claim('fast', { disk: { bus: 'virtio' } }, { persistentVolumeClaimInfo: info });
      await ok(emptyDrive, claim('data'), grown);
      await eventually(async () => assert.deepEqual(await seen(), ['sda 8', 'vda 18']), 20_000);
    });

    test('a block device is plugged in, and grows with its device', { skip: noLoop }, async (t) => {
      const backing = path.join(pod.shareDir, 'backing');
      writeFileSync(backing, '');
      truncateSync(backing, 2 * mebibyte);
      const loop = execFileSync('losetup', ['--find', '--show', backing], { encoding: 'utf8' }).trim();
      t.after(() => execFileSync('losetup', ['--detach', loop]));
      const node = path.join(pod.shareDir, 'hotplug-disks', 'raw');
      execFileSync('mknod', [node, 'b', '7', String(statSync(loop).rdev & 0xff)]);
      chownSync(node, 107, 107);
      const others = [emptyDrive, claim('data'), claim('fast', { disk: { bus: 'virtio' } })];
      const raw = claim('raw', { disk: { bus: 'virtio' } }, { persistentVolumeClaimInfo: { volumeMode: 'Block' } });
      await ok(...others, raw);
      await eventually(async () => assert.deepEqual(await seen(), ['sda 8', 'vda 18', 'vdb 2']), 20_000);
      truncateSync(backing, 5 * mebibyte);
      execFileSync('losetup', ['--set-capacity', loop]);
      await ok(...others, raw);
      await eventually(async () => assert.deepEqual(await seen(), ['sda 8', 'vda 18', 'vdb 5']), 20_000);
      await eventually(async () => ok(...others), 30_000);
      await eventually(async () => assert.deepEqual(await seen(), ['sda 8', 'vda 18']), 20_000);
    });

    test('nothing is plugged while the guest migrates', async () => {
      const vmi = vmiWith([emptyDrive, claim('data')]);
      vmi.status = { ...vmi.status, migrationState: { startTimestamp: '2026-01-01T00:00:00Z' } };
      const { success, message } = await cmd.sync(vmi);
      assert.equal(success, false);
      assert.match(message, /being migrated.*fast/);
      assert.ok('fast' in (await disks()));
    });

    test('a guest that does not release a disk keeps it: the sync says so, and asks again the next time', async () => {
      await cmd.call(cmd.client.pauseVirtualMachine, vmiRequest(vmiWith([])));
      for (const attempt of [1, 2]) {
        assert.match(
          await refused(emptyDrive, claim('data')),
          /volume fast: the guest has not released disk vda yet/,
          `${attempt}`,
        );
        assert.ok('fast' in (await disks()));
      }
      await cmd.call(cmd.client.unpauseVirtualMachine, vmiRequest(vmiWith([])));
      await eventually(async () => ok(emptyDrive, claim('data')), 30_000);
      await eventually(async () => assert.deepEqual(await seen(), ['sda 8']), 20_000);
    });

    test('the last disk is unplugged, with what was written in its file, and can come back', async () => {
      await eventually(async () => ok(emptyDrive), 30_000);
      assert.deepEqual(await disks(), { cd: 'sda' });
      assert.deepEqual(await seen(), []);
      await ok(emptyDrive, claim('data'));
      await eventually(async () => assert.match(await shell.run('head -c 16 /dev/sda'), /written-by-guest/), 20_000);
    });
  });
}
