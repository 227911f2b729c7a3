import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  finalizers,
  findCondition,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../../src/api/index.ts';
import { Cluster } from './embedded.ts';

const vmType = resources.virtualMachines;
const vmiType = resources.virtualMachineInstances;

let cluster: Cluster;
before(async () => {
  cluster = await Cluster.start();
  await cluster.addNode();
  await cluster.startController();
});
after(() => cluster.stop());

async function createVm(name: string, runStrategy: string): Promise<VirtualMachine> {
  return cluster.client.create<VirtualMachine>(vmType, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name, namespace: 'default' },
    spec: {
      runStrategy: runStrategy as 'Always',
      template: { metadata: { labels: { app: name } }, spec: { domain: { memory: { guest: '64Mi' } } } },
    },
  });
}

const untilVm = (name: string, what: string, holds: (vm: VirtualMachine) => boolean) =>
  cluster.until<VirtualMachine>(vmType, name, what, holds);
const untilPrinted = (name: string, status: string) =>
  untilVm(name, status, (vm) => vm.status?.printableStatus === status);

/** Plays kubelet and agent: the guest of the VM runs. */
async function runGuest(name: string): Promise<VirtualMachineInstance> {
  const vmi = await cluster.untilVmi(name, 'there', () => true);
  const pod = await cluster.untilPod(vmi.metadata.uid ?? '', 'bound', ({ spec }) => spec.nodeName !== undefined);
  await cluster.runPod(pod);
  await cluster.untilPhase(name, 'Scheduled');
  return setPhase(name, 'Running');
}

/** As the agent writes it. */
async function setPhase(name: string, phase: 'Running' | 'Succeeded' | 'Failed'): Promise<VirtualMachineInstance> {
  const stamp = { phase, phaseTransitionTimestamp: '2026-01-01T00:00:00Z' };
  const vmi = await cluster.untilVmi(name, 'there', () => true);
  const phaseTransitionTimestamps = [...(vmi.status?.phaseTransitionTimestamps ?? []), stamp];
  return cluster.client.patch(vmiType, vmi.metadata, { status: { phase, phaseTransitionTimestamps } }, 'merge');
}

/** As the kubelet does when the launcher has ended. */
async function endPods(vmiUid: string): Promise<void> {
  for (const pod of await cluster.pods(vmiUid)) {
    await cluster.client.delete(resources.pods, pod.metadata, { graceSeconds: 0 });
  }
}

async function setStrategy(name: string, runStrategy: string): Promise<void> {
  await cluster.client.patch(vmType, { namespace: 'default', name }, { spec: { runStrategy } }, 'merge');
}

async function request(name: string, stateChangeRequest: object): Promise<void> {
  const status = { stateChangeRequests: [stateChangeRequest] };
  await cluster.client.patch(vmType, { namespace: 'default', name }, { status }, 'merge', { subresource: 'status' });
}

test('an Always VM starts its VMI, follows it to Running and copies its conditions', async () => {
  const vm = await createVm('always', 'Always');
  const vmi = await runGuest('always');
  assert.equal(vmi.metadata.ownerReferences?.[0]?.uid, vm.metadata.uid);
  assert.equal(vmi.metadata.labels?.app, 'always');
  assert.ok(vmi.metadata.finalizers?.includes(finalizers.vm));
  const running = await untilVm('always', 'Running and ready', ({ status }) => {
    return status?.printableStatus === 'Running' && status.ready === true;
  });
  assert.equal(running.status?.created, true);
  assert.equal(running.status?.runStrategy, 'Always');
  assert.equal(findCondition(running.status?.conditions, 'Ready')?.status, 'True');
});

test('a Halted VM has no VMI and is printed as Stopped', async () => {
  await createVm('halted', 'Halted');
  await untilVm('halted', 'Stopped with conditions', ({ status }) => {
    return status?.printableStatus === 'Stopped' && status.created === false;
  });
  assert.equal(await cluster.find(vmiType, 'halted'), undefined);
});

test('halting a running VM stops it, and the VMI goes when its pod is gone', async () => {
  await createVm('to-halt', 'Always');
  const vmi = await runGuest('to-halt');
  await untilPrinted('to-halt', 'Running');
  await setStrategy('to-halt', 'Halted');
  await untilPrinted('to-halt', 'Stopping');
  await setPhase('to-halt', 'Succeeded');
  await endPods(vmi.metadata.uid ?? '');
  await cluster.untilGone(vmiType, 'to-halt');
  await untilVm('to-halt', 'Stopped', ({ status }) => status?.printableStatus === 'Stopped' && !status.created);
});

