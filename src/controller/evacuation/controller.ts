import { annotations, type ExplainFacts, type Key, type VirtualMachineInstance } from '../../api/index.ts';
import type { Component, Logger } from '../../base/index.ts';
import type { EventRecorder, Informer, KubeClient } from '../../kube/index.ts';
import {
  factsParts,
  type ObjectEvent,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  runPlan,
  stepErrorOf,
} from '../../reconcile/index.ts';
import { controllerBackoff, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { decideEvacuation, type EvacuationDecision } from './decide.ts';
import { executors } from './execute.ts';
import { type DrainedNode, type NodeObservation, type ObserveDeps, observeNode } from './observe.ts';

/** All VMIs are looked through for a node: once for the many changes of a burst of starts. */
const settleMs = 100;

export interface EvacuationControllerOptions {
  /** Nodes worked on side by side. */
  readonly workers: number;
}

export interface EvacuationControllerDeps extends Omit<ObserveDeps, 'nodes' | 'lifted'> {
  readonly client: KubeClient;
  readonly nodes: Pick<Informer<DrainedNode>, 'get' | 'keys' | 'hasSynced' | 'addHandlers'>;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  readonly observer?: ReconcileObserver | undefined;
}

/** Makes migrations for the guests of nodes that are to be emptied. All it knows is in the API. */
export class EvacuationController implements Component {
  readonly name = 'evacuation-controller';
  readonly reconciler: Reconciler<NodeObservation, EvacuationDecision, ExplainFacts>;
  readonly #deps: EvacuationControllerDeps;
  readonly #subscriptions: (() => void)[] = [];
  readonly #lifted = new Set<Key>();

  constructor({ workers }: EvacuationControllerOptions, deps: EvacuationControllerDeps) {
    this.#deps = deps;
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers have to be synced. */
  async start(): Promise<void> {
    const { nodes, vmis, migrations } = this.#deps;
    const wake = ({ metadata }: DrainedNode) => this.reconciler.wake(metadata.name);
    this.#subscriptions.push(
      nodes.addHandlers({ added: wake, updated: (older, node) => this.#nodeChanged(older, node), deleted: wake }),
      vmis.onChange((key) => this.#wakeNodeOf(key)),
      migrations.onChange((key) => this.#wakeByMigration(key)),
    );
    this.wakeAll();
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  /** The configuration has changed. */
  wakeAll(): void {
    for (const key of this.#deps.nodes.keys()) this.reconciler.wake(key);
  }

  #nodeChanged(older: DrainedNode, { metadata, spec }: DrainedNode): void {
    if (older.spec?.unschedulable === true && spec?.unschedulable !== true) this.#lifted.add(metadata.name);
    this.reconciler.wake(metadata.name);
  }

  #wakeNodeOf(vmi: Key): void {
    const node = this.#deps.vmis.get(vmi)?.status?.nodeName;
    if (node) this.reconciler.wakeAfter(node, settleMs);
  }

  #wakeByMigration(key: Key): void {
    const migration = this.#deps.migrations.get(key);
    if (!migration) {
      this.wakeAll();
      return;
    }
    this.#wakeNodeOf(`${migration.metadata.namespace}/${migration.spec.vmiName}`);
    const emptied = migration.metadata.annotations?.[annotations.evacuationMigration];
    if (emptied) this.reconciler.wake(emptied);
  }

  #parts(): ReconcileParts<NodeObservation, EvacuationDecision, ExplainFacts> {
    const deps = { ...this.#deps, lifted: this.#lifted };
    const onChange = 'when the node, a VMI on it or a migration changes';
    return {
      ...factsParts(seenOf, { field: 'node', object: 'the node', onChange }),
      isSynced: () => deps.nodes.hasSynced && deps.vmis.synced && deps.migrations.synced,
      observe: async (key) => observeNode(key, deps),
      decide: decideEvacuation,
      execute: (observation, decision, signal) => this.#execute(observation, decision, signal),
      write: async () => ({ kind: 'no-object' }),
      versionOf: ({ node }) => node?.metadata.resourceVersion,
      isGone: ({ node }) => node === undefined,
      recordEvent: ({ node }, event) => recordEventOn(deps.events, node, event),
    };
  }

  async #execute({ key }: NodeObservation, { steps }: EvacuationDecision, signal: AbortSignal) {
    const { client, vmis, migrations, events, clock } = this.#deps;
    const noteOnVmi = (vmi: VirtualMachineInstance, event: ObjectEvent) => void recordEventOn(events, vmi, event);
    const context = { client, vmis, migrations, node: key, noteOnVmi, signal };
    const how = { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock };
    const outcomes = await runPlan(steps, context, how);
    if (outcomes.every(({ outcome }) => outcome.kind === 'done')) this.#lifted.delete(key);
    return outcomes;
  }
}

/** In few words for people; keys are names of log fields, too. */
function seenOf({ node, candidates, stuck, cordon }: NodeObservation): ExplainFacts {
  return {
    state: node ? 'there' : 'gone',
    ...(cordon !== 'none' && { cordon }),
    ...(candidates.length > 0 && { toMove: String(candidates.length) }),
    ...(stuck.length > 0 && { cannotMove: stuck.slice(0, 5).join(', ') }),
  };
}
