import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import net from 'node:net';
import { after, afterEach, before, test } from 'node:test';
import { vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { hasStatus, isGone, LauncherBench } from '../../fixtures/launcher-bench.ts';
import { launcherArgs, launcherVmi } from '../../fixtures/launcher-vmi.ts';
import type { SeenEvent } from '../../fixtures/notify-agent.ts';

const vmi = launcherVmi();
let bench: LauncherBench;

before(async () => {
  bench = await LauncherBench.create();
});
afterEach(() => bench.closeAll());
after(() => bench.dispose());

/** A launcher that serves its command socket. */
async function readyPod(...args: string[]) {
  const pod = await bench.startPod({ args: [...launcherArgs, ...args] });
  return { pod, cmd: await bench.callerOf(pod) };
}

test('libvirtd killed with -9: QEMU goes on as the same process, and the launcher works again', async () => {
  const { pod, cmd, agent } = await bench.runVmi(vmi);
  const qemu = pod.pids('guest=default_small');
  const [daemon] = pod.pids('/usr/sbin/libvirtd');
  const seen = agent.events.length;
  process.kill(daemon ?? 0, 'SIGKILL');
  const during = await cmd.call(cmd.client.pauseVirtualMachine, vmiRequest(vmi));
  assert.equal(typeof during.success, 'boolean');
  await eventually(() => assert.ok(pod.pids('/usr/sbin/libvirtd').some((pid) => pid !== daemon)));
  await eventually(() => assert.ok(agent.events.length > seen, 'the state is sent again after the reconnect'));
  await eventually(async () => {
    const paused = await cmd.call(cmd.client.pauseVirtualMachine, vmiRequest(vmi));
    assert.equal(paused.success, true, paused.message);
  });
  await agent.waitFor(hasStatus('Paused', 'User'), 5000);
  assert.deepEqual(pod.pids('guest=default_small'), qemu);
});

test('a domain that ends while libvirtd is away is still seen to end', async () => {
  const { pod, cmd, agent } = await bench.runVmi(vmi);
  const [qemu] = pod.pids('guest=default_small');
  const [daemon] = pod.pids('/usr/sbin/libvirtd');
  process.kill(daemon ?? 0, 'SIGKILL');
  process.kill(qemu ?? 0, 'SIGKILL');
  const seen = agent.events.length;
  const ended = await agent.waitFor(
    (event) => agent.events.indexOf(event) >= seen && hasStatus('Shutoff')(event),
    15_000,
  );
  assert.equal(ended.domain.Status.Reason, 'Crashed');
  assert.deepEqual(await cmd.call(cmd.client.deleteVirtualMachine, vmiRequest(vmi)), { success: true, message: '' });
  await agent.waitFor(isGone, 5000);
  assert.equal(await pod.exited, 0, pod.log());
});

test('QEMU killed with -9 is reported as a crash', async () => {
  const { pod, cmd, agent } = await bench.runVmi(vmi);
  const [qemu] = pod.pids('guest=default_small');
  process.kill(qemu ?? 0, 'SIGKILL');
  await agent.waitFor(hasStatus('Shutoff', 'Crashed'), 5000);
  await cmd.call(cmd.client.deleteVirtualMachine, vmiRequest(vmi));
  await agent.waitFor(isGone, 5000);
  assert.equal(await pod.exited, 0, pod.log());
});

test('an agent that comes late gets the latest state at once, and one that was away the last one', async () => {
  const { pod, cmd } = await readyPod();
  assert.equal((await cmd.sync(vmi)).success, true, pod.log());
  const first = await bench.startAgent(pod);
  await first.waitFor(hasStatus('Running'), 3000);
  assert.equal(first.events[0]?.type, 'ADDED', 'nothing was sent before, so the first is an addition');
  await first.close();

  await cmd.call(cmd.client.pauseVirtualMachine, vmiRequest(vmi));
  await cmd.call(cmd.client.unpauseVirtualMachine, vmiRequest(vmi));
  await cmd.call(cmd.client.killVirtualMachine, vmiRequest(vmi));
  await eventually(() => assert.deepEqual(pod.pids('guest=default_small'), []));
  const second = await bench.startAgent(pod);
  await second.waitFor(hasStatus('Shutoff', 'Destroyed'), 3000);
  assert.equal(second.events.some(hasStatus('Paused')), false, 'only the latest state is sent');
  await cmd.call(cmd.client.deleteVirtualMachine, vmiRequest(vmi));
  await second.waitFor(isGone, 5000);
  assert.equal(await pod.exited, 0);
});

test('a new pipe of a restarted agent is sent the state without a request', async () => {
  const { pod, agent } = await bench.runVmi(vmi);
  await agent.close();
  const next = await bench.startAgent(pod);
  await next.waitFor(hasStatus('Running'), 3000);
});

test('SIGTERM is passed on to the agent as metadata; after the grace period the domain is ended by force', async () => {
  const { pod, cmd, agent } = await bench.runVmi(vmi);
  const startedMs = performance.now();
  pod.terminate();
  const marked = ({ domain }: SeenEvent) =>
    domain.Spec.Metadata.KubeVirt.GracePeriod?.MarkedForGracefulShutdown === true;
  await agent.waitFor(marked, 3000);
  assert.equal((await cmd.call(cmd.client.shutdownVirtualMachine, vmiRequest(vmi))).success, true);
  await agent.waitFor(hasStatus('Shutoff', 'Destroyed'), 15_000);
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs > 3900 && tookMs < 9000, `${tookMs} ms, the grace period is 4 s`);
  await cmd.call(cmd.client.deleteVirtualMachine, vmiRequest(vmi));
  assert.equal(await pod.exited, 0, pod.log());
});

