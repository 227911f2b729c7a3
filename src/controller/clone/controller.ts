import {
  controllerOf,
  type ExplainFacts,
  type Key,
  type KubeObject,
  keyOf,
  resources,
  type VirtualMachineClone,
} from '../../api/index.ts';
import { type Component, type Logger, rfc3339 } from '../../base/index.ts';
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
import { storeStatus, withSaid } from '../snapshot-source/index.ts';
import { type CloneDecision, decideClone, type Said } from './decide.ts';
import { executors } from './execute.ts';
import { type CloneObservation, claimsOf, isCloneOfVm, namesOf, type ObserveDeps, observeClone } from './observe.ts';

export interface CloneControllerOptions {
  /** Clones worked on side by side. */
  readonly workers: number;
}

interface Followed {
  readonly synced: boolean;
  onChange(listener: (key: Key) => void): () => void;
}

export interface CloneControllerDeps extends Omit<ObserveDeps, 'vms' | 'contents'> {
  readonly client: KubeClient;
  readonly vms: ObserveDeps['vms'] & Followed;
  readonly contents: ObserveDeps['contents'] & Followed;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  /** Calls back when a claim, named then, or a class has changed. */
  readonly onStorageChange: (listener: (claim?: Key) => void) => () => void;
  readonly observer?: ReconcileObserver | undefined;
}

type Status = NonNullable<VirtualMachineClone['status']>;

/** Makes a VM like another one, or like a snapshot: by a snapshot and a restore. */
export class CloneController implements Component {
  readonly name = 'clone-controller';
  readonly reconciler: Reconciler<CloneObservation, CloneDecision, ExplainFacts>;
  readonly #deps: CloneControllerDeps;
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: CloneControllerOptions, deps: CloneControllerDeps) {
    this.#deps = deps;
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers of VMs and claims have to be synced; the others need not be. */
  async start(): Promise<void> {
    const { clones, snapshots, restores, contents, vms, onStorageChange } = this.#deps;
    const wakeOpen = () => this.#wake(isOpen);
    this.#subscriptions.push(
      clones.onChange((key) => this.reconciler.wake(key)),
      snapshots.onChange((key) => this.#wakeOwner(snapshots.get(key))),
      restores.onChange((key) => this.#wakeOwner(restores.get(key))),
      contents.onChange(wakeOpen),
      vms.onChange((key) => this.#wake((clone) => isAbout(clone, key))),
      onStorageChange((claim) => this.#wake((clone) => this.#isOnStorage(clone, claim))),
    );
    for (const key of clones.keys()) this.reconciler.wake(key);
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  /** Of what is gone, or is a user's own snapshot, nobody knows whose it was. */
  #wakeOwner(object: KubeObject | undefined): void {
    const owner = object && controllerOf(object);
    if (owner?.kind === resources.virtualMachineClones.kind)
      this.reconciler.wake(`${object?.metadata.namespace}/${owner.name}`);
    else this.#wake(isOpen);
  }

  /** Once its VM is there, a clone waits for the VM's claims alone. */
  #isOnStorage(clone: VirtualMachineClone, claim: Key | undefined): boolean {
    if (isToBeMade(clone)) return true;
    if (!isOpen(clone)) return false;
    const restore = this.#deps.restores.get(`${clone.metadata.namespace}/${namesOf(clone).restore}`);
    return restore !== undefined && claim !== undefined && claimsOf(restore).includes(claim);
  }

  #wake(isMeant: (clone: VirtualMachineClone) => boolean): void {
    for (const clone of this.#deps.clones.list()) if (isMeant(clone)) this.reconciler.wake(keyOf(clone));
  }

  #parts(): ReconcileParts<CloneObservation, CloneDecision, ExplainFacts> {
    const deps = this.#deps;
    const words = {
      field: 'vmclone',
      object: 'the clone',
      onChange: 'when the clone, its source, or what is made for it changes',
    };
    const caches = [deps.clones, deps.snapshots, deps.restores, deps.contents, deps.vms];
    return {
      ...factsParts(seenOf, words),
      isSynced: () => caches.every(({ synced }) => synced),
      observe: (key, signal) => observeClone(key, deps, signal),
      decide: decideClone,
      execute: async (observation, { steps }, signal) => {
        if (observation.kind !== 'present') return [];
        const { client, snapshots, restores, clock } = deps;
        const context = { client, snapshots, restores, observation, signal };
        return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
      },
      write: (attempt, report, signal) => this.#write(attempt, report, signal),
      versionOf: (seen) => (seen.kind === 'absent' ? undefined : seen.clone.metadata.resourceVersion),
      isGone: ({ kind }) => kind === 'absent',
      recordEvent: (seen, event) => recordEventOn(deps.events, seen.kind === 'absent' ? undefined : seen.clone, event),
    };
  }

  async #write(
    { observation, decision: { says }, outcomes }: Attempt<CloneObservation, CloneDecision>,
    report: WriteReport,
    signal: AbortSignal,
  ): Promise<Written> {
    const isUndone = outcomes.some(({ outcome }) => outcome.kind === 'wait');
    const failure = stepFailureOf(outcomes)?.message;
    if (observation.kind !== 'present' || isUndone || (!says && failure === undefined)) return { kind: 'no-object' };
    const { client, clones } = this.#deps;
    const { clone, now } = observation;
    const said: Said =
      failure === undefined ? (says ?? {}) : { progressing: ['True', 'Still processing'], ready: ['False', failure] };
    const write = {
      type: resources.virtualMachineClones,
      object: clone,
      status: cloneStatusOf(clone, said, now),
      events: [],
    };
    return storeStatus<VirtualMachineClone>(write, { client, objects: clones }, report, signal);
  }
}

