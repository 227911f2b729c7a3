import {
  type ExplainFacts,
  isBeingDeleted,
  isFinal,
  type Key,
  type VirtualMachine,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { Clock, Component, Logger } from '../../base/index.ts';
import type { EventRecorder, KubeClient } from '../../kube/index.ts';
import {
  factsParts,
  type ReadYourWrites,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  runPlan,
  stepErrorOf,
} from '../../reconcile/index.ts';
import type { DataVolumes } from '../data-volumes/index.ts';
import { Lookup } from '../instancetypes/index.ts';
import { controllerBackoff, newestFirst, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import type { DataVolumeDeps } from './data-volume-facts.ts';
import { decideVm, type VmDecision } from './decide.ts';
import { type ExecuteContext, executors, type NewVmis } from './execute.ts';
import type { VmObservation } from './observation.ts';
import { type ObserveDeps, observeVm, type VmConfig } from './observe.ts';
import { strategyOrHalted } from './run-strategy.ts';
import { StartSpecs } from './start-revision.ts';
import { writeStatus } from './write.ts';

/** Longer than what follows at once from a change of a VMI takes to be written into it. */
const followMs = 200;
/** A start takes a second or more: of one that is faster only the end is told. */
const followStartMs = 1_000;

export interface VmControllerOptions {
  /** VMs worked on side by side. */
  readonly workers: number;
}

export interface VmControllerDeps {
  readonly client: KubeClient;
  readonly vms: ReadYourWrites<VirtualMachine>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly dataVolumes: Pick<DataVolumes, 'lookUp' | 'peek' | 'onChange'>;
  /** Keys of the VMs with a template of this DataVolume, or a volume on it. */
  readonly vmsOfDataVolume: (dataVolume: Key) => readonly Key[];
  readonly claims: DataVolumeDeps['claims'];
  readonly volumeStatuses: ObserveDeps['volumeStatuses'] & {
    /** Calls back with the key of a VM whose statuses may have changed; without one: with any. */
    onChange(listener: (vm?: Key) => void): () => void;
  };
  readonly newVmis: NewVmis;
  readonly launchers: ExecuteContext['launchers'];
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly config: () => VmConfig;
  readonly observer?: ReconcileObserver | undefined;
}

/** Keeps a VirtualMachine's VMI as its run strategy says. Level-triggered: all it knows is in the API. */
export class VmController implements Component {
  readonly name = 'vm-controller';
  readonly reconciler: Reconciler<VmObservation, VmDecision, ExplainFacts>;
  readonly #deps: VmControllerDeps;
  /** Versions of VMs that this controller has stored, and from which nothing follows. */
  readonly #told = new Map<Key, string | undefined>();
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: VmControllerOptions, deps: VmControllerDeps) {
    this.#deps = deps;
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers have to be synced. A VM and its VMI have the same key. */
  async start(): Promise<void> {
    const { vms, vmis, dataVolumes, vmsOfDataVolume, volumeStatuses } = this.#deps;
    const wake = (key: string) => this.reconciler.wake(key);
    const wakeUsers = (dataVolume: Key) => vmsOfDataVolume(dataVolume).forEach(wake);
    this.wakeAll();
    this.reconciler.inBackground(() =>
      this.#subscriptions.push(
        vms.onChange((key) => {
          if (!this.#isTold(key)) wake(key);
        }),
        vmis.onChange((key) => this.#follow(key)),
        dataVolumes.onChange(wakeUsers),
        volumeStatuses.onChange((vm) => (vm === undefined ? this.wakeAll() : this.#tell(vm))),
      ),
    );
  }

  /**
   * An end is acted on at once, and that a request to start was followed is recorded at once: a guest that shuts down before that would be started
   * again. What is only told of a VMI that lives comes in several writes of agent and controller: one of the VM says it.
   */
  #follow(key: Key): void {
    const { vms, vmis } = this.#deps;
    const vmi = vmis.get(key);
    const hasRequests = vms.get(key)?.status?.stateChangeRequests?.length;
    if (!vmi || isFinal(vmi) || isBeingDeleted(vmi) || hasRequests) this.reconciler.wake(key);
    else this.reconciler.wakeAfter(key, vmi.status?.phase === 'Running' ? followMs : followStartMs);
  }

  /** The echo of what it only told would tell the next state of the VMI at once. */
  #isTold(key: Key): boolean {
    const version = this.#deps.vms.get(key)?.metadata.resourceVersion;
    return version !== undefined && this.#told.get(key) === version;
  }

  /** Of what is only told of a VM: a claim comes with its DataVolume, which wakes it, too. */
  #tell(key: Key): void {
    if (this.#deps.vms.get(key)) this.reconciler.wakeAfter(key, followMs);
  }

  /** It begins, or the configuration has changed. */
  wakeAll(): void {
    this.reconciler.inBackground(() => {
      for (const key of newestFirst(this.#deps.vms.list())) this.reconciler.wake(key);
    });
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  #parts(): ReconcileParts<VmObservation, VmDecision, ExplainFacts> {
    const { client } = this.#deps;
    const told = (key: Key, version: string | undefined) => void this.#told.set(key, version);
    const deps = { ...this.#deps, told, startSpecs: new StartSpecs(client), instancetypes: new Lookup(client) };
    const words = { field: 'vm', object: 'the VM', onChange: 'when the VM or its VMI changes' };
    return {
      ...factsParts(seenOf, words),
      isSynced: () => deps.vms.synced && deps.vmis.synced,
      observe: (key, signal) => observeVm(key, deps, signal),
      decide: decideVm,
      execute: (observation, decision, signal) => this.#execute(observation, decision, signal),
      write: (attempt, report, signal) => writeStatus(attempt, report, deps, signal),
      versionOf: (seen) => (seen.kind === 'present' ? seen.vm.metadata.resourceVersion : undefined),
      isGone: ({ kind, key }) => {
        if (kind === 'absent') this.#told.delete(key);
        return kind === 'absent';
      },
      recordEvent: (observation, event) =>
        recordEventOn(deps.events, observation.kind === 'present' ? observation.vm : undefined, event),
    };
  }

  async #execute(observation: VmObservation, { steps }: VmDecision, signal: AbortSignal) {
    if (observation.kind !== 'present') return [];
    const { client, vms, vmis, newVmis, launchers, clock } = this.#deps;
    const context = { client, vms, vmis, newVmis, launchers, key: observation.key, vm: observation.vm, signal };
    return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
  }
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: VmObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: observation.kind === 'absent' ? 'gone' : 'unclear' };
  const { vm, vmi, creationExpected, deletionExpected } = observation;
  const [request] = vm.status?.stateChangeRequests ?? [];
  return {
    strategy: strategyOrHalted(vm),
    ...(vm.metadata.deletionTimestamp && { deletion: 'asked for' }),
    ...(request && { request: request.action }),
    vmi: vmi ? vmi.status?.phase || 'new' : 'none',
    ...(creationExpected && { ownWrite: 'VMI created' }),
    ...(deletionExpected && { ownWrite: 'VMI deleted' }),
  };
}
