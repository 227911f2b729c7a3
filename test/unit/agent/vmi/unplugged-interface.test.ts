import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostHook } from '../../../../src/agent/index.ts';
import { targetsOf } from '../../../../src/agent/vmi/host/network/targets.ts';
import type { Domain, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { domainOf, key, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { startLoop } from './agent-loop.ts';

/** The loop with a hook that looks at the interfaces as the real one does, and takes links away in memory. */

const network: HostHook = {
  name: 'pod-network',
  prepare: async () => ({ kind: 'done', facts: null }),
  adjust: async ({ vmi }) => {
    const { wanted, unplugged } = targetsOf(vmi, 'running');
    for (const { iface } of wanted) links.add(iface.name);
    for (const { iface } of unplugged) links.delete(iface.name);
    return { kind: 'done', facts: null };
  },
};
const links = new Set<string>();

const blue = { name: 'blue', bridge: {} };
const mac = '02:00:00:00:00:01';

function withBlue(domain: Domain): Domain {
  const device = { Type: 'ethernet', Driver: null, LinkState: null };
  domain.Spec.Devices.Interfaces = [{ ...device, Alias: { Name: 'blue', UserDefined: true }, MAC: { MAC: mac } }];
  return domain;
}

function setBlue(vmi: VirtualMachineInstance, iface: object): void {
  vmi.spec.networks = [{ name: 'blue', multus: { networkName: 'blue' } }];
  vmi.spec.domain.devices = { interfaces: [{ ...blue, ...iface }] };
}

test('an interface that is plugged and unplugged leaves nothing in its pod, and the guest that is settled costs nothing more', async (t) => {
  const loop = await startLoop(t, ({ hooks }) => void hooks.push(network));
  const launcher = loop.launchers.run(key, uid);
  loop.api.apply(vmiOf('Scheduled'));
  await settle();
  loop.api.change(key, (vmi) => {
    setBlue(vmi, {});
    vmi.status = { ...vmi.status, interfaces: [{ name: 'blue', infoSource: 'multus-status' }] };
  });
  await settle();
  loop.launchers.become(launcher, withBlue(domainOf('Running')));
  await settle();
  assert.deepEqual([...links], ['blue']);

  loop.api.change(key, (vmi) => setBlue(vmi, { state: 'absent' }));
  await settle();
  assert.deepEqual([...links], ['blue'], 'the domain has it still');
  const before = launcher.calls.length;
  loop.launchers.become(launcher, domainOf('Running'));
  await settle();
  assert.deepEqual([...links], []);
  assert.deepEqual(launcher.calls.slice(before), ['sync']);
  assert.deepEqual(loop.api.stored(key)?.status?.interfaces, [{ name: 'blue', infoSource: 'multus-status' }]);

  const [writes, reconciles] = [loop.api.stored(key)?.metadata.resourceVersion, loop.rules().length];
  await loop.clock.pass(120_000);
  assert.deepEqual(launcher.calls.slice(before), ['sync']);
  assert.deepEqual([loop.api.stored(key)?.metadata.resourceVersion, loop.rules().length], [writes, reconciles]);
});
