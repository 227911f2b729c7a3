import {
  finalizers,
  isBeingDeleted,
  isFinal,
  type Key,
  keyOf,
  resources,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { type Clock, type Component, errorMessage, type Logger, sameJson } from '../../base/index.ts';
import { type EventRecorder, type Informer, isKubeError, type KubeClient } from '../../kube/index.ts';
import { KeyedQueue, type KeyResult } from '../../reconcile/index.ts';
import { makeVmi, ownerReference } from './make-vmi.ts';
import type { VmObservation } from './observation.ts';
import { decideRun, type RunAction } from './run-strategy.ts';
import { projectVmStatus } from './status.ts';

export interface VmControllerOptions {
  readonly workers: number;
}

export interface VmControllerDeps {
  readonly client: KubeClient;
  readonly vms: Informer<VirtualMachine>;
  readonly vmis: Informer<VirtualMachineInstance>;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/** Our own create or delete, until the cache shows it; given up after `echoMs`. */
interface Expectation {
  readonly kind: 'creation' | 'deletion';
  readonly uid: string | undefined;
  readonly untilMs: number;
}

const echoMs = 10_000;
const done: KeyResult = { kind: 'done' };

type Failure = VmObservation['failure'];

/** Keeps a VirtualMachine's VMI as its run strategy says (spec 50 §3, without volumes, instance types and live updates). */
export class VmController implements Component {
  readonly name = 'vm-controller';
  readonly #deps: VmControllerDeps;
  readonly #queue: KeyedQueue;
  readonly #expected = new Map<Key, Expectation>();
  readonly #unsubscribe: (() => void)[] = [];

  constructor(options: VmControllerOptions, deps: VmControllerDeps) {
    this.#deps = deps;
    this.#queue = new KeyedQueue(
      { concurrency: options.workers },
      {
        run: (key, signal) => this.#run(key, signal),
        clock: deps.clock,
        onError: (key, error, retryInMs) => deps.log.info({ key, err: error, retryInMs }, 'a VM is tried again'),
      },
    );
  }

  /** The informers have to be synced. A VM and its VMI have the same key. */
  async start(): Promise<void> {
    const add = (object: VirtualMachine | VirtualMachineInstance) => this.#queue.add(keyOf(object));
    this.#unsubscribe.push(
      this.#deps.vms.addHandlers({ added: add, updated: (_old, vm) => add(vm), deleted: add }),
      this.#deps.vmis.addHandlers({ added: add, updated: (_old, vmi) => add(vmi), deleted: add }),
    );
  }

  async stop(): Promise<void> {
    for (const end of this.#unsubscribe.splice(0)) end();
    await this.#queue.stop();
  }

  async #run(key: Key, signal: AbortSignal): Promise<KeyResult> {
    const vm = this.#deps.vms.get(key);
    if (!vm) {
      this.#expected.delete(key);
      return done;
    }
    const vmi = await this.#claim(vm, this.#deps.vmis.get(key), signal);
    if (vmi === 'adopted') return done;
    this.#settleExpectation(key, vmi);
    if (isBeingDeleted(vm)) return this.#end(key, vm, vmi, signal);
    if (!vm.metadata.finalizers?.includes(finalizers.vm)) {
      await this.#setFinalizers(
        vm,
        resources.virtualMachines,
        [...(vm.metadata.finalizers ?? []), finalizers.vm],
        signal,
      );
      return done;
    }
    const action = this.#expected.has(key) ? ({ kind: 'nothing' } as const) : decideRun(vm, vmi, this.#now());
    const failure = await this.#act(key, action, vm, vmi, signal);
    const wroteStatus = await this.#writeStatus(key, vm, vmi, { failure, action }, signal);
    if (!wroteStatus) return { kind: 'retry', cause: 'the VM changed in between' };
    if (vmi && isFinal(vmi) && action.kind !== 'requestStart') await this.#releaseVmi(vmi, signal);
    if (failure) return { kind: 'retry', cause: failure.message };
    if (action.kind === 'wait') return { kind: 'done', requeueAfterMs: action.ms };
    const expected = this.#expected.get(key);
    return expected ? { kind: 'done', requeueAfterMs: expected.untilMs - this.#deps.clock.monotonicMs() } : done;
  }

  /** A VM on its way out: its VMI first. The API is asked, because a VMI just made may not be in the cache. */
  async #end(
    key: Key,
    vm: VirtualMachine,
    vmi: VirtualMachineInstance | undefined,
    signal: AbortSignal,
  ): Promise<KeyResult> {
    const names = vm.metadata.finalizers ?? [];
    const isOrphaning = names.includes('orphan');
    const live = vmi ?? (isOrphaning ? undefined : await this.#liveVmi(vm, signal));
    if (live && !isOrphaning) {
      const failure = await this.#act(key, { kind: 'stop' }, vm, live, signal);
      const wroteStatus = await this.#writeStatus(key, vm, live, { failure }, signal);
      if (isFinal(live)) await this.#releaseVmi(live, signal);
      return failure || !wroteStatus ? { kind: 'retry', cause: failure?.message } : done;
    }
    if (names.includes(finalizers.vm)) {
      const left = names.filter((name) => name !== finalizers.vm);
      await this.#setFinalizers(vm, resources.virtualMachines, left, signal);
    }
    return done;
  }

  async #act(
    key: Key,
    action: RunAction,
    vm: VirtualMachine,
    vmi: VirtualMachineInstance | undefined,
    signal: AbortSignal,
  ): Promise<Failure> {
    if (action.kind !== 'nothing' && action.kind !== 'wait') {
      this.#deps.log.info({ vm: key, uid: vm.metadata.uid, action: action.kind }, 'decision');
    }
    switch (action.kind) {
      case 'start':
        return this.#startVmi(key, vm, action.paused, signal);
      case 'stop':
        return vmi && !isBeingDeleted(vmi) ? this.#stopVmi(key, vm, vmi, signal) : undefined;
      case 'switchToAlways':
        return this.#switchToAlways(vm, signal);
      case 'refuse':
        return { reason: 'FailedCreate', message: action.message };
      default:
        return undefined;
    }
  }

  async #startVmi(key: Key, vm: VirtualMachine, paused: boolean, signal: AbortSignal): Promise<Failure> {
    const { client, events } = this.#deps;
    try {
      const vmi = await client.create(resources.virtualMachineInstances, makeVmi(vm, paused), { signal });
      this.#expect(key, 'creation', vmi.metadata.uid);
      events.record(
        vm,
        'Normal',
        'SuccessfulCreate',
        `Started the virtual machine by creating the new virtual machine instance ${vm.metadata.name}`,
      );
      return undefined;
    } catch (error) {
      if (signal.aborted) throw error;
      if (isKubeError(error, 'ALREADY_EXISTS') && (await this.#liveVmi(vm, signal))) {
        this.#expect(key, 'creation', undefined);
        return undefined;
      }
      const message = `Error creating virtual machine instance: ${errorMessage(error)}`;
      events.record(vm, 'Warning', 'FailedCreate', message);
      return { reason: 'FailedCreate', message };
    }
  }

  async #stopVmi(key: Key, vm: VirtualMachine, vmi: VirtualMachineInstance, signal: AbortSignal): Promise<Failure> {
    const { client, events } = this.#deps;
    const { uid } = vmi.metadata;
    try {
      await client.delete(resources.virtualMachineInstances, vmi.metadata, { uid, signal });
      this.#expect(key, 'deletion', uid);
      events.record(
        vm,
        'Normal',
        'SuccessfulDelete',
        `Stopped the virtual machine by deleting the virtual machine instance ${uid}`,
      );
      return undefined;
    } catch (error) {
      if (signal.aborted) throw error;
      if (isKubeError(error, 'NOT_FOUND', 'CONFLICT')) return undefined;
      const message = `Error deleting virtual machine instance: ${errorMessage(error)}`;
      events.record(vm, 'Warning', 'FailedDelete', message);
      return { reason: 'FailedDelete', message };
    }
  }

  async #switchToAlways(vm: VirtualMachine, signal: AbortSignal): Promise<Failure> {
    const wanted = structuredClone(vm);
    if (vm.spec.running === undefined || vm.spec.running === null) wanted.spec.runStrategy = 'Always';
    else wanted.spec.running = true;
    try {
      await this.#deps.client.update(resources.virtualMachines, wanted, { signal });
      return undefined;
    } catch (error) {
      if (signal.aborted) throw error;
      return { reason: 'FailedCreate', message: `the run strategy could not be set: ${errorMessage(error)}` };
    }
  }

  /** False when the status changed in between: look again. */
  async #writeStatus(
    key: Key,
    vm: VirtualMachine,
    vmi: VirtualMachineInstance | undefined,
    outcome: { failure: Failure; action?: RunAction },
    signal: AbortSignal,
  ): Promise<boolean> {
    const { client, random } = this.#deps;
    const expected = this.#expected.get(key)?.kind;
    const seen: VmObservation = {
      vm,
      vmi,
      creationExpected: expected === 'creation',
      deletionExpected: expected === 'deletion',
      failure: outcome.failure,
      now: this.#now(),
    };
    const status = projectVmStatus(seen, random);
    if (outcome.action?.kind === 'requestStart') {
      status.stateChangeRequests = [...(status.stateChangeRequests ?? []), { action: 'Start' }];
    }
    if (sameJson(vm.status, status)) return true;
    // After switchToAlways the version in hand is old; the new one comes by the watch.
    if (outcome.action?.kind === 'switchToAlways') return true;
    try {
      await client.updateStatus(resources.virtualMachines, { ...vm, status }, { signal });
      return true;
    } catch (error) {
      if (isKubeError(error, 'CONFLICT')) return false;
      if (isKubeError(error, 'NOT_FOUND')) return true;
      throw error;
    }
  }

  /** The VMI's last state is recorded: it may go as far as this VM is concerned. */
  async #releaseVmi(vmi: VirtualMachineInstance, signal: AbortSignal): Promise<void> {
    const names = vmi.metadata.finalizers ?? [];
    if (!names.includes(finalizers.vm)) return;
    const left = names.filter((name) => name !== finalizers.vm);
    await this.#setFinalizers(vmi, resources.virtualMachineInstances, left, signal);
  }

  async #setFinalizers(
    object: VirtualMachine | VirtualMachineInstance,
    type: typeof resources.virtualMachines | typeof resources.virtualMachineInstances,
    names: string[],
    signal: AbortSignal,
  ): Promise<void> {
    const path = '/metadata/finalizers';
    const old = object.metadata.finalizers;
    const operations = old
      ? [
          { op: 'test', path, value: old },
          { op: 'replace', path, value: names },
        ]
      : [{ op: 'add', path, value: names }];
    const operationsForUid = [{ op: 'test', path: '/metadata/uid', value: object.metadata.uid }, ...operations];
    await this.#deps.client
      .patch(type, object.metadata, operationsForUid, 'json', { signal })
      .catch((error: unknown) => {
        if (!isKubeError(error, 'NOT_FOUND')) throw error;
      });
  }

  /** Ours by owner reference; without any owner it is taken over by its name; another's is not seen. */
  async #claim(
    vm: VirtualMachine,
    vmi: VirtualMachineInstance | undefined,
    signal: AbortSignal,
  ): Promise<VirtualMachineInstance | undefined | 'adopted'> {
    if (!vmi) return undefined;
    const owners = vmi.metadata.ownerReferences ?? [];
    const owner = owners.find(({ controller }) => controller);
    if (owner) return owner.uid === vm.metadata.uid ? vmi : undefined;
    if (isBeingDeleted(vm) || isBeingDeleted(vmi)) return undefined;
    const { uid = '', name } = vm.metadata;
    const { resourceVersion } = vmi.metadata;
    const body = { metadata: { resourceVersion, ownerReferences: [...owners, ownerReference(name, uid)] } };
    await this.#deps.client.patch(resources.virtualMachineInstances, vmi.metadata, body, 'merge', { signal });
    return 'adopted';
  }

  /** Asked from the API, and only if it belongs to this VM. */
  async #liveVmi(vm: VirtualMachine, signal: AbortSignal): Promise<VirtualMachineInstance | undefined> {
    const type = resources.virtualMachineInstances;
    try {
      const vmi = await this.#deps.client.get<VirtualMachineInstance>(type, vm.metadata, { signal });
      const isOurs = vmi.metadata.ownerReferences?.some(({ uid, controller }) => controller && uid === vm.metadata.uid);
      return isOurs ? vmi : undefined;
    } catch (error) {
      if (isKubeError(error, 'NOT_FOUND')) return undefined;
      throw error;
    }
  }

  #expect(key: Key, kind: Expectation['kind'], uid: string | undefined): void {
    this.#expected.set(key, { kind, uid, untilMs: this.#deps.clock.monotonicMs() + echoMs });
  }

  #settleExpectation(key: Key, vmi: VirtualMachineInstance | undefined): void {
    const expected = this.#expected.get(key);
    if (!expected) return;
    const isSeen =
      expected.kind === 'creation'
        ? vmi !== undefined
        : vmi === undefined || vmi.metadata.uid !== expected.uid || isBeingDeleted(vmi);
    if (isSeen || this.#deps.clock.monotonicMs() >= expected.untilMs) this.#expected.delete(key);
  }

  #now(): Date {
    return this.#deps.clock.now();
  }
}
