import { Counter, Registry } from 'prom-client';
import type { ReconcileObserver } from '../../../reconcile/index.ts';
import { QueueMetrics, RequestMetrics } from '../../../serving/index.ts';
import { VmCounters } from './vm-counters.ts';

/**
 * Upstream's four queues are one here, which serves a VMI in all its roles: it has the name of upstream's first, and the
 * others do not exist.
 */
export const queueName = 'virt-handler-vm';

/** All that is counted while it happens: made before anything that is counted. */
export class Meters {
  readonly registry = new Registry();
  readonly vms = new VmCounters();
  readonly requests = new RequestMetrics(this.registry);
  readonly queues = new QueueMetrics(this.registry);
  readonly loop: ReconcileObserver;

  constructor() {
    const reconciles = new Counter({
      name: 'kubevirt_virt_handler_passes_total',
      help: 'Reconciles of a VMI by the rule that decided; outcome is done or retry.',
      labelNames: ['rule', 'outcome'] as const,
      registers: [this.registry],
    });
    this.loop = {
      ...this.queues.observer(queueName),
      reconciled: (rule, outcome) => reconciles.inc({ rule, outcome }),
      written: (key) => this.vms.written(key),
    };
  }
}
