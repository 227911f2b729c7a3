import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { BackupGuest } from '../../fixtures/backup-guest.ts';
import { installerMedium, writeBootableDisk } from '../../fixtures/bootable-disk.ts';
import { LauncherBench } from '../../fixtures/launcher-bench.ts';
import { guestVmi } from '../../fixtures/launcher-vmi.ts';

const disk: Parameters<typeof guestVmi>[0] = {
  devices: { disks: [{ name: 'data', disk: { bus: 'virtio' } }], autoattachPodInterface: false },
  more: { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }] },
};
const vmi = guestVmi(disk);
vmi.status = { ...vmi.status, changedBlockTracking: { state: 'Initializing' } };

/** Nothing but its disk boots it: there is no kernel beside it. */
const diskVmi = guestVmi(disk);
diskVmi.spec.domain.firmware = { bootloader: { efi: { secureBoot: false } } };

describe('backups that are restored into disks', () => {
  let bench: LauncherBench;
  let guest: BackupGuest;
  let restored: BackupGuest | undefined;

  /** As an operator does it: the last backup of a chain, on whatever it needs, becomes the image of a new claim. */
  const boot = async (backup: string) => {
    const image = (file: string) =>
      execFileSync('qemu-img', ['convert', '-f', 'qcow2', '-O', 'raw', guest.fileOf(backup), file]);
    restored = await BackupGuest.start(bench, diskVmi, (file) => void image(file));
    const shown = await restored.shell.run('hostname; cd /system; ls -1; cat at-*');
    await restored.kill();
    restored.shell.close();
    return shown.split('\n').filter((line) => line !== '');
  };
  const backedUp = async (name: string, since?: string) => {
    const order = { backupName: name, skipQuiesce: true, ...(since && { incremental: guest.checkpointOf(since) }) };
    assert.deepEqual(await guest.order(order), { success: true, message: '' });
    assert.equal((await guest.ended(name)).Failed, false);
  };
  const write = (hostname: string) =>
    guest.shell.run(`cd /mnt; echo ${hostname} >hostname; echo written by ${hostname} >${hostname}; sync`);

  before(async () => {
    assert.ok(existsSync(installerMedium), 'there is no medium: run node scripts/guest/installer/build.mjs');
    bench = await LauncherBench.create();
    guest = await BackupGuest.start(bench, vmi, (image) => writeBootableDisk(image, 'original'));
  });
  after(async () => {
    guest?.shell.close();
    restored?.shell.close();
    await bench?.dispose();
  });

  test('a full backup boots with what was written until then, and one on top of it with what came later', async () => {
    await guest.shell.run('until grep -q ext4 /proc/filesystems; do sleep 1; done; mount -t ext4 /dev/vda2 /mnt');
    await write('at-full');
    await backedUp('full');
    await write('at-more');
    await backedUp('more', 'full');
    await write('after-all');
    await guest.kill();
    const chain = ['-u', '-f', 'qcow2', '-F', 'qcow2', '-b', guest.fileOf('full'), guest.fileOf('more')];
    execFileSync('qemu-img', ['rebase', ...chain]);
    assert.deepEqual(await boot('full'), ['at-full', 'at-full', 'hostname', 'lost+found', 'written by at-full']);
    assert.deepEqual(await boot('more'), [
      ...['at-more', 'at-full', 'at-more', 'hostname', 'lost+found'],
      ...['written by at-full', 'written by at-more'],
    ]);
  });
});
