import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { KeyResult, QueueObserver } from '../reconcile/index.ts';

const buckets = Array.from({ length: 10 }, (_, power) => 1e-8 * 10 ** power);

/** What a queue has now. */
export interface QueueFigures {
  /** Keys that are ready, and wait for a worker slot. */
  readonly counts: { readonly queued: number };
  /** Runs under way: how long all of them together, and the longest. */
  readonly unfinished: { readonly totalMs: number; readonly longestMs: number };
}

interface Read {
  readonly name: string;
  readonly queue: QueueFigures;
}

/** Queues of keys by upstream's names (pkg/monitoring/metrics/common/workqueue); the label is the queue's name. */
export class QueueMetrics {
  readonly #adds: Counter<'name'>;
  readonly #retries: Counter<'name'>;
  readonly #waited: Histogram<'name'>;
  readonly #worked: Histogram<'name'>;
  readonly #queues: Read[] = [];

  constructor(registry: Registry) {
    const registers = [registry];
    const labelNames = ['name'] as const;
    const name = (end: string) => `kubevirt_workqueue_${end}`;
    const counter = (end: string, help: string) => new Counter({ name: name(end), help, labelNames, registers });
    const histogram = (end: string, help: string) =>
      new Histogram({ name: name(end), help, labelNames, buckets, registers });
    const queues = this.#queues;
    const gauge = (end: string, help: string, read: (queue: QueueFigures) => number) =>
      new Gauge({
        ...{ name: name(end), help, labelNames, registers },
        collect() {
          for (const { name, queue } of queues) this.set({ name }, read(queue));
        },
      });
    this.#adds = counter('adds_total', 'Times that a key was put into the queue.');
    this.#retries = counter('retries_total', 'Runs that failed and come again.');
    this.#waited = histogram('queue_duration_seconds', 'How long a key waited for its run.');
    this.#worked = histogram('work_duration_seconds', 'How long a run took.');
    gauge('depth', 'Keys that wait for their run.', ({ counts }) => counts.queued);
    const longest = 'How long the longest run has been under way.';
    gauge('longest_running_processor_seconds', longest, ({ unfinished }) => unfinished.longestMs / 1000);
    const all = 'How long all runs have been under way.';
    gauge('unfinished_work_seconds', all, ({ unfinished }) => unfinished.totalMs / 1000);
  }

  /** What the queue of this name hears of; its series are there from now on. */
  observer(name: string): QueueObserver {
    for (const metric of [this.#adds, this.#retries]) metric.inc({ name }, 0);
    for (const metric of [this.#waited, this.#worked]) metric.zero({ name });
    return {
      added: () => this.#adds.inc({ name }),
      started: (waitedMs) => this.#waited.observe({ name }, waitedMs / 1000),
      ended: (tookMs, kind: KeyResult['kind']) => {
        this.#worked.observe({ name }, tookMs / 1000);
        if (kind === 'retry') this.#retries.inc({ name });
      },
    };
  }

  /** What the queue of this name has is read at each scrape. */
  read(name: string, queue: QueueFigures): void {
    this.#queues.push({ name, queue });
  }
}
