import {
  contentNameOf,
  controllerOf,
  type ExplainFacts,
  type Key,
  type KubeObject,
  keyOf,
  resources,
  type VirtualMachineSnapshotContent,
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
import { markOf, type SnapshotClasses, storeStatus } from '../snapshot-source/index.ts';
import { type ContentDecision, decideContent } from './decide.ts';
import { executors } from './execute.ts';
import { type ContentObservation, type ObserveDeps, observeContent } from './observe.ts';
import { contentStatusOf } from './status.ts';

export interface SnapshotContentControllerOptions {
  /** Contents worked on side by side. */
  readonly workers: number;
}

export interface SnapshotContentControllerDeps extends Omit<ObserveDeps, 'vmis' | 'snapshots' | 'restores'> {
  readonly client: KubeClient;
  readonly snapshots: ObserveDeps['snapshots'] & Followed;
  readonly restores: ObserveDeps['restores'] & Followed & { get(key: Key): KubeObject | undefined };
  readonly vmis: ObserveDeps['vmis'] & Followed;
  readonly classes: Pick<SnapshotClasses, 'of'>;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  readonly observer?: ReconcileObserver | undefined;
}

interface Followed {
  readonly synced: boolean;
  onChange(listener: (key: Key) => void): () => void;
}

/** Freezes the guest, makes the VolumeSnapshots of a content, and says how far they are. */
export class SnapshotContentController implements Component {
  readonly name = 'snapshot-content-controller';
  readonly reconciler: Reconciler<ContentObservation, ContentDecision, ExplainFacts>;
  readonly #deps: SnapshotContentControllerDeps;
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: SnapshotContentControllerOptions, deps: SnapshotContentControllerDeps) {
    this.#deps = deps;
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers of VMs and VMIs have to be synced; the others need not be. */
  async start(): Promise<void> {
    const { contents, snapshots, volumeSnapshots, restores, vms, vmis } = this.#deps;
    const wake = (key: Key) => this.reconciler.wake(key);
    // A VM and its VMI have the same key.
    const wakeByVm = (key: Key) => {
      const vm = vms.get(key);
      const name = vm && markOf(vm, 'snapshotInProgress');
      if (vm && name !== undefined) this.#wakeOf(`${vm.metadata.namespace}/${name}`);
    };
    this.#subscriptions.push(
      contents.onChange(wake),
      snapshots.onChange((key) => this.#wakeOf(key)),
      volumeSnapshots.onChange((key) => this.#wakeByVolumeSnapshot(key)),
      restores.onChange((key) => {
        if (!restores.get(key)) this.#wakeDeleted();
      }),
      vms.onChange(wakeByVm),
      vmis.onChange(wakeByVm),
    );
    for (const key of contents.keys()) wake(key);
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  #wakeOf(snapshot: Key): void {
    const { contents, snapshots } = this.#deps;
    const found = snapshots.get(snapshot);
    if (found) {
      this.reconciler.wake(`${found.metadata.namespace}/${contentNameOf(found)}`);
      return;
    }
    for (const { metadata, spec } of contents.list()) {
      if (`${metadata.namespace}/${spec.virtualMachineSnapshotName}` === snapshot)
        this.reconciler.wake(`${metadata.namespace}/${metadata.name}`);
    }
  }

  /** They may have been kept for a restore that is gone. */
  #wakeDeleted(): void {
    for (const content of this.#deps.contents.list())
      if (content.metadata.deletionTimestamp) this.reconciler.wake(keyOf(content));
  }

  /** One that is gone has no owner any more: it is looked for by its name. */
  #wakeByVolumeSnapshot(key: Key): void {
    const { contents, volumeSnapshots } = this.#deps;
    const found = volumeSnapshots.get(key);
    const owner = found && controllerOf(found);
    if (owner?.kind === resources.virtualMachineSnapshotContents.kind) {
      this.reconciler.wake(`${found?.metadata.namespace}/${owner.name}`);
    }
    if (found) return;
    for (const { metadata, spec } of contents.list()) {
      const isNamed = (spec.volumeBackups ?? []).some(
        ({ volumeSnapshotName }) => `${metadata.namespace}/${volumeSnapshotName}` === key,
      );
      if (isNamed) this.reconciler.wake(`${metadata.namespace}/${metadata.name}`);
    }
  }

  #parts(): ReconcileParts<ContentObservation, ContentDecision, ExplainFacts> {
    const deps = this.#deps;
    const words = {
      field: 'vmsnapshotcontent',
      object: 'the content',
      onChange: 'when the content, its snapshot, a VolumeSnapshot of it or its VM changes',
    };
    const caches = [deps.contents, deps.snapshots, deps.restores, deps.vms, deps.vmis];
    return {
      ...factsParts(seenOf, words),
      isSynced: () => caches.every(({ synced }) => synced),
      observe: async (key) => observeContent(key, deps),
      decide: decideContent,
      execute: async (observation, { steps }, signal) => {
        if (observation.kind !== 'present') return [];
        const { client, contents, volumeSnapshots, classes, clock } = deps;
        const context = { client, contents, volumeSnapshots, classes, observation, signal };
        // A guest that cannot be reached is thawed by its launcher, and must not keep a content that nobody wants.
        const goesOnAfter = (step: string) => step === 'thawGuest' && observation.isEnding;
        return runPlan(steps, context, {
          ...{ executors, goesOnAfter, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock },
        });
      },
      write: (attempt, report, signal) => this.#write(attempt, report, signal),
      versionOf: (seen) => (seen.kind === 'present' ? seen.content.metadata.resourceVersion : undefined),
      isGone: ({ kind }) => kind === 'absent',
      recordEvent: (seen, event) =>
        recordEventOn(deps.events, seen.kind === 'present' ? seen.content : undefined, event),
    };
  }

  async #write(
    { observation, decision, outcomes }: Attempt<ContentObservation, ContentDecision>,
    report: WriteReport,
    signal: AbortSignal,
  ): Promise<Written> {
    if (observation.kind !== 'present' || decision.keepsStatus) return { kind: 'no-object' };
    const { client, contents } = this.#deps;
    const { content: object } = observation;
    const isUnfinished = outcomes.some(({ outcome }) => outcome.kind === 'wait');
    if (isUnfinished) return { kind: 'no-object' };
    const status = contentStatusOf(observation, decision, stepFailureOf(outcomes)?.message);
    const write = { type: resources.virtualMachineSnapshotContents, object, status, events: [] };
    return storeStatus<VirtualMachineSnapshotContent>(write, { client, objects: contents }, report, signal);
  }
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: ContentObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: 'gone' };
  const { content, snapshot, source, backups } = observation;
  const made = backups.filter(({ taken }) => taken !== undefined).length;
  const ready = backups.filter(({ taken }) => taken?.status?.readyToUse === true).length;
  return {
    snapshot: snapshot?.metadata.name ?? 'none',
    volumeSnapshots: `${backups.length} wanted, ${made} made, ${ready} ready`,
    taken: String(Boolean(content.status?.creationTime)),
    ...(source?.guest.isFrozen && { guest: 'frozen' }),
    ...(content.metadata.deletionTimestamp && { deletion: 'asked for' }),
  };
}
