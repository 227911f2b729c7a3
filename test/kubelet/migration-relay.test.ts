import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { eventually } from '../fixtures/eventually.ts';
import { schedulable, timed } from './guests.ts';
import { InstalledCluster } from './installation.ts';
import { MovingVm } from './moving-vm.ts';
import { isAgent, type NodeMachine } from './node-machine.ts';

/** The overlay whose streams of migrations are kept by pods of their own, on two nodes with a real kubelet each. */

const overlay = 'daemonset/overlays/migration-relay';
let cluster: InstalledCluster;
let machine: NodeMachine;
let vm: MovingVm;

before(async () => {
  // What this containerd cannot do: images as volumes.
  cluster = await InstalledCluster.start({ overlay, nodes: 2, disabledFeatureGates: ['ImageVolume'] });
  machine = cluster.machine;
  vm = new MovingVm(cluster, 'vm1');
});
after(() => cluster?.stop());

const relay = 'kubevirt.io=virt-handler-migration-relay';
const untilRelaysAreReady = () =>
  eventually(() => {
    const { items } = machine.get('pods', '-n', 'kubevirt', '-l', relay);
    const ready = items.filter(({ status }: RelayPod) => status.containerStatuses?.[0]?.ready);
    assert.equal(ready.length, 2, JSON.stringify(items.map(({ status }: RelayPod) => status)));
  }, 60_000);

interface RelayPod {
  readonly status: { readonly containerStatuses?: readonly { readonly ready: boolean }[] };
}

test('agents are replaced at once while a guest moves between their nodes: it arrives over the same streams', async (t) => {
  for (const { name } of machine.nodes) await schedulable(machine, name);
  await untilRelaysAreReady();
  await vm.start(t);
  const { otherNode } = vm;
  vm.throttle('4Mi');
  const before = await vm.asked();
  vm.migrate('slow');
  const proxies = await vm.untilItMoves('slow');
  const agents = await Promise.all(machine.nodes.map(({ name }) => machine.agentPod(10_000, name)));
  const names: string[] = agents.map(({ metadata }) => metadata.name);
  machine.api.kubectl('delete', 'pod', '-n', 'kubevirt', ...names, '--wait=false');
  await timed(t, 'replaced', async () => {
    for (const [index, { name }] of machine.nodes.entries()) {
      assert.notEqual((await machine.agentPod(60_000, name)).metadata.uid, agents[index].metadata.uid);
    }
  });
  assert.equal(vm.migration('slow').status.phase, 'Running', 'the migration was over before the agents were replaced');
  assert.deepEqual(vm.proxies, proxies);
  await timed(t, 'arrived after both agents were replaced', () => vm.untilMigration('slow', 'Succeeded'));
  await vm.hasMoved(otherNode, before, t);
});

test('agents that crash while a guest moves come back to a migration that goes on', async (t) => {
  const { otherNode } = vm;
  const before = await vm.asked();
  vm.migrate('crash');
  const proxies = await vm.untilItMoves('crash');
  const agents = machine.processesOf(isAgent);
  assert.equal(agents.length, 2);
  for (const pid of agents) process.kill(pid, 'SIGKILL');
  await timed(t, 'run again', () => {
    const next = machine.processesOf(isAgent);
    assert.equal(next.filter((pid) => !agents.includes(pid)).length, 2);
  });
  assert.equal(vm.migration('crash').status.phase, 'Running', 'the migration was over before the agents were back');
  assert.deepEqual(vm.proxies, proxies);
  await vm.untilMigration('crash', 'Succeeded');
  await vm.hasMoved(otherNode, before, t);
});

test('a relay that is deleted waits for the migration, too; its successor takes the next one', async (t) => {
  const { node, otherNode } = vm;
  const before = await vm.asked();
  vm.migrate('waited-for');
  await vm.untilItMoves('waited-for');
  const { items } = machine.get('pods', '-n', 'kubevirt', '-l', relay, `--field-selector=spec.nodeName=${node.name}`);
  machine.api.kubectl('delete', 'pod', '-n', 'kubevirt', items[0].metadata.name, '--wait=false');
  await timed(t, 'arrived', () => vm.untilMigration('waited-for', 'Succeeded'));
  await vm.hasMoved(otherNode, before, t);
  await timed(t, 'replaced', () => {
    const after = machine.get('pods', '-n', 'kubevirt', '-l', relay, `--field-selector=spec.nodeName=${node.name}`);
    const uids: string[] = after.items.map(({ metadata }: { metadata: { uid: string } }) => metadata.uid);
    assert.equal(uids.length, 1);
    assert.notEqual(uids[0], items[0].metadata.uid);
  });
  await untilRelaysAreReady();
  vm.throttle(null);
  await eventually(() =>
    assert.equal(machine.get('node', node.name).metadata.labels['kubevirt.io/schedulable'], 'true'),
  );
  vm.migrate('next');
  await vm.untilMigration('next', 'Succeeded');
  await vm.hasMoved(node, before, t);
});
