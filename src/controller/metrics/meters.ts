import { Counter, Registry } from 'prom-client';
import { type Key, parseKey } from '../../api/index.ts';
import type { QueueObserver, ReconcileObserver } from '../../reconcile/index.ts';
import { type QueueFigures, QueueMetrics, RequestMetrics } from '../../serving/index.ts';
import { PhaseTimes } from './phase-times.ts';

/** Upstream's names of the queues, without `virt-controller-`. */
export type QueueName =
  | 'vm'
  | 'vmi'
  | 'node'
  | 'migration'
  | 'evacuation'
  | 'replicaset'
  | 'pool'
  | 'workload-update'
  | 'tsc-labels'
  | 'snapshot-vmsnapshot'
  | 'snapshot-vmsnapshotcontent'
  | 'restore-vmrestore'
  | 'vmclone'
  | 'export-vmexport'
  | 'vmbackup'
  | 'vmbackup-tracker';

/** All that is counted while it happens: made before anything that is counted. */
export class ControllerMeters {
  readonly registry = new Registry();
  readonly requests = new RequestMetrics(this.registry);
  readonly phaseTimes = new PhaseTimes(this.registry);
  readonly #queues = new QueueMetrics(this.registry);
  readonly #reconciles: Counter<'queue' | 'rule' | 'outcome'>;
  readonly #syncs: Counter<'namespace' | 'name'>;

  constructor() {
    const registers = [this.registry];
    this.#reconciles = new Counter({
      name: 'kubevirt_virt_controller_reconciles_total',
      help: 'Reconciles of an object by the rule that decided; outcome is done or retry.',
      labelNames: ['queue', 'rule', 'outcome'] as const,
      registers,
    });
    this.#syncs = new Counter({
      name: 'kubevirt_vmi_sync_total',
      help: 'Times that this program has written the VMI.',
      labelNames: ['namespace', 'name'] as const,
      registers,
    });
  }

  /** What the reconciler of this queue hears of. */
  observer(queue: QueueName): ReconcileObserver {
    return {
      ...this.queueObserver(queue),
      reconciled: (rule, outcome) => this.#reconciles.inc({ queue, rule, outcome }),
      written: (key) => {
        if (queue === 'vmi') this.#syncs.inc(labelsOf(key));
      },
    };
  }

  queueObserver(queue: QueueName): QueueObserver {
    return this.#queues.observer(fullName(queue));
  }

  /** What the queue has is read at each scrape. */
  read(queue: QueueName, figures: QueueFigures): void {
    this.#queues.read(fullName(queue), figures);
  }

  /** Its series end. */
  vmiGone(key: Key): void {
    this.#syncs.remove(labelsOf(key));
  }
}

const fullName = (queue: QueueName) => `virt-controller-${queue}`;

function labelsOf(key: Key) {
  const { namespace = '', name = '' } = parseKey(key) ?? {};
  return { namespace, name };
}
