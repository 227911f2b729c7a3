import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { BackupGuest, mebibyte } from '../../fixtures/backup-guest.ts';
import { LauncherBench } from '../../fixtures/launcher-bench.ts';
import { guestDir, guestVmi } from '../../fixtures/launcher-vmi.ts';

const vmi = guestVmi({
  devices: { disks: [{ name: 'data', disk: { bus: 'virtio' } }], autoattachPodInterface: false },
  more: { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }] },
});
vmi.status = { ...vmi.status, changedBlockTracking: { state: 'Initializing' } };

describe('a guest that writes more than its backup has room for', () => {
  let bench: LauncherBench;
  let guest: BackupGuest;

  before(async () => {
    assert.ok(existsSync(guestDir), 'there is no guest: run node scripts/guest/build.mjs');
    bench = await LauncherBench.create();
    guest = await BackupGuest.start(bench, vmi, (image) => {
      writeFileSync(image, '');
      truncateSync(image, 64 * mebibyte);
    });
  });
  after(async () => {
    guest?.shell.close();
    await bench?.dispose();
  });

  const fill = (letter: string) =>
    guest.shell.run(`tr "\\000" ${letter} </dev/zero | dd of=/dev/vda bs=1M seek=16 count=16 iflag=fullblock; sync`);

  test('goes on writing, without its backup, which says what to do', async () => {
    await fill('x');
    const [pid] = guest.pod.pids('/usr/sbin/libvirtd');
    const inPod = (script: string) =>
      execFileSync('nsenter', ['-t', String(pid), '-m', 'sh', '-c', script], { encoding: 'utf8' });
    const small = '/run/kubevirt/hotplug-disks/small';
    inPod(`mkdir ${small} && mount -t tmpfs -o size=4m,uid=107,gid=107 tmpfs ${small}`);
    const targetPath = '/var/run/kubevirt/hotplug-disks/small';
    const order = { mode: 'Pull', backupName: 'small', skipQuiesce: true, targetPath };
    assert.deepEqual(await guest.order(order), { success: true, message: '' });
    await fill('y');
    assert.match(await guest.shell.run('dmesg | grep -c "I/O error"'), /^0$/m, 'the guest has seen no error');
    const told = await guest.ended('small');
    assert.equal(told.Failed, true);
    assert.match(String(told.BackupMsg), /^the claim is too small: a pull needs room/);
    assert.equal(guest.bytesAt(guest.image, 'raw', 31), 'yyyyy');
    assert.equal(inPod(`ls ${small}`), '');
    assert.equal(existsSync(path.join(guest.pod.socketsDir, 'backup-nbd-sock')), false);
  });
});