/** The status as it shall be stored now. Pure. */
export function cloneStatusOf({ status: old }: VirtualMachineClone, said: Said, now: Date): Status {
  const { phase, snapshotName, restoreName, targetName, ...conditions } = said;
  const time = rfc3339(now);
  const isNew = phase === 'Succeeded' && old?.phase !== 'Succeeded';
  const next: Status = {
    ...old,
    ...(phase !== undefined && { phase }),
    ...(snapshotName !== undefined && { snapshotName }),
    ...(restoreName !== undefined && { restoreName }),
    ...(targetName !== undefined && { targetName }),
    ...(isNew && { creationTime: time }),
    conditions: withSaid(old?.conditions, conditions, time),
  };
  if (next.snapshotName === null) delete next.snapshotName;
  if (next.restoreName === null) delete next.restoreName;
  return next;
}

function isOpen(clone: VirtualMachineClone): boolean {
  const { status } = clone;
  const hasHelpers = Boolean(status?.restoreName ?? status?.snapshotName);
  return isToBeMade(clone) || (status?.phase === 'Succeeded' && hasHelpers);
}

function isToBeMade({ status }: VirtualMachineClone): boolean {
  return status?.phase !== 'Succeeded' && status?.phase !== 'Failed';
}

/** The VM is its target, or what it is still to be made of. */
function isAbout(clone: VirtualMachineClone, vm: Key): boolean {
  const { metadata, spec, status } = clone;
  const names = [status?.targetName];
  if (isToBeMade(clone)) names.push(namesOf(clone).target, isCloneOfVm(clone) ? spec.source.name : undefined);
  return names.some((name) => name !== undefined && `${metadata.namespace}/${name}` === vm);
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: CloneObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: observation.kind === 'absent' ? 'gone' : 'unclear' };
  const { clone, names, snapshot, restore, target } = observation;
  return {
    phase: clone.status?.phase || 'none',
    source: `${clone.spec.source?.kind} ${clone.spec.source?.name}`,
    snapshot: snapshot?.status?.phase ?? 'none',
    restore: restore ? (restore.status?.complete === true ? 'complete' : 'under way') : 'none',
    target: `${names.target}: ${target ? 'there' : 'none'}`,
  };
}
