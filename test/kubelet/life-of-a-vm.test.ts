import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import { eventually, stays } from '../fixtures/eventually.ts';
import type { ClusterNode } from './cluster-node.ts';
import { schedulable, timed } from './guests.ts';
import { InstalledCluster } from './installation.ts';
import { MovingVm } from './moving-vm.ts';
import { type NodeMachine, nodeName } from './node-machine.ts';
import { nodeNames } from './place.ts';

/**
 * A VM on two nodes with a real kubelet each, from its creation to the loss of its node: virt-controller, agents and launchers are ours, and what
 * happens to nodes and pods is done by kube-controller-manager. The tests are one story: each begins where the one before it ended.
 */

/** Networks and mounts take what the least privilege does not give. */
const overlay = 'daemonset/overlays/tight-rights';
/** The API server runs on the first node: this is the one that can be lost. */
const [, { name: second }] = nodeNames;
/** A node that is not heard of for so long is NotReady; the kubelet's lease is new every ten seconds. */
const managerFlags = ['--node-monitor-grace-period=25s', '--node-monitor-period=2s'];
/** Without a heartbeat for five minutes an agent counts as gone; its last one may have come a moment before. */
const silenceMs = 330_000;

/** Of a VirtualMachine, whose guest leaves a node that is lost soon. */
class LivingVm extends MovingVm {
  readonly #machine: NodeMachine;

  constructor(cluster: InstalledCluster, name: string) {
    super(cluster, name);
    this.#machine = cluster.machine;
  }

  protected override get instance() {
    const { domain, ...rest } = super.instance;
    const lost = ['not-ready', 'unreachable'].map((taint) => ({
      ...{ key: `node.kubernetes.io/${taint}`, operator: 'Exists', effect: 'NoExecute' },
      tolerationSeconds: 5,
    }));
    return {
      ...rest,
      domain: { ...domain, cpu: { sockets: 1 } },
      tolerations: lost,
    };
  }

  override async start(t: TestContext): Promise<void> {
    const spec = { runStrategy: 'Always', template: { spec: this.instance } };
    this.#machine.create({
      ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: this.name } },
      spec,
    });
    await eventually(() => this.vmi);
    await this.runs(t);
  }

  /** As virt-api does for `virtctl restart`. */
  async restart(): Promise<void> {
    const path = `/apis/kubevirt.io/v1/namespaces/default/virtualmachines/${this.name}/status`;
    const stateChangeRequests = [{ action: 'Stop', uid: this.vmi.metadata.uid }, { action: 'Start' }];
    await eventually(() => {
      const vm = this.#machine.get('vm', this.name);
      const asked = { ...vm, status: { ...vm.status, stateChangeRequests } };
      this.#machine.api.kubectlStdin(JSON.stringify(asked), 'replace', '--raw', path, '-f', '-');
    });
  }

  /** Another VMI than this one, which runs. */
  async runsAnew(uid: string, t: TestContext): Promise<void> {
    await timed(t, 'another VMI', () => assert.notEqual(this.vmi.metadata.uid, uid));
    await this.runs(t);
  }

  grow(sockets: number): void {
    const patch = { spec: { template: { spec: { domain: { cpu: { sockets } } } } } };
    this.#machine.api.kubectl('patch', 'vm', this.name, '--type=merge', '-p', JSON.stringify(patch));
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every shape
  get pods(): any[] {
    return this.#machine.get('pods', '-l', `vm.kubevirt.io/name=${this.name}`).items;
  }
}

let cluster: InstalledCluster;
let machine: NodeMachine;
let vm: LivingVm;

before(async () => {
  // What this containerd cannot do: images as volumes.
  const gates = { disabledFeatureGates: ['ImageVolume'] };
  cluster = await InstalledCluster.start({
    ...{ overlay, nodes: 2, managerFlags, workloadUpdates: ['LiveMigrate'] },
    ...gates,
  });
  machine = cluster.machine;
  vm = new LivingVm(cluster, 'vm1');
});
after(() => cluster?.stop());

test('a VM is created: its guest runs on the second node, and answers at the address of its pod', async (t) => {
  for (const { name } of machine.nodes) await schedulable(machine, name);
  machine.api.kubectl('cordon', nodeName);
  await vm.start(t);
  machine.api.kubectl('uncordon', nodeName);
  assert.equal(vm.node.name, second);
  const said = await vm.asked();
  assert.deepEqual([said.cpus, said.started.length], ['0', 36]);
});

