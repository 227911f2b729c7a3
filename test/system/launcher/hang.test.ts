import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, afterEach, before, test } from 'node:test';
import { CmdCaller, vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { bundleLauncher, startLauncher } from '../../fixtures/launcher-sandbox.ts';
import { launcherArgs, launcherVmi } from '../../fixtures/launcher-vmi.ts';
import { type SeenEvent, startNotifyAgent } from '../../fixtures/notify-agent.ts';

const vmi = launcherVmi();
const hasStatus = (status: string, reason?: string) => (event: SeenEvent) =>
  event.domain.Status.Status === status && (reason === undefined || event.domain.Status.Reason === reason);

let bundle: Awaited<ReturnType<typeof bundleLauncher>>;
const opened: (() => Promise<void>)[] = [];

before(async () => {
  bundle = await bundleLauncher();
});
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});
after(() => bundle.remove());

/** A VMI that runs, and an agent that has seen it. */
async function runningVmi() {
  const env = { VIRT_LAUNCHER_KVM: 'fails', VIRT_LAUNCHER_NETWORK: 'user' };
  const pod = await startLauncher(bundle.file, { args: launcherArgs, env });
  opened.push(() => pod.close());
  const agent = await startNotifyAgent(pod.notifyPipe);
  opened.push(() => agent.close());
  await eventually(() => assert.ok(existsSync(pod.commandSocket), pod.log()));
  const cmd = new CmdCaller(pod.commandSocket);
  opened.push(async () => cmd.close());
  assert.deepEqual(await cmd.sync(vmi), { success: true, message: '' }, pod.log());
  await agent.waitFor(hasStatus('Running'), 5000);
  return { pod, cmd, agent };
}

test('kill ends a QEMU that does not react to SIGTERM', async () => {
  const { pod, cmd, agent } = await runningVmi();
  process.kill(pod.pids('guest=default_small')[0] ?? 0, 'SIGSTOP');
  const killed = await cmd.call(cmd.client.killVirtualMachine, vmiRequest(vmi), 20_000);
  assert.deepEqual(killed, { success: true, message: '' });
  await agent.waitFor(hasStatus('Shutoff', 'Destroyed'), 5000);
  assert.deepEqual(pod.pids('guest=default_small'), []);
});

test('a libvirtd that hangs is killed and started again; QEMU goes on', async () => {
  const { pod, cmd } = await runningVmi();
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
