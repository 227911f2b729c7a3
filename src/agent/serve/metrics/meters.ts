import { Registry } from 'prom-client';
import type { ReconcileObserver } from '../../../reconcile/index.ts';
import { LoopMetrics } from './loop-metrics.ts';
import { RequestMetrics } from './request-metrics.ts';
import { VmCounters } from './vm-counters.ts';

/** All that is counted while it happens: made before anything that is counted. */
export class Meters {
  readonly registry = new Registry();
  readonly vms = new VmCounters();
  readonly requests = new RequestMetrics(this.registry);
  readonly loop: ReconcileObserver;

  constructor() {
    const loop = new LoopMetrics(this.registry);
    this.loop = {
      added: () => loop.added(),
      started: (waitedMs) => loop.started(waitedMs),
      ended: (tookMs, kind) => loop.ended(tookMs, kind),
      reconciled: (rule, kind) => loop.reconciled(rule, kind),
      written: (key) => this.vms.written(key),
    };
  }
}
