import { findCondition, type Key, keyOf, labels, type Pod, resources } from '../../api/index.ts';
import { type Clock, type Component, type Logger, rfc3339 } from '../../base/index.ts';
import { type EventRecorder, type Informer, isKubeError, type KubeClient } from '../../kube/index.ts';
import { KeyedQueue, type KeyResult } from '../../reconcile/index.ts';
import { podFacts } from '../pod/facts.ts';
import { type Node, placePod, podMemoryBytes } from './fit.ts';

export interface SchedulerDeps {
  readonly client: KubeClient;
  /** Launcher pods. */
  readonly pods: Informer<Pod>;
  readonly nodes: Informer<Node>;
  readonly events: EventRecorder;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Binds launcher pods to nodes where no kube-scheduler does: one-node use. It looks at node selector, node affinity, taints
 * and memory, one pod after the other.
 */
export class StandaloneScheduler implements Component {
  readonly name = 'standalone-scheduler';
  readonly #deps: SchedulerDeps;
  readonly #queue: KeyedQueue;
  /** Bound by us, not yet in the cache: their memory counts already. */
  readonly #assumed = new Map<Key, { uid: string | undefined; node: string; bytes: number }>();
  readonly #unsubscribe: (() => void)[] = [];

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
    this.#queue = new KeyedQueue(
      { concurrency: 1 },
      {
        run: (key, signal) => this.#run(key, signal),
        clock: deps.clock,
        onError: (key, error) => deps.log.info({ key, err: error }, 'placing a pod is tried again'),
      },
    );
  }

  /** The informers have to be synced. */
  async start(): Promise<void> {
    const { pods, nodes } = this.#deps;
    const wakeWaiting = () => {
      for (const pod of pods.list()) if (isWaiting(pod)) this.#queue.add(keyOf(pod));
    };
    const changed = (pod: Pod) => {
      if (isWaiting(pod)) this.#queue.add(keyOf(pod));
      else this.#assumed.delete(keyOf(pod));
    };
    const gone = (pod: Pod) => {
      this.#assumed.delete(keyOf(pod));
      wakeWaiting();
    };
    this.#unsubscribe.push(
      nodes.addHandlers({ added: wakeWaiting, updated: wakeWaiting }),
      pods.addHandlers({ added: changed, updated: (_old, pod) => changed(pod), deleted: gone }),
    );
  }

  async stop(): Promise<void> {
    for (const end of this.#unsubscribe.splice(0)) end();
    await this.#queue.stop();
  }

  async #run(key: Key, signal: AbortSignal): Promise<KeyResult> {
    const { client, pods, nodes, events, log } = this.#deps;
    const pod = pods.get(key);
    if (!pod || !isWaiting(pod) || this.#assumed.get(key)?.uid === pod.metadata.uid) return { kind: 'done' };
    const placement = placePod(pod, nodes.list(), (node) => this.#usedBytes(node));
    if (placement.kind === 'none') {
      await this.#sayUnschedulable(pod, placement.message, signal);
      return { kind: 'done' };
    }
    const { name, namespace, uid } = pod.metadata;
    const node = placement.name;
    const target = { apiVersion: 'v1', kind: 'Node', name: node };
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name, namespace, uid }, target };
    try {
      await client.createSubresource(resources.pods, pod.metadata, 'binding', binding, { signal });
    } catch (error) {
      // Bound by another, or gone.
      if (isKubeError(error, 'CONFLICT', 'NOT_FOUND')) return { kind: 'done' };
      throw error;
    }
    this.#assumed.set(key, { uid, node, bytes: podMemoryBytes(pod) });
    log.info({ pod: key, node }, 'pod bound');
    events.record(pod, 'Normal', 'Scheduled', `Successfully assigned ${key} to ${node}`);
    return { kind: 'done' };
  }

  async #sayUnschedulable(pod: Pod, message: string, signal: AbortSignal): Promise<void> {
    const old = findCondition(pod.status?.conditions, 'PodScheduled');
    if (old?.status === 'False' && old.message === message) return;
    const { client, events, clock } = this.#deps;
    events.record(pod, 'Warning', 'FailedScheduling', message);
    const lastTransitionTime = rfc3339(clock.now());
    const condition = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message, lastTransitionTime };
    const body = { metadata: { uid: pod.metadata.uid }, status: { conditions: [condition] } };
    try {
      await client.patch(resources.pods, pod.metadata, body, 'strategic', { subresource: 'status', signal });
    } catch (error) {
      if (!isKubeError(error, 'NOT_FOUND', 'CONFLICT')) throw error;
    }
  }

  #usedBytes(node: string): number {
    let bytes = 0;
    for (const pod of this.#deps.pods.list()) {
      if (pod.spec.nodeName === node && !podFacts.isFinal(pod)) bytes += podMemoryBytes(pod);
    }
    for (const assumed of this.#assumed.values()) if (assumed.node === node) bytes += assumed.bytes;
    return bytes;
  }
}

/** Of the pods with a `kubevirt.io` label only launchers are ours to place. */
function isWaiting(pod: Pod): boolean {
  if (pod.metadata.labels?.[labels.app] !== 'virt-launcher') return false;
  return !pod.spec.nodeName && !pod.metadata.deletionTimestamp && !podFacts.isFinal(pod);
}