test('an Always VM whose guest has powered off is started again with a new VMI', async () => {
  await createVm('restarts', 'Always');
  const first = await runGuest('restarts');
  await setPhase('restarts', 'Succeeded');
  await endPods(first.metadata.uid ?? '');
  const next = await cluster.untilVmi('restarts', 'another VMI', ({ metadata }) => metadata.uid !== first.metadata.uid);
  assert.equal(next.spec.domain.firmware?.uuid, first.spec.domain.firmware?.uuid);
});

test('an Always VM whose guest never came to Running waits before the next start', async () => {
  await createVm('crashes', 'Always');
  const vmi = await cluster.untilPhase('crashes', 'Scheduling');
  await setPhase('crashes', 'Failed');
  const vm = await untilPrinted('crashes', 'CrashLoopBackOff');
  assert.equal(vm.status?.startFailure?.consecutiveFailCount, 1);
  await endPods(vmi.metadata.uid ?? '');
  await cluster.untilGone(vmiType, 'crashes');
  const seconds = (Date.parse(vm.status?.startFailure?.retryAfterTimestamp ?? '') - Date.now()) / 1000;
  assert.ok(seconds > 5 && seconds <= 15, `${seconds} s`);
});

test('a RerunOnFailure VM is started again after a failure but not after a shutdown', async () => {
  await createVm('rerun', 'RerunOnFailure');
  const first = await runGuest('rerun');
  await setPhase('rerun', 'Failed');
  await endPods(first.metadata.uid ?? '');
  await cluster.untilVmi('rerun', 'another VMI', ({ metadata }) => metadata.uid !== first.metadata.uid);
  const second = await runGuest('rerun');
  await setPhase('rerun', 'Succeeded');
  await endPods(second.metadata.uid ?? '');
  await cluster.untilGone(vmiType, 'rerun');
  await untilPrinted('rerun', 'Stopped');
});

test('a Manual VM starts and stops on request only', async () => {
  await createVm('manual', 'Manual');
  await untilPrinted('manual', 'Stopped');
  await request('manual', { action: 'Start', data: { paused: 'true' } });
  const vmi = await runGuest('manual');
  assert.equal(vmi.spec.startStrategy, 'Paused');
  await untilVm('manual', 'request done', ({ status }) => status?.stateChangeRequests === undefined);
  await request('manual', { action: 'Stop', uid: vmi.metadata.uid });
  await untilPrinted('manual', 'Stopping');
  await setPhase('manual', 'Succeeded');
  await endPods(vmi.metadata.uid ?? '');
  await cluster.untilGone(vmiType, 'manual');
});

test('deleting a running VM ends its VMI first and leaves nothing', async () => {
  const vm = await createVm('deleted', 'Always');
  const vmi = await runGuest('deleted');
  await cluster.client.delete(vmType, vm.metadata);
  await untilPrinted('deleted', 'Terminating');
  await setPhase('deleted', 'Succeeded');
  await endPods(vmi.metadata.uid ?? '');
  await cluster.untilGone(vmiType, 'deleted');
  await cluster.untilGone(vmType, 'deleted');
});

test('a VMI of the same name that belongs to nobody is taken over', async () => {
  const orphan = await cluster.client.create<VirtualMachineInstance>(vmiType, {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name: 'adopted', namespace: 'default' },
    spec: { domain: { memory: { guest: '64Mi' } } },
  });
  const vm = await createVm('adopted', 'Always');
  const vmi = await cluster.untilVmi('adopted', 'owned', ({ metadata }) => Boolean(metadata.ownerReferences?.length));
  assert.equal(vmi.metadata.uid, orphan.metadata.uid);
  assert.equal(vmi.metadata.ownerReferences?.[0]?.uid, vm.metadata.uid);
});

test('the controller goes on where it was, after it was away while VMI and VM changed', async () => {
  await createVm('resumes', 'Always');
  const vmi = await runGuest('resumes');
  await cluster.stopController();
  await setStrategy('resumes', 'Halted');
  await cluster.startController();
  await untilPrinted('resumes', 'Stopping');
  await setPhase('resumes', 'Succeeded');
  await endPods(vmi.metadata.uid ?? '');
  await cluster.untilGone(vmiType, 'resumes');
});
