import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostHook } from '../../../../src/agent/index.ts';
import { targetsOf } from '../../../../src/agent/vmi/host/network/targets.ts';
import type { Domain, VirtualMachineInstance } from '../../../../src/api/index.ts';
import { domainOf, key, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { startLoop } from './agent-loop.ts';

/** The loop with a hook that looks at the interfaces as the real one does, and takes links away in memory. */

const links = new Set<string>();
const network: HostHook = {
  name: 'pod-network',
  prepare: async () => ({ kind: 'done', facts: null }),
  adjust: async ({ vmi, domain }) => {
    const { wanted, unplugged } = targetsOf(vmi, 'running', domain);
    for (const { iface } of wanted) links.add(iface.name);
    for (const { iface } of unplugged) links.delete(iface.name);
    return { kind: 'done', facts: null };
  },
};

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

/** A guest that runs with the interface, which is absent by now; its domain has it still. */
async function absent(t: { after(fn: () => Promise<void>): void }) {
  links.clear();
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
  return { loop, launcher };
}

test('an interface that is plugged and unplugged leaves nothing in its pod, and the guest that is settled costs nothing more', async (t) => {
  const { loop, launcher } = await absent(t);
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

test('neither does one whose link Multus took away before the domain let go of it', async (t) => {
  const { loop, launcher } = await absent(t);
  loop.api.change(key, (vmi) => {
    vmi.status = { ...vmi.status, interfaces: [{ name: 'blue', mac, infoSource: 'domain' }] };
  });
  await settle();
  assert.deepEqual([...links], ['blue']);
  const before = launcher.calls.length;
  loop.launchers.become(launcher, domainOf('Running'));
  await settle();
  assert.deepEqual([[...links], loop.api.stored(key)?.status?.interfaces], [[], undefined]);
  await loop.clock.pass(120_000);
  assert.deepEqual(launcher.calls.slice(before), ['sync']);
});

test('while the domain has an interface its links stay, whatever the status says', async (t) => {
  const { loop } = await absent(t);
  loop.api.change(key, (vmi) => {
    vmi.status = { ...vmi.status, interfaces: [] };
  });
  await settle();
  assert.deepEqual([...links], ['blue']);
});
