import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { retryNameOf } from '../../src/api/index.ts';
import { eventually } from '../fixtures/eventually.ts';
import { schedulable, timed } from './guests.ts';
import { InstalledCluster } from './installation.ts';
import { MovingVm } from './moving-vm.ts';
import { isAgent, type NodeMachine } from './node-machine.ts';

/** A VM that moves between two nodes with a real kubelet each. The tests are one story: each begins where the one before it ended. */

const run = promisify(execFile);
/** Networks and mounts take what the least privilege does not give. */
const overlay = 'daemonset/overlays/tight-rights';
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

test('a VM moves to the other node while it runs, and leaves nothing behind', async (t) => {
  for (const { name } of machine.nodes) await schedulable(machine, name);
  await vm.start(t);
  const { otherNode } = vm;
  const before = await vm.asked();
  vm.migrate('there');
  await timed(t, 'moved', () => vm.untilMigration('there', 'Succeeded'));
  await vm.hasMoved(otherNode, before, t);
});

test('a node that is drained is left by its VM; it takes VMs again when it is uncordoned', async (t) => {
  const { node, otherNode } = vm;
  const before = await vm.asked();
  const drain = ['--ignore-daemonsets', '--delete-emptydir-data', '--pod-selector=kubevirt.io=virt-launcher'];
  // The server asks a webhook of this process meanwhile.
  await timed(t, 'drained', async () => {
    await run('kubectl', ['--kubeconfig', machine.api.adminKubeconfig, 'drain', node.name, ...drain, '--timeout=150s']);
  });
  await vm.hasMoved(otherNode, before, t);
  machine.api.kubectl('uncordon', node.name);
  assert.equal(vm.vmi.status.evacuationNodeName, undefined);
  const note = 'virt-controller.kubevirt.io/cordoned-for-evacuation';
  await eventually(() => assert.equal(machine.get('node', node.name).metadata.annotations[note], undefined));
});

test('a node with KubeVirt’s taint of drains is left by its VM without virt-api', async (t) => {
  const { node, otherNode } = vm;
  const before = await vm.asked();
  const taint = 'kubevirt.io/drain:NoSchedule';
  machine.api.kubectl('taint', 'node', node.name, taint);
  await timed(t, 'left', () => assert.equal(vm.vmi.status.nodeName, otherNode.name));
  machine.api.kubectl('taint', 'node', node.name, `${taint}-`);
  await vm.hasMoved(otherNode, before, t);
});

test('an agent that is replaced while a guest leaves its node waits until the guest has arrived', async (t) => {
  const { node, otherNode } = vm;
  vm.throttle('4Mi');
  const before = await vm.asked();
  vm.migrate('slow');
  await vm.untilItMoves('slow');
  const { metadata } = await machine.agentPod(10_000, node.name);
  machine.api.kubectl('delete', 'pod', '-n', 'kubevirt', metadata.name, '--wait=false');
  const seen: { readonly phase: string; readonly isAgentThere: boolean }[] = [];
  await timed(t, 'arrived after the agent was asked to leave', () => {
    const isAgentThere = machine.processesOf(isAgent).some((pid) => node.place.hasPodProcess(pid));
    seen.push({ phase: vm.migration('slow').status.phase, isAgentThere });
    assert.match(seen.at(-1)?.phase ?? '', /Succeeded|Failed/);
  });
  const meanwhile = seen.filter(({ phase }) => phase === 'Running');
  t.diagnostic(`looked ${meanwhile.length} times meanwhile`);
  assert.ok(meanwhile.length > 5);
  assert.deepEqual(
    meanwhile.filter(({ isAgentThere }) => !isAgentThere),
    [],
  );
  assert.equal(seen.at(-1)?.phase, 'Succeeded', JSON.stringify(vm.migration('slow').status));
  await timed(t, 'replaced', async () => {
    assert.notEqual((await machine.agentPod(120_000, node.name)).metadata.uid, metadata.uid);
  });
  await vm.hasMoved(otherNode, before, t);
});

test('an agent that is given less time than a migration takes ends it: the guest goes on where it is, and moves when that is tried again', async (t) => {
  const { node, otherNode } = vm;
  vm.throttle('1Mi');
  const before = await vm.asked();
  vm.migrate('cut');
  await vm.untilItMoves('cut');
  const { metadata } = await machine.agentPod(10_000, node.name);
  machine.api.kubectl('delete', 'pod', '-n', 'kubevirt', metadata.name, '--grace-period=5');
  await timed(t, 'the migration has failed', () => vm.untilMigration('cut', 'Failed'));
  vm.throttle(null);
  assert.equal(vm.node, node);
  await vm.goesOn(before);
  await eventually(() => vm.hasLeft(otherNode), 60_000);
  await timed(t, 'replaced', async () => {
    assert.notEqual((await machine.agentPod(120_000, node.name)).metadata.uid, metadata.uid);
  });
  await vm.untilMigration(retryNameOf(vm.migration('cut')), 'Succeeded');
  await vm.hasMoved(otherNode, before, t);
});
