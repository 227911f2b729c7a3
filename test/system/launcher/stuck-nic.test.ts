import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Interface } from '../../../src/api/index.ts';
import type { CmdCaller } from '../../fixtures/cmd-caller.ts';
import { hasStatus, LauncherBench } from '../../fixtures/launcher-bench.ts';
import type { LauncherSandbox } from '../../fixtures/launcher-sandbox.ts';
import { launcherVmi } from '../../fixtures/launcher-vmi.ts';
import { bridgePod, TestNamespace } from '../../fixtures/pod-bridge.ts';

const blue: Interface = { name: 'blue', bridge: {} };

/** Without an operating system nothing in the guest lets go of the device. */
describe('a network device that the guest does not let go', () => {
  let namespace: TestNamespace;
  let bench: LauncherBench;
  let pod: LauncherSandbox;
  let cmd: CmdCaller;

  const vmiWith = (iface: Interface, phase: string) =>
    launcherVmi({
      phase,
      spec: {
        domain: { ...launcherVmi().spec.domain, devices: { interfaces: [iface] } },
        networks: [{ name: 'blue', multus: { networkName: 'blue' } }],
      },
    });

  before(async () => {
    namespace = new TestNamespace('stuck');
    const devices = { link: 'pod16477688c0e', bare: '16477688c0e', tap: 'tap16477688c0e' };
    bridgePod(namespace, { ...devices, server: '169.254.75.10', mac: '02:00:00:00:00:0b' });
    bench = await LauncherBench.create();
    const network = { namespace: namespace.name, resolvConf: '' };
    pod = await bench.startPod({ network, env: { VIRT_LAUNCHER_NETWORK: 'tap' } });
    cmd = await bench.callerOf(pod);
    // As the agent writes it for a pod whose device has no address.
    writeFileSync(path.join(pod.privateDir, `vif-cache-${devices.link}.json`), '{"IPAMDisabled":true}');
  });
  after(async () => {
    await bench?.dispose();
    namespace?.remove();
  });

  test('is asked for again and again without a failing sync, and stays in the domain', async () => {
    const agent = await bench.startAgent(pod);
    assert.deepEqual(await cmd.sync(vmiWith(blue, 'Scheduled')), { success: true, message: '' }, pod.log());
    await agent.waitFor(hasStatus('Running'), 10_000);
    const absent = vmiWith({ ...blue, state: 'absent' }, 'Running');
    assert.deepEqual(await cmd.sync(absent), { success: true, message: '' });
    assert.deepEqual(await cmd.sync(absent), { success: true, message: '' });
    const { domain } = await cmd.call(cmd.client.getDomain, {});
    assert.equal(JSON.parse(domain).Spec.Devices.Interfaces[0].Alias.Name, 'blue');
  });
});
