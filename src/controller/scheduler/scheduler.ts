import { findCondition, type Key, labels, type Pod, resources } from '../../api/index.ts';
import { type Clock, type Component, type Logger, rfc3339 } from '../../base/index.ts';
import { type EventRecorder, type Informer, type KubeClient, writeIfThere } from '../../kube/index.ts';
import { KeyedQueue, type KeyResult, type ReadYourWrites } from '../../reconcile/index.ts';
import { podFacts } from '../pod/index.ts';
import { controllerBackoff } from '../reconciling.ts';
import { awaitsAgent, placePod, podMemoryBytes, type SchedulableNode } from './fit.ts';

export interface SchedulerDeps {
  readonly client: Pick<KubeClient, 'createSubresource' | 'patch'>;
  /** Launcher pods; a binding of ours counts before the cache shows it. */
  readonly ownPods: Pick<ReadYourWrites<Pod>, 'get' | 'keys' | 'list' | 'onChange' | 'assumed'>;
  readonly nodes: Pick<Informer<SchedulableNode>, 'list' | 'addHandlers'>;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

/** So young a pod waits for labels of agents without a warning: the first one of a node that starts is there before they are. */
const agentMs = 5_000;

/**
 * Binds launcher pods to nodes where no kube-scheduler does. It looks at node selector, node affinity, pods beside it, taints
 * and memory, one pod after the other. It stands for a program outside of KubeVirt, so it is no user of the reconciler: there is
 * nothing to explain and no status of its own.
 */
export class StandaloneScheduler implements Component {
  readonly name = 'standalone-scheduler';
  readonly #deps: SchedulerDeps;
  readonly #queue: KeyedQueue;
  readonly #unsubscribe: (() => void)[] = [];

  constructor(deps: SchedulerDeps) {
    this.#deps = deps;
    this.#queue = new KeyedQueue(
      { concurrency: 1, backoff: { ...controllerBackoff.backoff, jitter: 0.1, random: deps.random } },
      {
        run: (key, signal) => this.#run(key, signal),
        clock: deps.clock,
        onError: (key, error) => deps.log.info({ key, err: error }, 'placing a pod is tried again'),
      },
    );
  }

  /** The informers have to be synced. */
  async start(): Promise<void> {
    const { ownPods, nodes } = this.#deps;
    const wakeWaiting = () => {
      for (const key of ownPods.keys()) this.#wakeIfWaiting(key);
    };
    const changed = (key: Key) => {
      if (ownPods.get(key)) this.#wakeIfWaiting(key);
      else wakeWaiting();
    };
    this.#unsubscribe.push(nodes.addHandlers({ added: wakeWaiting, updated: wakeWaiting }), ownPods.onChange(changed));
    wakeWaiting();
  }

  async stop(): Promise<void> {
    for (const end of this.#unsubscribe.splice(0)) end();
    await this.#queue.stop();
  }

  #wakeIfWaiting(key: Key): void {
    const pod = this.#deps.ownPods.get(key);
    if (pod && isWaiting(pod)) this.#queue.add(key);
  }

  async #run(key: Key, signal: AbortSignal): Promise<KeyResult> {
    const { ownPods, nodes } = this.#deps;
    const pod = ownPods.get(key);
    if (!pod || !isWaiting(pod)) return { kind: 'done' };
    const placement = placePod(pod, nodes.list(), (node) => this.#usedBytes(node), this.#placed());
    if (placement.kind === 'node') {
      await this.#bind(key, pod, placement.name, signal);
      return { kind: 'done' };
    }
    const quietMs = awaitsAgent(pod, nodes.list()) ? this.#quietMs(pod) : 0;
    // A change of a node wakes it sooner.
    if (quietMs > 0) return { kind: 'done', requeueAfterMs: quietMs };
    await this.#sayUnschedulable(pod, placement.message, signal);
    return { kind: 'done' };
  }

  #quietMs({ metadata }: Pod): number {
    const ageMs = this.#deps.clock.now().getTime() - Date.parse(metadata.creationTimestamp ?? '');
    // A pod from the future is of a server whose clock cannot be reckoned with.
    return ageMs >= 0 ? agentMs - ageMs : 0;
  }

  async #bind(key: Key, pod: Pod, node: string, signal: AbortSignal): Promise<void> {
    const { client, ownPods, events, log } = this.#deps;
    const { name, namespace, uid } = pod.metadata;
    const target = { apiVersion: 'v1', kind: 'Node', name: node };
    const binding = { apiVersion: 'v1', kind: 'Binding', metadata: { name, namespace, uid }, target };
    const writing = client.createSubresource(resources.pods, pod.metadata, 'binding', binding, { signal });
    // Bound by another, or gone.
    if (!(await writeIfThere(writing))) return;
    ownPods.assumed(key, { ...pod, spec: { ...pod.spec, nodeName: node } }, (shown) => Boolean(shown.spec.nodeName));
    log.info({ pod: key, node }, 'pod bound');
    events.record(pod, 'Normal', 'Scheduled', `Successfully assigned ${key} to ${node}`);
  }

  async #sayUnschedulable(pod: Pod, message: string, signal: AbortSignal): Promise<void> {
    const old = findCondition(pod.status?.conditions, 'PodScheduled');
    if (old?.status === 'False' && old.message === message) return;
    const { client, events, clock } = this.#deps;
    events.record(pod, 'Warning', 'FailedScheduling', message);
    const lastTransitionTime = rfc3339(clock.now());
    const condition = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message, lastTransitionTime };
    const body = { metadata: { uid: pod.metadata.uid }, status: { conditions: [condition] } };
    const options = { subresource: 'status', signal };
    await writeIfThere(client.patch(resources.pods, pod.metadata, body, 'strategic', options));
  }

  #placed(): Pod[] {
    return this.#deps.ownPods.list().filter((pod) => pod.spec.nodeName && !podFacts.isFinal(pod));
  }

  #usedBytes(node: string): number {
    let bytes = 0;
    for (const pod of this.#deps.ownPods.list()) {
      if (pod.spec.nodeName === node && !podFacts.isFinal(pod)) bytes += podMemoryBytes(pod);
    }
    return bytes;
  }
}

const placed: readonly (string | undefined)[] = ['virt-launcher', 'hotplug-disk', 'virt-exporter'];

/** Of the pods with a `kubevirt.io` label only launchers, what brings them volumes, and exporters are ours to place. */
function isWaiting(pod: Pod): boolean {
  if (!placed.includes(pod.metadata.labels?.[labels.app])) return false;
  return !pod.spec.nodeName && !pod.metadata.deletionTimestamp && !podFacts.isFinal(pod);
}
