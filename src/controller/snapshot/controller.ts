import {
  contentNameOf,
  type ExplainFacts,
  type Key,
  keyOf,
  resources,
  type VirtualMachine,
  type VirtualMachineSnapshot,
} from '../../api/index.ts';
import type { Component, Logger } from '../../base/index.ts';
import type { EventRecorder, KubeClient } from '../../kube/index.ts';
import {
  type Attempt,
  factsParts,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  runPlan,
  stepErrorOf,
  stepFailureOf,
  type WriteReport,
  type Written,
} from '../../reconcile/index.ts';
import { controllerBackoff, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { isSnapshotOver, markOf, storeStatus } from '../snapshot-source/index.ts';
import { StartSpecs } from '../vm/index.ts';
import { decideSnapshot, type SnapshotDecision } from './decide.ts';
import { executors } from './execute.ts';
import type { SnapshotObservation } from './observation.ts';
import { type ObserveDeps, observeSnapshot } from './observe.ts';
import { eventsOf, statusOf } from './status.ts';

export interface SnapshotControllerOptions {
  /** Snapshots worked on side by side. */
  readonly workers: number;
}

export interface SnapshotControllerDeps extends Omit<ObserveDeps, 'vmis'> {
  readonly client: KubeClient;
  readonly vmis: ObserveDeps['vmis'] & { readonly synced: boolean; onChange(listener: (key: Key) => void): () => void };
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  /** Keys of snapshots that wait for a VM. */
  readonly snapshotsOf: (vm: Key) => readonly Key[];
  /** Calls back when a claim, a storage class or a snapshot class has changed. */
  readonly onStorageChange: (listener: () => void) => () => void;
  readonly observer?: ReconcileObserver | undefined;
}

/** Locks the VM that a snapshot is of, writes down what it is like, and says what became of the snapshot. */
export class SnapshotController implements Component {
  readonly name = 'snapshot-controller';
  readonly reconciler: Reconciler<SnapshotObservation, SnapshotDecision, ExplainFacts>;
  readonly #deps: SnapshotControllerDeps;
  readonly #startSpecs: StartSpecs;
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: SnapshotControllerOptions, deps: SnapshotControllerDeps) {
    this.#deps = deps;
    this.#startSpecs = new StartSpecs(deps.client);
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers of VMs, VMIs, claims and pods have to be synced; those of snapshots need not be. */
  async start(): Promise<void> {
    const { snapshots, contents, vms, vmis, snapshotsOf, onStorageChange } = this.#deps;
    const wake = (key: Key) => this.reconciler.wake(key);
    const wakeByVm = (vm: Key) => {
      for (const key of snapshotsOf(vm)) wake(key);
      this.#wakeMarking(vms.get(vm));
    };
    this.#subscriptions.push(
      snapshots.onChange(wake),
      contents.onChange((key) => this.#wakeByContent(key)),
      vms.onChange(wakeByVm),
      vmis.onChange(wakeByVm),
      onStorageChange(() => this.#wakeOpen()),
    );
    for (const key of snapshots.keys()) wake(key);
    for (const vm of vms.list()) this.#wakeMarking(vm);
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  #wakeMarking(vm: VirtualMachine | undefined): void {
    const name = vm && markOf(vm, 'snapshotInProgress');
    if (vm && name !== undefined) this.reconciler.wake(`${vm.metadata.namespace}/${name}`);
  }

  #wakeByContent(content: Key): void {
    for (const snapshot of this.#deps.snapshots.list()) {
      if (`${snapshot.metadata.namespace}/${contentNameOf(snapshot)}` === content)
        this.reconciler.wake(keyOf(snapshot));
    }
  }

  #wakeOpen(): void {
    for (const snapshot of this.#deps.snapshots.list()) {
      if (!isSnapshotOver(snapshot) && !snapshot.status?.virtualMachineSnapshotContentName)
        this.reconciler.wake(keyOf(snapshot));
    }
  }

  #parts(): ReconcileParts<SnapshotObservation, SnapshotDecision, ExplainFacts> {
    const deps = this.#deps;
    const words = {
      field: 'vmsnapshot',
      object: 'the snapshot',
      onChange: 'when the snapshot, its content, its VM or a claim of it changes',
    };
    return {
      ...factsParts(seenOf, words),
      isSynced: () => deps.snapshots.synced && deps.contents.synced && deps.vms.synced && deps.vmis.synced,
      observe: (key, signal) => observeSnapshot(key, deps, signal),
      decide: decideSnapshot,
      execute: (observation, { steps }, signal) => {
        const { client, snapshots, contents, vms, vmis, clock } = deps;
        const snapshot = observation.kind === 'absent' ? undefined : observation.snapshot;
        const own = { startSpecs: this.#startSpecs, key: observation.key, snapshot };
        const context = { client, snapshots, contents, vms, vmis, ...own, signal };
        return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
      },
      write: (attempt, report, signal) => this.#write(attempt, report, signal),
      versionOf: (seen) => (seen.kind === 'absent' ? undefined : seen.snapshot.metadata.resourceVersion),
      isGone: (seen) => seen.kind === 'absent' && seen.marked.length === 0,
      recordEvent: (seen, event) =>
        recordEventOn(deps.events, seen.kind === 'absent' ? undefined : seen.snapshot, event),
    };
  }

  async #write(
    { observation, decision, outcomes }: Attempt<SnapshotObservation, SnapshotDecision>,
    report: WriteReport,
    signal: AbortSignal,
  ): Promise<Written> {
    if (observation.kind !== 'present' || decision.keepsStatus) return { kind: 'no-object' };
    const { client, snapshots } = this.#deps;
    const { snapshot: seen, key } = observation;
    // A step may have written the snapshot itself.
    const newest = snapshots.get(key);
    const object = newest?.metadata.uid === seen.metadata.uid ? (newest ?? seen) : seen;
    const status = statusOf(observation, stepFailureOf(outcomes)?.message);
    const write = { type: resources.virtualMachineSnapshots, object, status, events: eventsOf(seen, status) };
    return storeStatus<VirtualMachineSnapshot>(write, { client, objects: snapshots }, report, signal);
  }
}

/** Keys of VMs whose changes a snapshot waits for: none, once it is over. A VM that is still marked for it names it itself. */
export function awaitedVms(snapshot: VirtualMachineSnapshot): Key[] {
  const { metadata, spec } = snapshot;
  return isSnapshotOver(snapshot) ? [] : [`${metadata.namespace}/${spec?.source?.name ?? ''}`];
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: SnapshotObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: observation.kind === 'absent' ? 'gone' : 'unclear' };
  const { snapshot, content, source } = observation;
  return {
    phase: snapshot.status?.phase ?? 'none',
    source: source ? `${source.vm.metadata.name}${source.isLocked ? ', locked' : ''}` : 'none',
    content: content ? (content.status?.creationTime ? 'taken' : 'being taken') : 'none',
    ...(source?.problem !== undefined && { problem: source.problem }),
    ...(snapshot.metadata.deletionTimestamp && { deletion: 'asked for' }),
  };
}