test('its template gets another socket: the running guest has it, in a larger pod on the other node, without having stopped', async (t) => {
  const { uid } = vm.vmi.metadata;
  const before = await vm.asked();
  vm.grow(2);
  await timed(t, 'settled', () => {
    const { metadata, status } = vm.vmi;
    const open = status.conditions.filter(({ type }: { type: string }) => type.startsWith('Hot'));
    const seen = [metadata.uid, status.nodeName, status.currentCPUTopology?.sockets, open];
    assert.deepEqual(seen, [uid, nodeName, 2, []], JSON.stringify(status));
  });
  await vm.hasMoved(machine.node(nodeName), before, t);
  assert.equal((await vm.asked()).cpus, '0-1');
  const { status } = machine.get('vm', vm.name);
  assert.deepEqual(
    status.conditions.filter(({ type }: { type: string }) => type === 'RestartRequired'),
    [],
  );
});

test('it is restarted: another guest runs on the second node, as large as the template says', async (t) => {
  const { uid } = vm.vmi.metadata;
  const before = await vm.asked();
  machine.api.kubectl('cordon', nodeName);
  await vm.restart();
  await vm.runsAnew(uid, t);
  machine.api.kubectl('uncordon', nodeName);
  assert.equal(vm.node.name, second);
  const now = await vm.asked();
  assert.deepEqual([now.cpus, now.started === before.started], ['0-1', false]);
});

/** What is known of the lost node grows step by step. */
describe('its node is lost', () => {
  let lost: ClusterNode;
  let uid = '';
  let podUid = '';
  let started = '';

  test('kube-controller-manager finds it NotReady and deletes the pod; that the guest runs no more is not known, so nothing else is done', async (t) => {
    lost = vm.node;
    uid = vm.vmi.metadata.uid;
    podUid = vm.pod.metadata.uid;
    ({ started } = await vm.asked());
    await lost.lose();
    await timed(t, 'NotReady', () => {
      const { conditions } = machine.get('node', lost.name).status;
      const ready = conditions.find(({ type }: { type: string }) => type === 'Ready');
      assert.equal(ready.status, 'Unknown');
    });
    await timed(t, 'its pod is being deleted', () => {
      assert.deepEqual(
        vm.pods.map(({ metadata }) => [metadata.uid, metadata.deletionTimestamp !== undefined]),
        [[podUid, true]],
      );
    });
    await stays(untouched, 10_000);
  });

  test('its agent is not heard of for five minutes: virt-controller puts no more guests there, and still has no proof', async (t) => {
    await timed(
      t,
      'unschedulable',
      () => assert.equal(machine.get('node', lost.name).metadata.labels['kubevirt.io/schedulable'], 'false'),
      { forMs: silenceMs, pauseMs: 2_000 },
    );
    await timed(t, 'said', () => {
      const selector = `--field-selector=reason=NodeUnresponsive,involvedObject.name=${lost.name}`;
      const [event] = machine.get('events', '--all-namespaces', selector).items;
      assert.match(event?.message ?? '', /has not been heard of for 5 minutes/);
    });
    await stays(untouched, 5_000);
  });

  test('its operator says that it is out of service: the pod is taken away, the VMI has failed, and the VM runs on the other node', async (t) => {
    machine.api.kubectl('taint', 'node', lost.name, 'node.kubernetes.io/out-of-service=nodeshutdown:NoExecute');
    await vm.runsAnew(uid, t);
    assert.equal(vm.node.name, nodeName);
    const now = await vm.asked();
    assert.deepEqual([now.cpus, now.started === started], ['0-1', false]);
    const running = vm.pods.map(({ metadata, spec, status }) => [metadata.uid === podUid, spec.nodeName, status.phase]);
    assert.deepEqual(running, [[false, nodeName, 'Running']]);
    const { status } = machine.get('vm', vm.name);
    assert.equal(status.printableStatus, 'Running');
  });

  function untouched(): void {
    const { metadata, status } = vm.vmi;
    assert.deepEqual([metadata.uid, status.phase, status.nodeName], [uid, 'Running', lost.name]);
    assert.deepEqual(
      vm.pods.map((pod) => pod.metadata.uid),
      [podUid],
    );
  }
});
