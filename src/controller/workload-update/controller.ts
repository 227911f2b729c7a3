import type { VirtualMachineInstance, VirtualMachineInstanceMigration } from '../../api/index.ts';
import type { Clock, Component, Logger } from '../../base/index.ts';
import { activeKubeVirt, type ControllerConfig, type KubeVirt } from '../../cluster-config/index.ts';
import type { EventRecorder, Informer } from '../../kube/index.ts';
import {
  type KeyResult,
  type ObjectEvent,
  type QueueObserver,
  type ReadYourWrites,
  SingleReconciler,
} from '../../reconcile/index.ts';
import { recordEventOn } from '../reconciling.ts';
import { planUpdates } from './plan.ts';
import { carryOut, type RequestDeps } from './requests.ts';
import { readStrategy } from './strategy.ts';

export interface WorkloadUpdateDeps extends Pick<RequestDeps, 'client' | 'ownPods'> {
  readonly kubevirts: Pick<Informer<KubeVirt>, 'list' | 'addHandlers'>;
  readonly vmis: Pick<ReadYourWrites<VirtualMachineInstance>, 'list' | 'onChange'>;
  readonly migrations: Pick<ReadYourWrites<VirtualMachineInstanceMigration>, 'list' | 'onChange' | 'created'>;
  readonly events: EventRecorder;
  readonly config: () => ControllerConfig;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly observer?: QueueObserver | undefined;
}

/** Changes come in crowds: VMIs are looked through once for many of them. */
const settleMs = 500;
const recheckMs = 30_000;
const backoff = { baseMs: 5_000, maxMs: 300_000 };

/** Makes migrations, or evictions, for VMIs that have to be updated. Level-triggered, but for the time of the last evictions. */
export class WorkloadUpdateController implements Component {
  readonly name = 'workload-update-controller';
  readonly #deps: WorkloadUpdateDeps;
  readonly reconciler: SingleReconciler;
  #lastBatchMs: number | undefined;

  constructor(deps: WorkloadUpdateDeps) {
    this.#deps = deps;
    const options = { name: 'workloads', backoff, failedMessage: 'workloads could not be updated' };
    const { clock, log, random, observer } = deps;
    this.reconciler = new SingleReconciler(options, {
      reconcile: (signal) => this.#reconcile(signal),
      clock,
      log,
      random,
      observer,
    });
  }

  /** The informers have to be synced. */
  async start(): Promise<void> {
    const { kubevirts, vmis, migrations } = this.#deps;
    const soon = () => this.reconciler.wakeAfter(settleMs);
    this.reconciler.follow(
      kubevirts.addHandlers({ added: soon, updated: soon, deleted: soon }),
      vmis.onChange(soon),
      migrations.onChange(soon),
    );
    soon();
  }

  async stop(): Promise<void> {
    await this.reconciler.stop();
  }

  async #reconcile(signal: AbortSignal): Promise<KeyResult> {
    const { client, kubevirts, vmis, migrations, ownPods, config, clock, random, events } = this.#deps;
    const strategy = readStrategy(activeKubeVirt(kubevirts.list()));
    if (!strategy) return { kind: 'done' };
    const nowMs = clock.now().getTime();
    const plan = planUpdates({
      vmis: vmis.list(),
      migrations: migrations.list(),
      strategy,
      launcherImage: config().launcherImage,
      migrationsPerCluster: config().migrations.perCluster,
      sinceBatchMs: this.#lastBatchMs === undefined ? undefined : nowMs - this.#lastBatchMs,
      random,
    });
    if (plan.evict.length > 0) this.#lastBatchMs = nowMs;
    const noteOnVmi = (vmi: VirtualMachineInstance, event: ObjectEvent) => void recordEventOn(events, vmi, event);
    const [problem] = await carryOut(plan, { client, migrations, ownPods, noteOnVmi }, signal);
    if (problem !== undefined) return { kind: 'retry', cause: problem };
    return { kind: 'done', ...(plan.hasMore && { requeueAfterMs: recheckMs }) };
  }
}
