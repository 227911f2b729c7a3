import {
  controllerOf,
  type Key,
  type KubeObject,
  keyOf,
  resources,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { backoffDelayMs, type Clock, type Component, errorMessage, type Logger, sleep } from '../../base/index.ts';
import { type EventRecorder, isKubeError, type KubeClient, orMissing, writeIfThere } from '../../kube/index.ts';

export interface DisruptionBudgetsDeps {
  readonly client: Pick<KubeClient, 'list' | 'delete'>;
  readonly vmis: { get(key: Key): VirtualMachineInstance | undefined };
  readonly events: Pick<EventRecorder, 'record'>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
}

const retry = { baseMs: 1_000, maxMs: 300_000, jitter: 0.5 };
const type = resources.podDisruptionBudgets;

/**
 * Deletes budgets that VMIs control, as upstream's controller does since a webhook protects guests from evictions
 * (pkg/virt-controller/watch/drain/disruptionbudget): with a budget of that time `kubectl drain` would wait for ever for a VMI that may be shut
 * down. No release that makes them works beside this one, so one look after the start is enough, and none of them is watched.
 */
export class DisruptionBudgets implements Component {
  readonly name = 'disruption budgets';
  readonly #deps: DisruptionBudgetsDeps;
  readonly #stopping = new AbortController();
  #sweep: Promise<void> | undefined;

  constructor(deps: DisruptionBudgetsDeps) {
    this.#deps = deps;
  }

  /** Begins and returns at once: nothing depends on it. */
  async start(): Promise<void> {
    this.#sweep ??= this.#untilSwept(this.#stopping.signal);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#sweep;
  }

  async #untilSwept(signal: AbortSignal): Promise<void> {
    const { clock, log, random } = this.#deps;
    for (let failures = 1; !signal.aborted; failures++) {
      try {
        await this.#sweepOnce(signal);
        return;
      } catch (error) {
        if (signal.aborted) return;
        const reason = errorMessage(error);
        if (isKubeError(error, 'FORBIDDEN')) {
          log.warn({ reason }, 'disruption budgets of older releases may be left: there is no right to delete them');
          return;
        }
        log.debug({ reason, failures }, 'disruption budgets of older releases are looked for again');
        await sleep(backoffDelayMs(failures, { ...retry, random }), signal, clock).catch(() => undefined);
      }
    }
  }

  async #sweepOnce(signal: AbortSignal): Promise<void> {
    const { client, vmis, events, log } = this.#deps;
    // An API server without the kind has none of them.
    const budgets = await orMissing(client.list<KubeObject>(type, { signal }));
    for (const budget of budgets?.items.filter(isOfVmi) ?? []) {
      const { name, namespace, uid } = budget.metadata;
      if (!(await writeIfThere(client.delete(type, budget.metadata, { uid, signal })))) continue;
      log.info({ budget: keyOf(budget) }, 'deleted a disruption budget of an older release');
      const vmi = vmis.get(`${namespace}/${controllerOf(budget)?.name}`);
      if (vmi) events.record(vmi, 'Normal', 'SuccessfulDelete', `Deleted PodDisruptionBudget ${name}`);
    }
  }
}

function isOfVmi(budget: KubeObject): boolean {
  const owner = controllerOf(budget);
  const { group, kind } = resources.virtualMachineInstances;
  return owner?.kind === kind && owner.apiVersion.startsWith(`${group}/`) && !budget.metadata.deletionTimestamp;
}
