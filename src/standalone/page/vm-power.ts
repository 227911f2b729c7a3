import { isFinal, resources, type VirtualMachine, type VirtualMachineInstance } from '../../api/index.ts';
import { errorCode } from '../../base/index.ts';
import { getIfThere, type KubeClient, type ObjectRef } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';

const conflictTries = 10;

/**
 * Starts a VirtualMachine as `virtctl start` does (upstream: pkg/virt-api/rest/lifecycle.go): one that is halted is switched to Always; of others
 * an instance that has ended is taken away, and the VM is asked to start once. Rejects with NodeError, or KubeError.
 */
export function startVm(client: KubeClient, ref: ObjectRef, signal: AbortSignal, isPaused = false): Promise<void> {
  return onNewest(() => tryStart(client, ref, signal, isPaused));
}

async function tryStart(client: KubeClient, ref: ObjectRef, signal: AbortSignal, isPaused: boolean): Promise<void> {
  const [vm, vmi] = await Promise.all([findVm(client, ref, signal), findVmi(client, ref, signal)]);
  if (!vm) throw noVm(ref, vmi, 'started');
  if (vmi && !isFinal(vmi) && !isStopping(vm, vmi)) {
    throw new NodeError('UNSUPPORTED', `${shown(ref)} is started already`);
  }
  const strategy = strategyOf(vm);
  const refusal = whyNotStarted(strategy, vmi, ref);
  if (refusal !== undefined) throw new NodeError('UNSUPPORTED', `${shown(ref)} ${refusal}`);
  if (strategy === 'Halted' && !isPaused) return setStrategy(client, vm, 'Always', signal);
  // A halted VM has it taken away by itself.
  const ended = strategy === 'Halted' ? [] : stopsOf(vmi);
  return request(client, vm, [...ended, { action: 'Start', ...(isPaused && { data: { paused: 'true' } }) }], signal);
}

function noVm(ref: ObjectRef, vmi: VirtualMachineInstance | undefined, what: string): NodeError {
  const why = vmi
    ? `${shown(ref)} has no VirtualMachine, only an instance: it cannot be ${what}`
    : `there is no VirtualMachine ${shown(ref)}`;
  return new NodeError('NOT_FOUND', why);
}

/** Whoever starts it meanwhile has another instance after this one. */
function isStopping({ status }: VirtualMachine, { metadata }: VirtualMachineInstance): boolean {
  const stop = status?.stateChangeRequests?.find(({ action }) => action === 'Stop');
  return metadata.deletionTimestamp !== undefined || (stop !== undefined && stop.uid === metadata.uid);
}

/** What is asked for is decided anew when the VM was changed meanwhile, as it is when it was made a moment ago. */
async function onNewest(act: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await act();
    } catch (error) {
      if (tries >= conflictTries || errorCode(error) !== 'CONFLICT') throw error;
    }
  }
}

/** In words that follow its name. `vmi`: its instance, which has ended. */
function whyNotStarted(strategy: string, vmi: VirtualMachineInstance | undefined, ref: ObjectRef): string | undefined {
  if (strategy === 'Always') return 'is being started already (Always)';
  if (strategy === 'RerunOnFailure' && vmi?.status?.phase === 'Failed')
    return 'is being started already: it failed (RerunOnFailure)';
  if (strategy !== 'Once') return undefined;
  if (!vmi) return 'is being started already (Once)';
  const again = `kubectl delete vmi -n ${ref.namespace} ${ref.name}`;
  return `has run, and has the run strategy Once: for one more run take away what is left of this one (${again}), or choose another spec.runStrategy, such as Manual`;
}

/** Stops the instance that runs and starts another one, as `virtctl restart` does. Rejects with NodeError, or KubeError. */
export function restartVm(client: KubeClient, ref: ObjectRef, signal: AbortSignal): Promise<void> {
  return onNewest(() => tryRestart(client, ref, signal));
}

async function tryRestart(client: KubeClient, ref: ObjectRef, signal: AbortSignal): Promise<void> {
  const [vm, vmi] = await Promise.all([findVm(client, ref, signal), findVmi(client, ref, signal)]);
  if (!vm) throw noVm(ref, vmi, 'restarted');
  if (!vmi) throw new NodeError('UNSUPPORTED', `${shown(ref)} does not run: start it`);
  const strategy = strategyOf(vm);
  if (strategy === 'Halted' || strategy === 'Once') {
    throw new NodeError('UNSUPPORTED', `${shown(ref)} has the run strategy ${strategy}, which is not restarted`);
  }
  return request(client, vm, [...stopsOf(vmi), { action: 'Start' }], signal);
}

/**
 * Stops a VirtualMachine as `virtctl stop` does; an instance of its own is deleted. The guest is asked to shut down, and has
 * its grace period. Rejects with NodeError, or KubeError.
 */
export function stopVm(client: KubeClient, ref: ObjectRef, signal: AbortSignal): Promise<void> {
  return onNewest(() => tryStop(client, ref, signal));
}

async function tryStop(client: KubeClient, ref: ObjectRef, signal: AbortSignal): Promise<void> {
  const [vm, vmi] = await Promise.all([findVm(client, ref, signal), findVmi(client, ref, signal)]);
  const strategy = vm && strategyOf(vm);
  // Without its instance a VM of these two is started at once.
  if (vm && (strategy === 'Always' || strategy === 'Once')) return setStrategy(client, vm, 'Halted', signal);
  if (!vmi) throw vm ? new NodeError('NOT_FOUND', `${shown(ref)} does not run`) : noVm(ref, vmi, 'stopped');
  if (vm && strategy !== 'Halted') {
    if (isFinal(vmi)) throw new NodeError('UNSUPPORTED', `${shown(ref)} does not run`);
    return request(client, vm, stopsOf(vmi), signal);
  }
  await client.delete(resources.virtualMachineInstances, ref, { uid: vmi.metadata.uid, signal });
}

/** Of exactly this instance, if there is one. */
function stopsOf(vmi: VirtualMachineInstance | undefined): StateChange[] {
  return vmi ? [{ action: 'Stop', ...(vmi.metadata.uid && { uid: vmi.metadata.uid }) }] : [];
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
  const pending = status?.stateChangeRequests ?? [];
  // A stop takes the place of what was asked for before; a start comes after a stop; nothing else goes together.
  if (pending.length > 0 && !isStopAlone(stateChangeRequests)) {
    if (!isStopAlone(pending)) {
      throw new NodeError('UNSUPPORTED', `${shown(metadata)}: the last start or stop has not been done yet`);
    }
    stateChangeRequests = [...pending, ...stateChangeRequests.filter(({ action }) => action === 'Start')];
  }
  // Who asks by hand does not wait for the back-off of starts that failed.
  const forgiven = status?.startFailure && { startFailure: null };
  const patch = {
    metadata: { resourceVersion: metadata.resourceVersion },
    status: { stateChangeRequests, ...forgiven },
  };
  await client.patch(resources.virtualMachines, metadata, patch, 'merge', { subresource: 'status', signal });
}

function isStopAlone(requests: readonly StateChange[]): boolean {
  return requests.length === 1 && requests[0]?.action === 'Stop';
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