test('SIGTERM before there is a domain ends the launcher at once with 0', async () => {
  const { pod } = await readyPod();
  const startedMs = performance.now();
  pod.terminate();
  assert.equal(await pod.exited, 0, pod.log());
  assert.ok(performance.now() - startedMs < 4000);
  assert.ok(existsSync(pod.commandSocket), 'the ready socket stays, with no listener');
});

test('without a VMI in time the launcher ends with 2 and says why', async () => {
  const { pod } = await readyPod('--qemu-timeout=1s');
  assert.equal(await pod.exited, 2);
  assert.match(pod.log(), /no domain was started within 1 s/);
});

test('garbage on the command socket harms no other caller', async () => {
  const { pod, cmd } = await readyPod();
  for (const bytes of ['GET / HTTP/1.1\r\n\r\n', '\0'.repeat(4096), 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff']) {
    await new Promise<void>((resolve) => {
      const socket = net.connect(pod.commandSocket, () => socket.end(Buffer.from(bytes, 'latin1')));
      socket.on('close', () => resolve());
      socket.on('error', () => resolve());
      socket.resume();
    });
  }
  const silent = Array.from({ length: 20 }, () => net.connect(pod.commandSocket).on('error', () => undefined));
  assert.deepEqual(await cmd.call(cmd.client.ping, {}, 3000), { success: true, message: '' });
  for (const socket of silent) socket.destroy();
});

test('requests without a usable VMI are refused with a reason', async () => {
  const { cmd } = await readyPod();
  const texts: [string, RegExp][] = [
    ['', /carries no usable VMI: it is empty/],
    ['{', /carries no usable VMI/],
    ['null', /not an object/],
    ['[]', /not an object/],
    ['{}', /metadata is missing/],
    ['{"metadata":{"name":7}}', /metadata\.name is missing/],
    [`${'['.repeat(100_000)}`, /carries no usable VMI/],
    [JSON.stringify({ ...vmi, spec: {} }), /spec\.domain is missing/],
    [JSON.stringify({ ...vmi, metadata: { ...vmi.metadata, uid: 'other' } }), /this launcher serves uid/],
  ];
  for (const [text, reason] of texts) {
    const request = { vmi: { vmiJson: Buffer.from(text) }, options: undefined };
    const { success, message } = await cmd.call(cmd.client.syncVirtualMachine, request);
    assert.equal(success, false, text.slice(0, 40));
    assert.match(message, reason);
  }
  const { success } = await cmd.call(cmd.client.killVirtualMachine, { vmi: undefined, options: undefined });
  assert.equal(success, false);
});

test('a VMI that cannot be made leaves nothing behind, and a good one works afterwards', async () => {
  const { pod, cmd } = await readyPod();
  const agent = await bench.startAgent(pod);
  const disk = (name: string) => ({
    domain: { ...vmi.spec.domain, devices: { disks: [{ name, disk: { bus: 'virtio' as const } }] } },
  });
  const bad: [string, object][] = [
    ['missing image', { ...disk('root'), volumes: [{ name: 'root', containerDisk: { image: 'virt-node/none' } }] }],
    ['broken cloud-init', { ...disk('ci'), volumes: [{ name: 'ci', cloudInitNoCloud: { userDataBase64: '%%%' } }] }],
    ['disk without volume', disk('nothing')],
    ['more memory than there is', { domain: { ...vmi.spec.domain, resources: { requests: { memory: '900Ti' } } } }],
  ];
  for (const [what, spec] of bad) {
    const { success, message } = await cmd.sync(launcherVmi({ spec }));
    assert.equal(success, false, what);
    assert.ok(message.length > 20, `${what}: ${message}`);
    assert.equal((await cmd.call(cmd.client.getDomain, {})).domain, '', what);
    assert.deepEqual(pod.pids('guest=default_small'), [], what);
  }
  assert.deepEqual(await cmd.sync(vmi), { success: true, message: '' }, pod.log());
  await agent.waitFor(hasStatus('Running'), 5000);
});

test('a VMI without any disk and with startStrategy Paused stays paused until it is unpaused', async () => {
  const { pod, cmd } = await readyPod();
  const paused = launcherVmi({ spec: { startStrategy: 'Paused' } });
  const status = async () => JSON.parse((await cmd.call(cmd.client.getDomain, {})).domain).Status.Status;
  assert.equal((await cmd.sync(paused)).success, true, pod.log());
  assert.equal(await status(), 'Paused');
  assert.equal((await cmd.sync(paused)).success, true);
  assert.equal(await status(), 'Paused');
  assert.equal((await cmd.call(cmd.client.unpauseVirtualMachine, vmiRequest(paused))).success, true);
  assert.equal(await status(), 'Running');
});

test('STANDALONE_VMI: the guest runs without an agent, and the launcher leaves when it ends', async () => {
  const args = launcherArgs.filter((arg) => !/--(name|namespace|uid)=/.test(arg));
  const pod = await bench.startPod({ args, env: { STANDALONE_VMI: JSON.stringify(vmi) } });
  await eventually(() => assert.match(pod.log(), /domain started/));
  process.kill(pod.pids('guest=default_small')[0] ?? 0, 'SIGTERM');
  assert.equal(await pod.exited, 0, pod.log());
});

test('a STANDALONE_VMI that cannot be read ends the launcher with 2 and a reason', async () => {
  const pod = await bench.startPod({ env: { STANDALONE_VMI: 'a: [' } });
  assert.equal(await pod.exited, 2);
  assert.match(pod.log(), /STANDALONE_VMI cannot be read/);
});
