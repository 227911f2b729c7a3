import {
  type ExplainFacts,
  type Key,
  keyOf,
  type VirtualMachineBackupTracker,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { type Component, type Logger, memberAt } from '../../base/index.ts';
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
import { controllerBackoff, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { decideTracker, type TrackerDecision } from './decide.ts';
import { executors } from './execute.ts';
import { type ObserveDeps, observeTracker, type TrackerObservation } from './observe.ts';

export interface BackupTrackerControllerOptions {
  /** Trackers worked on side by side. */
  readonly workers: number;
}

interface Followed {
  readonly synced: boolean;
  onChange(listener: (key: Key) => void): () => void;
}

export interface BackupTrackerControllerDeps extends Omit<ObserveDeps, 'trackers' | 'vms' | 'vmis'> {
  readonly client: KubeClient;
  readonly trackers: ReadYourWrites<VirtualMachineBackupTracker>;
  readonly vms: ObserveDeps['vms'] & Followed;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  /** Keys of trackers of this VM. */
  readonly trackersOf: (vm: Key) => readonly Key[];
  readonly observer?: ReconcileObserver | undefined;
}

/** Has launchers told of the checkpoints that trackers remember, after a start of their guests. */
export class BackupTrackerController implements Component {
  readonly name = 'backup-tracker-controller';
  readonly reconciler: Reconciler<TrackerObservation, TrackerDecision, ExplainFacts>;
  readonly #deps: BackupTrackerControllerDeps;
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: BackupTrackerControllerOptions, deps: BackupTrackerControllerDeps) {
    this.#deps = deps;
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers of VMs and VMIs have to be synced; that of trackers need not be. */
  async start(): Promise<void> {
    const { trackers, vms, vmis, trackersOf } = this.#deps;
    const ofVm = (vm: Key) => {
      for (const key of trackersOf(vm)) this.reconciler.wake(key);
    };
    this.#subscriptions.push(
      trackers.onChange((key) => this.reconciler.wake(key)),
      vms.onChange(ofVm),
      vmis.onChange(ofVm),
    );
    for (const tracker of trackers.list()) this.reconciler.wake(keyOf(tracker));
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  #parts(): ReconcileParts<TrackerObservation, TrackerDecision, ExplainFacts> {
    const deps = this.#deps;
    const words = { field: 'vmbackuptracker', object: 'the tracker', onChange: 'when the tracker or its VM changes' };
    const caches = [deps.trackers, deps.vms, deps.vmis];
    return {
      ...factsParts(seenOf, words),
      isSynced: () => caches.every(({ synced }) => synced),
      observe: async (key) => observeTracker(key, deps),
      decide: decideTracker,
      execute: async (observation, { steps }, signal) => {
        if (observation.kind !== 'present') return [];
        const { client, trackers, clock } = deps;
        const context = { client, trackers, observation, signal };
        return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
      },
      // What its steps have written is all that there is to be said of it.
      write: async () => ({ kind: 'no-object' }),
      versionOf: (seen) => (seen.kind === 'absent' ? undefined : seen.tracker.metadata.resourceVersion),
      isGone: ({ kind }) => kind === 'absent',
      recordEvent: (seen, event) =>
        recordEventOn(deps.events, seen.kind === 'absent' ? undefined : seen.tracker, event),
    };
  }
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: TrackerObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: 'gone' };
  const { tracker, vmName, vm, vmi } = observation;
  const { latestCheckpoint, checkpointRedefinitionRequired } = tracker.status ?? {};
  return {
    vm: `${vmName || 'unknown'}: ${vmi?.status?.phase ?? (vm ? 'no guest' : 'missing')}`,
    tracking: String(memberAt(vmi?.status, 'changedBlockTracking', 'state') ?? 'off'),
    checkpoint: latestCheckpoint?.name ?? 'none',
    ...(checkpointRedefinitionRequired && { launcher: 'was started since' }),
  };
}
