import {
  contentNameOf,
  type ExplainFacts,
  isRestoreOver,
  type Key,
  keyOf,
  resources,
  type VirtualMachine,
  type VirtualMachineRestore,
  type VirtualMachineSnapshotContent,
} from '../../api/index.ts';
import type { Component, Logger } from '../../base/index.ts';
import type { EventRecorder, KubeClient } from '../../kube/index.ts';
import {
  type Attempt,
  factsParts,
  type ReadYourWrites,
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
import { markOf, storeStatus } from '../snapshot-source/index.ts';
import { decideRestore } from './decide.ts';
import { executors } from './execute.ts';
import type { RestoreObservation } from './observation.ts';
import { type ObserveDeps, observeRestore } from './observe.ts';
import type { RestoreDecision } from './plan.ts';
import { restoreStatusOf } from './status.ts';

export interface RestoreControllerOptions {
  /** Restores worked on side by side. */
  readonly workers: number;
}

interface Followed {
  readonly synced: boolean;
  onChange(listener: (key: Key) => void): () => void;
}

export interface RestoreControllerDeps
  extends Omit<ObserveDeps, 'vmis' | 'snapshots' | 'contents' | 'volumeSnapshots'> {
  readonly client: KubeClient;
  readonly vmis: ObserveDeps['vmis'] & Followed;
  readonly snapshots: ObserveDeps['snapshots'] & Followed;
  readonly contents: ReadYourWrites<VirtualMachineSnapshotContent>;
  readonly volumeSnapshots: ObserveDeps['volumeSnapshots'] & Followed;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  /** Calls back when a claim, a DataVolume or a storage class has changed. */
  readonly onStorageChange: (listener: () => void) => () => void;
  readonly observer?: ReconcileObserver | undefined;
}

/** Makes a VM what it was when its snapshot was taken, or another VM of it. */
export class RestoreController implements Component {
  readonly name = 'restore-controller';
  readonly reconciler: Reconciler<RestoreObservation, RestoreDecision, ExplainFacts>;
  readonly #deps: RestoreControllerDeps;
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: RestoreControllerOptions, deps: RestoreControllerDeps) {
    this.#deps = deps;
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers of VMs, VMIs and claims have to be synced; the others need not be. */
  async start(): Promise<void> {
    const { restores, snapshots, contents, volumeSnapshots, vms, vmis, onStorageChange } = this.#deps;
    const wakeOpen = () => this.#wakeOpen();
    // A VM and its VMI have the same key.
    const wakeByVm = (key: Key) => {
      this.#wakeOpen(key);
      this.#wakeMarking(vms.get(key));
    };
    this.#subscriptions.push(
      restores.onChange((key) => this.reconciler.wake(key)),
      ...[snapshots, contents, volumeSnapshots].map((each) => each.onChange(wakeOpen)),
      ...[vms, vmis].map((each) => each.onChange(wakeByVm)),
      onStorageChange(wakeOpen),
    );
    for (const key of restores.keys()) this.reconciler.wake(key);
    for (const vm of vms.list()) this.#wakeMarking(vm);
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  /** `target`: only those into this VM. There are few that are not over. */
  #wakeOpen(target?: Key): void {
    for (const restore of this.#deps.restores.list()) {
      const { metadata, spec } = restore;
      const isOf = target === undefined || `${metadata.namespace}/${spec.target?.name}` === target;
      if (isOf && !isRestoreOver(restore)) this.reconciler.wake(keyOf(restore));
    }
  }

  #wakeMarking(vm: VirtualMachine | undefined): void {
    const name = vm && markOf(vm, 'restoreInProgress');
    if (vm && name !== undefined) this.reconciler.wake(`${vm.metadata.namespace}/${name}`);
  }

  #parts(): ReconcileParts<RestoreObservation, RestoreDecision, ExplainFacts> {
    const deps = this.#deps;
    const words = {
      field: 'vmrestore',
      object: 'the restore',
      onChange: 'when the restore, its snapshot, its target or a claim of it changes',
    };
    const caches = [deps.restores, deps.snapshots, deps.contents, deps.vms, deps.vmis];
    return {
      ...factsParts(seenOf, words),
      isSynced: () => caches.every(({ synced }) => synced),
      observe: async (key) => observeRestore(key, deps),
      decide: decideRestore,
      execute: (observation, { steps }, signal) => {
        const { client, restores, vms, contents, clock } = deps;
        const present = observation.kind === 'present' ? observation : undefined;
        const own = { content: present && this.#contentOf(present.restore), observation: present };
        const context = { client, restores, vms, contents, ...own, signal };
        return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
      },
      write: (attempt, report, signal) => this.#write(attempt, report, signal),
      versionOf: (seen) => (seen.kind === 'absent' ? undefined : seen.restore.metadata.resourceVersion),
      isGone: (seen) => seen.kind === 'absent' && seen.marked.length === 0,
      recordEvent: (seen, event) =>
        recordEventOn(deps.events, seen.kind === 'absent' ? undefined : seen.restore, event),
    };
  }

  #contentOf({ metadata, spec }: VirtualMachineRestore) {
    const { snapshots, contents } = this.#deps;
    const snapshot = snapshots.get(`${metadata.namespace}/${spec.virtualMachineSnapshotName}`);
    return snapshot && contents.get(`${metadata.namespace}/${contentNameOf(snapshot)}`);
  }

  async #write(
    { observation, decision, outcomes }: Attempt<RestoreObservation, RestoreDecision>,
    report: WriteReport,
    signal: AbortSignal,
  ): Promise<Written> {
    const failure = stepFailureOf(outcomes)?.message;
    const says = decision.says ?? (failure === undefined ? undefined : {});
    const isWaiting = outcomes.some(({ outcome }) => outcome.kind === 'wait');
    if (observation.kind !== 'present' || !says || isWaiting) return { kind: 'no-object' };
    const { client, restores } = this.#deps;
    const { restore: seen, key, now } = observation;
    // A step may have written the restore itself.
    const newest = restores.get(key);
    const object = newest?.metadata.uid === seen.metadata.uid ? (newest ?? seen) : seen;
    const status = restoreStatusOf(seen, says, failure, now);
    const message = `Successfully completed VirtualMachineRestore ${seen.metadata.name}`;
    const isNews = status.complete === true && seen.status?.complete !== true;
    const events = isNews ? [{ type: 'Normal', reason: 'VirtualMachineRestoreComplete', message } as const] : [];
    const write = { type: resources.virtualMachineRestores, object, status, events };
    return storeStatus<VirtualMachineRestore>(write, { client, objects: restores }, report, signal);
  }
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: RestoreObservation): ExplainFacts {
  if (observation.kind === 'absent') return { state: 'gone' };
  const { restore, target, isRestored, isLocked, isRunning, source } = observation;
  const state = [isRestored && 'restored', isLocked && 'locked', isRunning && 'running'].filter(Boolean).join(', ');
  return {
    target: target ? `${target.metadata.name}${state ? `: ${state}` : ''}` : 'none',
    ...('problem' in source
      ? { source: source.problem }
      : {
          volumes: source.volumes
            .map(({ restore: { volumeName }, claim }) => `${volumeName}: ${claim?.status?.phase ?? 'none'}`)
            .join(', '),
        }),
    complete: String(restore.status?.complete ?? false),
    ...(restore.metadata.deletionTimestamp && { deletion: 'asked for' }),
  };
}
