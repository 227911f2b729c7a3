import { type ExplainFacts, type Key, resources, selects, type VirtualMachineInstance } from '../../api/index.ts';
import type { Component, Logger } from '../../base/index.ts';
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
import { Dependents, NewNames } from '../owned/index.ts';
import { controllerBackoff, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { decideSet, type SetDecision } from './decide.ts';
import { executors } from './execute.ts';
import { type ObserveDeps, observeSet, type SetObservation, selectorOf } from './observe.ts';
import { writeStatus } from './write.ts';

export interface ReplicaSetControllerOptions {
  /** Sets worked on side by side. */
  readonly workers: number;
}

export interface ReplicaSetControllerDeps extends Pick<ObserveDeps, 'clock' | 'sets'> {
  readonly client: KubeClient;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  readonly observer?: ReconcileObserver | undefined;
}

/** Keeps as many VMIs of a set as are wanted. */
export class ReplicaSetController implements Component {
  readonly name = 'replica-set-controller';
  readonly reconciler: Reconciler<SetObservation, SetDecision, ExplainFacts>;
  readonly #deps: ReplicaSetControllerDeps;
  readonly #members: Dependents<VirtualMachineInstance>;
  readonly #names: NewNames;
  readonly #subscriptions: (() => void)[] = [];

  constructor({ workers }: ReplicaSetControllerOptions, deps: ReplicaSetControllerDeps) {
    this.#deps = deps;
    this.#members = new Dependents(deps.vmis, resources.replicaSets);
    this.#names = new NewNames(deps.random);
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informer of VMIs has to be synced; that of sets need not be: a set is looked at when it is read. */
  async start(): Promise<void> {
    const { sets } = this.#deps;
    const wake = (key: Key) => this.reconciler.wake(key);
    const orphan = (vmi: VirtualMachineInstance) => this.#wakeSelecting(vmi);
    this.#subscriptions.push(this.#members.follow({ owner: wake, orphan }), sets.onChange(wake));
    for (const key of sets.keys()) wake(key);
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  #wakeSelecting({ metadata }: VirtualMachineInstance): void {
    for (const set of this.#deps.sets.list()) {
      if (set.metadata.namespace !== metadata.namespace) continue;
      const selector = selectorOf(set);
      if (selector && selects(selector, metadata.labels ?? {}))
        this.reconciler.wake(`${metadata.namespace}/${set.metadata.name}`);
    }
  }

  #parts(): ReconcileParts<SetObservation, SetDecision, ExplainFacts> {
    const deps = { ...this.#deps, members: this.#members };
    const words = { field: 'vmirs', object: 'the replica set', onChange: 'when the set or a VMI of it changes' };
    return {
      ...factsParts(seenOf, words),
      isSynced: () => deps.sets.synced && deps.vmis.synced,
      observe: (key, signal) => observeSet(key, deps, signal),
      decide: decideSet,
      execute: (observation, decision, signal) => this.#execute(observation, decision, signal),
      write: (attempt, report, signal) => writeStatus(attempt, deps, report, signal),
      versionOf: (seen) => (seen.kind === 'absent' ? undefined : seen.set.metadata.resourceVersion),
      isGone: ({ kind, key }) => {
        if (kind === 'absent') this.#names.forget(key);
        return kind === 'absent';
      },
      recordEvent: (seen, event) => recordEventOn(deps.events, seen.kind === 'absent' ? undefined : seen.set, event),
    };
  }

  async #execute(observation: SetObservation, { steps }: SetDecision, signal: AbortSignal) {
    if (observation.kind !== 'present') return [];
    const { client, sets, vmis, clock } = this.#deps;
    const { key, set, active, ended, strayed } = observation;
    const seen = new Set([...active, ...ended, ...strayed].map(({ metadata }) => metadata.name));
    const context = { client, sets, vmis, members: this.#members, names: this.#names, seen, key, set, signal };
    // Ended VMIs are deleted even where no new one can be made.
    const goesOnAfter = () => true;
    return runPlan(steps, context, {
      executors,
      deadlineMs: () => stepDeadlineMs,
      errorOf: stepErrorOf,
      goesOnAfter,
      clock,
    });
  }
}

/** In few words for people; keys are names of log fields, too. */
function seenOf(observation: SetObservation): ExplainFacts {
  if (observation.kind !== 'present') return { state: observation.kind === 'absent' ? 'gone' : 'unclear' };
  const { set, wanted, active, ended, strayed, adoptable } = observation;
  const counts = { ended, strayed, adoptable };
  const some = Object.entries(counts).filter(([, vmis]) => vmis.length > 0);
  return {
    wanted: String(wanted),
    active: String(active.length),
    ...Object.fromEntries(some.map(([name, vmis]) => [name, String(vmis.length)])),
    ...(set.spec.paused === true && { paused: 'true' }),
    ...(set.metadata.deletionTimestamp && { deletion: 'asked for' }),
  };
}
