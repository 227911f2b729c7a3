import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { KeyResult, ReconcileObserver } from '../../../reconcile/index.ts';
import type { AgentFigures } from './figures.ts';

/**
 * Upstream's four queues are one here, which serves a VMI in all its roles: it has the name of upstream's first, and the
 * others do not exist.
 */
const queueName = 'virt-handler-vm';
const buckets = Array.from({ length: 10 }, (_, power) => 1e-8 * 10 ** power);

/** Runs of the VMI loop. */
export class LoopMetrics implements Omit<ReconcileObserver, 'written'> {
  readonly #adds: Counter<'name'>;
  readonly #retries: Counter<'name'>;
  readonly #waited: Histogram<'name'>;
  readonly #worked: Histogram<'name'>;
  readonly #reconciles: Counter<'rule' | 'outcome'>;

  constructor(registry: Registry) {
    const registers = [registry];
    const counter = (name: string, help: string) =>
      new Counter({ name: `kubevirt_workqueue_${name}`, help, labelNames: ['name'] as const, registers });
    const histogram = (name: string, help: string) =>
      new Histogram({ name: `kubevirt_workqueue_${name}`, help, labelNames: ['name'] as const, buckets, registers });
    this.#adds = counter('adds_total', 'Times that a VMI was put into the queue.');
    this.#retries = counter('retries_total', 'Runs that failed and come again.');
    this.#waited = histogram('queue_duration_seconds', 'How long a VMI waited for its run.');
    this.#worked = histogram('work_duration_seconds', 'How long a run took.');
    for (const metric of [this.#adds, this.#retries]) metric.inc({ name: queueName }, 0);
    for (const metric of [this.#waited, this.#worked]) metric.zero({ name: queueName });
    this.#reconciles = new Counter({
      name: 'kubevirt_virt_handler_passes_total',
      help: 'Reconciles of a VMI by the rule that decided; outcome is done or retry.',
      labelNames: ['rule', 'outcome'] as const,
      registers,
    });
  }

  added(): void {
    this.#adds.inc({ name: queueName });
  }

  started(waitedMs: number): void {
    this.#waited.observe({ name: queueName }, waitedMs / 1000);
  }

  ended(tookMs: number, kind: KeyResult['kind']): void {
    this.#worked.observe({ name: queueName }, tookMs / 1000);
    if (kind === 'retry') this.#retries.inc({ name: queueName });
  }

  reconciled(rule: string, outcome: KeyResult['kind']): void {
    this.#reconciles.inc({ rule, outcome });
  }
}

/** What the queue has now. */
export function addQueueGauges(registry: Registry, queue: AgentFigures['queue']): void {
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      ...{ name: `kubevirt_workqueue_${name}`, help, labelNames: ['name'], registers: [registry] },
      collect() {
        this.set({ name: queueName }, read());
      },
    });
  gauge('depth', 'VMIs that wait for their run.', () => queue.counts.queued);
  gauge(
    'longest_running_processor_seconds',
    'How long the longest run has been under way.',
    () => queue.unfinished.longestMs / 1000,
  );
  gauge('unfinished_work_seconds', 'How long all runs have been under way.', () => queue.unfinished.totalMs / 1000);
}
