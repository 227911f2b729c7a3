import { type KubeObject, resources, tscFrequencyOf, type VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, type Component, errorMessage, type Logger } from '../../base/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { type Informer, isKubeError, type KubeClient } from '../../kube/index.ts';
import { type KeyResult, type QueueObserver, type ReadYourWrites, SingleReconciler } from '../../reconcile/index.ts';
import { labelChanges, lowestFrequency, saysTheSame, wantedFrequencies } from './frequencies.ts';

export interface TscLabelsDeps {
  readonly client: Pick<KubeClient, 'patch'>;
  readonly nodes: Pick<Informer<KubeObject>, 'list' | 'addHandlers'>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'get' | 'list' | 'onChange'>;
  readonly config: () => Pick<ControllerConfig, 'minimumTscFrequency'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly observer?: QueueObserver | undefined;
}

/** Changes come in crowds: nodes are looked through once for many of them. */
const settleMs = 500;
const backoff = { baseMs: 5_000, maxMs: 300_000 };

/**
 * Labels nodes with the frequencies that they can give to guests, when nodes or guests change; upstream looks every 30 s
 * (pkg/virt-controller/watch/topology/nodetopologyupdater.go).
 */
export class TscLabels implements Component {
  readonly name = 'TSC labels';
  readonly reconciler: SingleReconciler;
  readonly #deps: TscLabelsDeps;
  /** Frequencies that nodes were last labelled for. */
  #wanted: ReadonlySet<number> = new Set();

  constructor(deps: TscLabelsDeps) {
    this.#deps = deps;
    const options = { name: 'nodes', backoff, failedMessage: 'nodes could not be labelled with TSC frequencies' };
    this.reconciler = new SingleReconciler(options, {
      ...{ clock: deps.clock, log: deps.log, random: deps.random, observer: deps.observer },
      reconcile: (signal) => this.#reconcile(signal),
    });
  }

  /** The informers have to be synced. */
  async start(): Promise<void> {
    const { nodes, vmis } = this.#deps;
    const soon = () => this.reconciler.wakeAfter(settleMs);
    this.reconciler.follow(
      nodes.addHandlers({
        added: soon,
        updated: (older, newer) => saysTheSame(older, newer) || soon(),
        deleted: soon,
      }),
      vmis.onChange((key) => {
        const vmi = vmis.get(key);
        const frequency = vmi && tscFrequencyOf(vmi);
        // One that is gone may have been the last of its frequency; what is wanted already is wanted still.
        const isNews = vmi ? frequency !== undefined && !this.#wanted.has(frequency) : this.#wanted.size > 0;
        if (isNews) soon();
      }),
    );
    soon();
  }

  /** The configuration has changed. */
  wake(): void {
    this.reconciler.wakeAfter(settleMs);
  }

  async stop(): Promise<void> {
    await this.reconciler.stop();
  }

  async #reconcile(signal: AbortSignal): Promise<KeyResult> {
    const { nodes, vmis, config } = this.#deps;
    const all = nodes.list();
    const guests = vmis.list();
    const wanted = wantedFrequencies(guests, lowestFrequency(all, guests, config().minimumTscFrequency));
    this.#wanted = wanted;
    let problem: string | undefined;
    for (const node of all) {
      const changes = labelChanges(node, wanted);
      if (Object.keys(changes).length > 0) problem = (await this.#label(node, changes, signal)) ?? problem;
    }
    return problem === undefined ? { kind: 'done' } : { kind: 'retry', cause: new Error(problem) };
  }

  /** Of this very node. One that is refused costs itself only. */
  async #label(
    { metadata }: KubeObject,
    changes: Readonly<Record<string, 'true' | null>>,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { client, log } = this.#deps;
    const { name, uid } = metadata;
    try {
      await client.patch(resources.nodes, { name }, { metadata: { uid, labels: changes } }, 'merge', { signal });
      log.info({ node: name, labels: changes }, 'TSC frequencies of a node');
    } catch (error) {
      if (signal.aborted || !isKubeError(error)) throw error;
      // It is gone, or another one of its name is there: the watch shows that.
      if (isKubeError(error, 'NOT_FOUND', 'CONFLICT')) return undefined;
      return `${name}: ${errorMessage(error)}`;
    }
    return undefined;
  }
}
