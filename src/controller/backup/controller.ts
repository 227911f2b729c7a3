import {
  type ExplainFacts,
  type Key,
  keyOf,
  resources,
  type VirtualMachineBackup,
  type VirtualMachineBackupTracker,
  type VirtualMachineExport,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { type Component, type Logger, rfc3339 } from '../../base/index.ts';
import type { EventRecorder, KubeClient } from '../../kube/index.ts';
import {
  type Attempt,
  factsParts,
  type ReadYourWrites,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  runPlan,
  type StepError,
  stepErrorOf,
  stepFailureOf,
  type WriteReport,
  type Written,
} from '../../reconcile/index.ts';
import { controllerBackoff, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { storeStatus } from '../snapshot-source/index.ts';
import { type BackupDecision, decideBackup } from './decide.ts';
import { executors, refusedByLauncher, type TunnelAuthorities } from './execute.ts';
import { type BackupObservation, guestBackupOf, type ObserveDeps, observeBackup } from './observe.ts';
import { wordsOf } from './refusals.ts';
import { aborting, backupStatusOf, eventsOf, type Said } from './status.ts';

export interface BackupControllerOptions {
  /** Backups worked on side by side. */
  readonly workers: number;
}

interface Followed {
  readonly synced: boolean;
  onChange(listener: (key: Key) => void): () => void;
}

export interface BackupControllerDeps extends Omit<ObserveDeps, 'trackers' | 'vms' | 'vmis' | 'exports'> {
  readonly client: KubeClient;
  readonly trackers: ReadYourWrites<VirtualMachineBackupTracker>;
  readonly vms: ObserveDeps['vms'] & Followed;
  /** Those of pulls have the names of their backups. */
  readonly exports: ReadYourWrites<VirtualMachineExport>;
  readonly tunnel: TunnelAuthorities;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  /** Keys of backups that are not over, and name this VM, or tracker, as their source. */
  readonly backupsOf: (kind: 'vm' | 'tracker', key: Key) => readonly Key[];
  /** Keys of trackers of this VM. */
  readonly trackersOf: (vm: Key) => readonly Key[];
  /** Calls back when a claim, named then, has changed. */
  readonly onStorageChange: (listener: (claim?: Key) => void) => () => void;
  readonly observer?: ReconcileObserver | undefined;
}

/** Has the disks of running guests copied into claims, whole or what has changed since a tracker's checkpoint. */
export class BackupController implements Component {
  readonly name = 'backup-controller';
  readonly reconciler: Reconciler<BackupObservation, BackupDecision, ExplainFacts>;
  readonly #deps: BackupControllerDeps;
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: BackupControllerOptions, deps: BackupControllerDeps) {
    this.#deps = deps;
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers of VMs, VMIs and claims have to be synced; the others need not be. */
  async start(): Promise<void> {
    const { backups, trackers, vms, vmis, exports, backupsOf, trackersOf, onStorageChange } = this.#deps;
    const wakeAll = (keys: readonly Key[]) => {
      for (const key of keys) this.reconciler.wake(key);
    };
    const byTracker = (tracker: Key) => wakeAll(backupsOf('tracker', tracker));
    const byVm = (vm: Key) => {
      wakeAll(backupsOf('vm', vm));
      for (const tracker of trackersOf(vm)) byTracker(tracker);
    };
    this.#subscriptions.push(
      backups.onChange((key) => this.reconciler.wake(key)),
      trackers.onChange(byTracker),
      exports.onChange((key) => {
        if (backups.get(key)?.spec.mode === 'Pull') this.reconciler.wake(key);
      }),
      vms.onChange(byVm),
      vmis.onChange((vmi) => {
        byVm(vmi);
        this.#wakeMarked(vmi);
      }),
      onStorageChange((claim) => this.#wakeByClaim(claim)),
    );
    for (const key of backups.keys()) this.reconciler.wake(key);
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  /** The backup that a guest is marked for, also where no tracker leads to it any more. */
  #wakeMarked(key: Key): void {
    const { backups, vmis } = this.#deps;
    const vmi = vmis.get(key);
    const backup = vmi && `${vmi.metadata.namespace}/${guestBackupOf(vmi)?.name}`;
    if (backup !== undefined && backups.get(backup)) this.reconciler.wake(backup);
  }

  #wakeByClaim(claim: Key | undefined): void {
    for (const backup of this.#deps.backups.list()) {
      const { metadata, spec } = backup;
      if (`${metadata.namespace}/${spec.pvcName}` === claim) this.reconciler.wake(keyOf(backup));
    }
  }

  #parts(): ReconcileParts<BackupObservation, BackupDecision, ExplainFacts> {
    const deps = this.#deps;
    const words = {
      field: 'vmbackup',
      object: 'the backup',
      onChange: 'when the backup, its tracker, its VM or its claim changes',
    };
    const caches = [deps.backups, deps.trackers, deps.exports, deps.vms, deps.vmis];
    return {
      ...factsParts(seenOf, words),
      isSynced: () => caches.every(({ synced }) => synced),
      observe: async (key) => observeBackup(key, deps),
      decide: decideBackup,
      execute: async (observation, { steps }, signal) => {
        if (observation.kind !== 'present') return [];
        const { client, backups, trackers, vmis, exports, tunnel, clock } = deps;
        const context = { client, backups, trackers, vmis, exports, tunnel, observation, signal };
        return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
      },
      write: (attempt, report, signal) => this.#write(attempt, report, signal),
      versionOf: (seen) => (seen.kind === 'absent' ? undefined : seen.backup.metadata.resourceVersion),
      isGone: ({ kind }) => kind === 'absent',
      recordEvent: (seen, event) => recordEventOn(deps.events, seen.kind === 'absent' ? undefined : seen.backup, event),
    };
  }

  async #write(
    { observation, decision: { says }, outcomes }: Attempt<BackupObservation, BackupDecision>,
    report: WriteReport,
    signal: AbortSignal,
  ): Promise<Written> {
    const isUndone = outcomes.some(({ outcome }) => outcome.kind === 'wait');
    const failure = stepFailureOf(outcomes);
    if (observation.kind !== 'present' || isUndone || (!says && !failure)) return { kind: 'no-object' };
    const { client, backups } = this.#deps;
    const { backup: seen, key, now } = observation;
    // A step may have written the backup itself.
    const newest = backups.get(key);
    const object = newest?.metadata.uid === seen.metadata.uid ? (newest ?? seen) : seen;
    const status = backupStatusOf(object, failure ? ofFailure(failure, says, seen) : (says ?? {}), rfc3339(now));
    const write = { type: resources.virtualMachineBackups, object, status, events: eventsOf(seen, status) };
    return storeStatus<VirtualMachineBackup>(write, { client, objects: backups }, report, signal);
  }
}

