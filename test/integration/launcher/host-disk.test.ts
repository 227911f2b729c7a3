import assert from 'node:assert/strict';
import { chmodSync, chownSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Volume } from '../../../src/api/index.ts';
import { vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { launcherVmi } from '../../fixtures/launcher-vmi.ts';

const qemuId = 107;
const volume: Volume = { name: 'data', hostDisk: { path: '/srv/vms/data.img', type: 'Disk' } };
const vmi = launcherVmi({ spec: { volumes: [volume] } });

/** The file as the pod sees it, with 1 MiB. */
function putDisk(pod: LauncherSandbox, owner: number): string {
  const file = path.join(pod.privateDir, 'vmi-disks/data/data.img');
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, Buffer.alloc(1 << 20));
  chmodSync(file, 0o600);
  chownSync(file, owner, owner);
  return file;
}

describe('a host disk under a root launcher, whose libvirt may change any owner', () => {
  let bench: LauncherBench;
  before(async () => {
    bench = await LauncherBench.create();
  });
  after(() => bench?.dispose());

  test('a file of the host that is not QEMU’s own starts no guest and keeps its owner', async () => {
    const pod = await bench.startPod();
    const file = putDisk(pod, 0);
    const cmd = await bench.callerOf(pod);
    const { success, message } = await cmd.sync(vmi);
    assert.equal(success, false);
    assert.match(message, /\/srv\/vms\/data\.img belongs to user 0, not to QEMU \(107\)/);
    assert.deepEqual(pod.pids('guest=default_small'), []);
    assert.equal(statSync(file).uid, 0);
  });

  test('a file of QEMU’s user is his before, while and after the guest runs', async () => {
    const pod = await bench.startPod();
    const file = putDisk(pod, qemuId);
    const cmd = await bench.callerOf(pod);
    assert.deepEqual(await cmd.sync(vmi), { success: true, message: '' }, pod.log());
    assert.equal(statSync(file).uid, qemuId);
    assert.equal((await cmd.call(cmd.client.killVirtualMachine, vmiRequest(vmi))).success, true);
    await eventually(() => assert.deepEqual(pod.pids('guest=default_small'), []));
    assert.equal((await cmd.call(cmd.client.deleteVirtualMachine, vmiRequest(vmi))).success, true);
    assert.deepEqual([statSync(file).uid, statSync(file).gid], [qemuId, qemuId]);
  });
});
