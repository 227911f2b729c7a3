import {
  annotations,
  type ExplainFacts,
  type Key,
  type KubeObject,
  labels,
  type Pod,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import type { Component, Logger } from '../../base/index.ts';
import type { EventRecorder, Informer, KubeClient } from '../../kube/index.ts';
import {
  factsParts,
  type ObjectEvent,
  type ReadYourWrites,
  type ReconcileObserver,
  type ReconcileParts,
  Reconciler,
  runPlan,
  stepErrorOf,
} from '../../reconcile/index.ts';
import { controllerBackoff, recordEventOn, stepDeadlineMs } from '../reconciling.ts';
import { decideNode, type NodeDecision } from './decide.ts';
import { executors } from './execute.ts';
import { type NodeObservation, type ObserveDeps, observeNode, type SeenHeartbeat } from './observe.ts';

export interface NodeControllerOptions {
  /** Nodes worked on side by side. */
  readonly workers: number;
}

export interface NodeControllerDeps extends Omit<ObserveDeps, 'nodes' | 'vmis' | 'ownPods' | 'heartbeats'> {
  readonly client: KubeClient;
  readonly nodes: Pick<Informer<KubeObject>, 'get' | 'keys' | 'hasSynced' | 'addHandlers'>;
  readonly vmis: ReadYourWrites<VirtualMachineInstance>;
  readonly ownPods: ReadYourWrites<Pod>;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly random: () => number;
  readonly observer?: ReconcileObserver | undefined;
}

/** Watches over the agents' heartbeats (upstream: pkg/virt-controller/watch/node/node.go). */
export class NodeController implements Component {
  readonly name = 'node-controller';
  readonly reconciler: Reconciler<NodeObservation, NodeDecision, ExplainFacts>;
  readonly #deps: NodeControllerDeps;
  readonly #subscriptions: (() => void)[] = [];
  /** By node. */
  readonly #heartbeats = new Map<Key, SeenHeartbeat>();
  /** Nodes without an agent that have guests. */
  readonly #watched = new Set<Key>();
  /** Nodes that are there and whose agent is gone: a guest may still be handed over to them. */
  readonly #silent = new Set<Key>();

  constructor({ workers }: NodeControllerOptions, deps: NodeControllerDeps) {
    this.#deps = deps;
    this.reconciler = new Reconciler({ concurrency: workers, ...controllerBackoff }, this.#parts(), deps);
  }

  /** The informers have to be synced. */
  async start(): Promise<void> {
    const { nodes, vmis, ownPods } = this.#deps;
    const wake = ({ metadata }: KubeObject) => this.reconciler.wake(metadata.name);
    this.#subscriptions.push(
      nodes.addHandlers({ added: wake, updated: (older, node) => isNews(older, node) && wake(node), deleted: wake }),
      vmis.onChange((key) => this.#wakeNodeOf(vmis.get(key))),
      ownPods.onChange(() => this.#wakeWatched()),
    );
    for (const key of nodes.keys()) this.reconciler.wake(key);
    for (const vmi of vmis.list()) this.#wakeNodeOf(vmi);
  }

  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.reconciler.stop();
  }

  /** What happens on a node whose agent is there is for that agent. */
  #wakeNodeOf(vmi: VirtualMachineInstance | undefined): void {
    const node = vmi?.status?.nodeName;
    if (node && (this.#silent.has(node) || !this.#deps.nodes.get(node))) this.reconciler.wake(node);
    this.#wakeWatched();
  }

  #wakeWatched(): void {
    for (const node of this.#watched) this.reconciler.wake(node);
  }

  #seen(node: Key, text: string): SeenHeartbeat {
    const known = this.#heartbeats.get(node);
    if (known?.text === text) return known;
    const seen = { text, sinceMs: this.#deps.clock.monotonicMs() };
    this.#heartbeats.set(node, seen);
    return seen;
  }

  #parts(): ReconcileParts<NodeObservation, NodeDecision, ExplainFacts> {
    const deps = { ...this.#deps, heartbeats: { of: (node: Key, text: string) => this.#seen(node, text) } };
    const onChange = 'when the node, a VMI on it or a pod of one changes';
    return {
      ...factsParts(seenOf, { field: 'node', object: 'the node', onChange }),
      isSynced: () => deps.nodes.hasSynced && deps.vmis.synced && deps.ownPods.synced,
      observe: async (key) => observeNode(key, deps),
      decide: decideNode,
      execute: (observation, decision, signal) => this.#execute(observation, decision, signal),
      write: async () => ({ kind: 'no-object' }),
      versionOf: ({ node }) => node?.metadata.resourceVersion,
      isGone: (observation) => this.#forgetIfGone(observation),
      recordEvent: ({ node }, event) => recordEventOn(deps.events, node, event),
    };
  }

  #forgetIfGone({ key, node, leftMs, lost, unproven }: NodeObservation): boolean {
    const hasGuests = lost.length + unproven.length > 0;
    if (hasGuests) this.#watched.add(key);
    else this.#watched.delete(key);
    if (node && leftMs !== undefined && leftMs <= 0) this.#silent.add(key);
    else this.#silent.delete(key);
    if (node) return false;
    this.#heartbeats.delete(key);
    return !hasGuests;
  }

  #execute(observation: NodeObservation, { steps }: NodeDecision, signal: AbortSignal) {
    const { client, vmis, events, clock } = this.#deps;
    const noteOnVmi = (vmi: VirtualMachineInstance, event: ObjectEvent) => void recordEventOn(events, vmi, event);
    const context = { client, vmis, observation, noteOnVmi, signal };
    return runPlan(steps, context, { executors, deadlineMs: () => stepDeadlineMs, errorOf: stepErrorOf, clock });
  }
}

/** A kubelet writes its node all the time. */
function isNews({ metadata: older }: KubeObject, { metadata: newer }: KubeObject): boolean {
  const read = ({ labels: own, annotations: noted }: KubeObject['metadata']) =>
    `${own?.[labels.schedulable]} ${noted?.[annotations.heartbeat]}`;
  return older.uid !== newer.uid || read(older) !== read(newer);
}

/** In few words for people; keys are names of log fields, too. */
function seenOf({ node, leftMs, lost, unproven }: NodeObservation): ExplainFacts {
  return {
    state: node ? 'there' : 'gone',
    ...(leftMs !== undefined && { agent: leftMs > 0 ? 'heard of' : 'unheard of for 5 minutes' }),
    ...(lost.length > 0 && { lost: String(lost.length) }),
    ...(unproven.length > 0 && { mayRun: unproven.slice(0, 5).join(', ') }),
  };
}
