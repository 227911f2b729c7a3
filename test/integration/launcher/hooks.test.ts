import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { vmiRequest } from '../../fixtures/cmd-caller.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { startHookSidecar } from '../../fixtures/hook-sidecar.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import { launcherArgs, launcherVmi } from '../../fixtures/launcher-vmi.ts';

let bench: LauncherBench;
const channel = '<channel type="unix"><target type="virtio" name="org.example.mine"/></channel>';

before(async () => {
  bench = await LauncherBench.create();
});
after(() => bench?.dispose());

/** The pod's own /run: seen once its first process has mounted it. */
async function runOf(pod: Awaited<ReturnType<LauncherBench['startPod']>>): Promise<string> {
  let run = '';
  await eventually(() => {
    run = `/proc/${pod.pids('virt-launcher.mjs')[0]}/root/run`;
    assert.ok(existsSync(`${run}/kubevirt/sockets`), pod.log());
  });
  return run;
}

test('a launcher is ready when its sidecar is, which then changes the domain that runs, and hears of its end', async (t) => {
  const pod = await bench.startPod({ args: [...launcherArgs, '--hook-sidecars', '1'] });
  const agent = await bench.startAgent(pod);
  const run = await runOf(pod);
  assert.equal(existsSync(pod.commandSocket), false);
  let ended = 0;
  const sidecar = await startHookSidecar(`${run}/kubevirt-hooks/mine`, {
    name: 'mine',
    points: [
      ['OnDefineDomain', 0],
      ['Shutdown', 0],
    ],
    domain: (xml) => xml.replace('</devices>', `${channel}</devices>`),
    onShutdown: () => ended++,
  });
  t.after(() => sidecar.forceShutdown());
  const cmd = await bench.callerOf(pod);
  const vmi = launcherVmi();
  assert.deepEqual(await cmd.sync(vmi), { success: true, message: '' }, pod.log());
  await agent.waitFor(hasStatus('Running'), 5000);
  const { domain } = await cmd.call(cmd.client.getDomain, {});
  assert.match(domain, /org\.example\.mine/);
  await cmd.call(cmd.client.killVirtualMachine, vmiRequest(vmi));
  await eventually(() => assert.equal(ended, 1));
});

test('a sidecar that hangs when the guest has ended keeps nobody from learning of it', async (t) => {
  const pod = await bench.startPod({ args: [...launcherArgs, '--hook-sidecars', '1'] });
  const agent = await bench.startAgent(pod);
  const run = await runOf(pod);
  const sidecar = await startHookSidecar(`${run}/kubevirt-hooks/mine`, {
    name: 'mine',
    points: [['Shutdown', 0]],
    hangs: true,
  });
  t.after(() => sidecar.forceShutdown());
  const cmd = await bench.callerOf(pod);
  const vmi = launcherVmi();
  await cmd.sync(vmi);
  await agent.waitFor(hasStatus('Running'), 5000);
  await cmd.call(cmd.client.killVirtualMachine, vmiRequest(vmi));
  await agent.waitFor(hasStatus('Shutoff'), 5000);
  await cmd.call(cmd.client.deleteVirtualMachine, vmiRequest(vmi)).catch(() => undefined);
  const beganMs = performance.now();
  pod.terminate();
  assert.equal(await pod.exited, 0, pod.log());
  assert.ok(performance.now() - beganMs < 20_000, pod.log());
});
