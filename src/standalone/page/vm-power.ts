import { resources, type VirtualMachine, type VirtualMachineInstance } from '../../api/index.ts';
import { getIfThere, type KubeClient, type ObjectRef } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';

/**
 * Starts a VirtualMachine as `virtctl start` does: one that is halted is switched to Always, the others are asked to start
 * once. Rejects with NodeError, or KubeError.
 */
export async function startVm(
  client: KubeClient,
  ref: ObjectRef,
  signal: AbortSignal,
  isPaused = false,
): Promise<void> {
  const vm = await findVm(client, ref, signal);
  if (!vm)
    throw new NodeError('NOT_FOUND', `${shown(ref)} has no VirtualMachine, only an instance: it cannot be started`);
  const vmi = await findVmi(client, ref, signal);
  if (vmi) throw new NodeError('UNSUPPORTED', `${shown(ref)} is started already`);
  const strategy = strategyOf(vm);
  if (strategy === 'Halted' && !isPaused) return setStrategy(client, vm, 'Always', signal);
  if (strategy === 'Always') throw new NodeError('UNSUPPORTED', `${shown(ref)} is being started already (Always)`);
  return request(client, vm, [{ action: 'Start', ...(isPaused && { data: { paused: 'true' } }) }], signal);
}

/** Stops the instance that runs and starts another one, as `virtctl restart` does. Rejects with NodeError, or KubeError. */
export async function restartVm(client: KubeClient, ref: ObjectRef, signal: AbortSignal): Promise<void> {
  const [vm, vmi] = await Promise.all([findVm(client, ref, signal), findVmi(client, ref, signal)]);
  if (!vm) throw new NodeError('NOT_FOUND', `${shown(ref)} has no VirtualMachine: it cannot be restarted`);
  if (!vmi) throw new NodeError('UNSUPPORTED', `${shown(ref)} does not run: start it`);
  const strategy = strategyOf(vm);
  if (strategy === 'Halted' || strategy === 'Once') {
    throw new NodeError('UNSUPPORTED', `${shown(ref)} has the run strategy ${strategy}, which is not restarted`);
  }
  const { uid } = vmi.metadata;
  return request(client, vm, [{ action: 'Stop', ...(uid && { uid }) }, { action: 'Start' }], signal);
}

/**
 * Stops a VirtualMachine as `virtctl stop` does; an instance of its own is deleted. The guest is asked to shut down, and has
 * its grace period. Rejects with NodeError, or KubeError.
 */
export async function stopVm(client: KubeClient, ref: ObjectRef, signal: AbortSignal): Promise<void> {
  const [vm, vmi] = await Promise.all([findVm(client, ref, signal), findVmi(client, ref, signal)]);
  const strategy = vm && strategyOf(vm);
  // Without its instance a VM of these two is started at once.
  if (vm && (strategy === 'Always' || strategy === 'Once')) return setStrategy(client, vm, 'Halted', signal);
  if (!vmi) throw new NodeError('NOT_FOUND', `${shown(ref)} does not run`);
  const { uid } = vmi.metadata;
  if (vm && strategy !== 'Halted') return request(client, vm, [{ action: 'Stop', ...(uid && { uid }) }], signal);
  await client.delete(resources.virtualMachineInstances, ref, { uid, signal });
}

function strategyOf({ spec }: VirtualMachine): string {
  if (spec.runStrategy) return spec.runStrategy;
  return spec.running === true ? 'Always' : 'Halted';
}

/** `running` and `runStrategy` exclude each other: the one that is used is changed. */
async function setStrategy(
  client: KubeClient,
  { metadata, spec }: VirtualMachine,
  runStrategy: 'Always' | 'Halted',
  signal: AbortSignal,
): Promise<void> {
  const change = spec.running === undefined ? { runStrategy } : { running: runStrategy === 'Always' };
  await client.patch(resources.virtualMachines, metadata, { spec: change }, 'merge', { signal });
}

type StateChange = NonNullable<NonNullable<VirtualMachine['status']>['stateChangeRequests']>[number];

async function request(
  client: KubeClient,
  { metadata, status }: VirtualMachine,
  stateChangeRequests: StateChange[],
  signal: AbortSignal,
): Promise<void> {
  if (status?.stateChangeRequests?.length) {
    throw new NodeError('UNSUPPORTED', `${shown(metadata)}: the last start or stop has not been done yet`);
  }
  const patch = { metadata: { resourceVersion: metadata.resourceVersion }, status: { stateChangeRequests } };
  await client.patch(resources.virtualMachines, metadata, patch, 'merge', { subresource: 'status', signal });
}

function findVm(client: KubeClient, ref: ObjectRef, signal: AbortSignal): Promise<VirtualMachine | undefined> {
  return getIfThere(client, resources.virtualMachines, ref, { signal });
}

function findVmi(client: KubeClient, ref: ObjectRef, signal: AbortSignal) {
  return getIfThere<VirtualMachineInstance>(client, resources.virtualMachineInstances, ref, { signal });
}

function shown({ namespace, name }: ObjectRef): string {
  return `${namespace}/${name}`;
}
