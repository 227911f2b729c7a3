import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import { launcherVmi } from '../../fixtures/launcher-vmi.ts';

const vmi = launcherVmi();
let bench: LauncherBench;

before(async () => {
  bench = await LauncherBench.create();
});
afterEach(() => bench.closeAll());
after(() => bench.dispose());

test('kill ends a QEMU that does not react to SIGTERM', async () => {
  const { pod, cmd, agent } = await bench.runVmi(vmi);
  process.kill(pod.pids('guest=default_small')[0] ?? 0, 'SIGSTOP');
  const killed = await cmd.call(cmd.client.killVirtualMachine, vmiRequest(vmi), 20_000);
  assert.deepEqual(killed, { success: true, message: '' });
  await agent.waitFor(hasStatus('Shutoff', 'Destroyed'), 5000);
  assert.deepEqual(pod.pids('guest=default_small'), []);
});

test('a libvirtd that hangs is killed and started again; QEMU goes on', async () => {
  const { pod, cmd } = await bench.runVmi(vmi);
  const qemu = pod.pids('guest=default_small');
  const [daemon] = pod.pids('/usr/sbin/libvirtd');
  process.kill(daemon ?? 0, 'SIGSTOP');
  await eventually(() => assert.ok(!pod.pids('/usr/sbin/libvirtd').includes(daemon ?? 0)), 70_000);
  await eventually(async () => {
    const paused = await cmd.call(cmd.client.pauseVirtualMachine, vmiRequest(vmi));
    assert.equal(paused.success, true, paused.message);
  });
  assert.deepEqual(pod.pids('guest=default_small'), qemu);
});