/** What is tried again is told; what its launcher refuses is over. The log has all that was said. */
function ofFailure({ code, message }: StepError, says: Said | undefined, { status }: VirtualMachineBackup): Said {
  const words = wordsOf(message);
  if (code === refusedByLauncher)
    return { end: { type: 'Failed', reason: 'Failed', message: `Backup has failed: ${words}` } };
  const isAborting = says?.progress?.reason === aborting;
  const soFar = status?.type === undefined ? 'Initializing' : 'Initiated';
  return { progress: { reason: isAborting ? aborting : soFar, message: words } };
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: BackupObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: 'gone' };
  const { backup, vmName, vmi, own, other, attachment, claim, tracker, vmExport } = observation;
  const checkpoint = tracker?.status?.latestCheckpoint?.name;
  return {
    source: `${backup.spec.source?.kind} ${backup.spec.source?.name}`,
    vm: `${vmName || 'unknown'}: ${vmi?.status?.phase ?? 'no guest'}`,
    claim: `${backup.spec.pvcName}: ${claim ? attachment : 'missing'}`,
    guest: own ? (own.isOver ? 'has ended it' : 'is marked for it') : other ? `is marked for ${other.name}` : 'is free',
    ...(checkpoint !== undefined && { checkpoint }),
    ...(backup.spec.mode === 'Pull' && { exporter: exporterWords(vmExport) }),
    ...(backup.metadata.deletionTimestamp && { deletion: 'asked for' }),
  };
}

function exporterWords(vmExport: VirtualMachineExport | undefined): string {
  if (!vmExport) return 'none';
  return vmExport.status?.phase ?? 'new';
}
