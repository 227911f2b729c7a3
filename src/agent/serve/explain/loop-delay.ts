import { createHistogram } from 'node:perf_hooks';
import type { AgentState } from '../../../api/index.ts';
import type { Clock } from '../../../base/index.ts';

/** How late the event loop comes to its work. */
export interface LoopDelay {
  read(): AgentState['eventLoopDelayMs'];
  /** Since the start: looks at the clock, and how late they were together. */
  totals(): { readonly count: number; readonly lateMs: number };
  /** Work has come in: there is something to see from now on. */
  workCame(): void;
  stop(): void;
}

export interface LoopDelayDeps {
  readonly clock: Pick<Clock, 'monotonicMs' | 'schedule'>;
  /** Part of the time since the last call in which the loop worked, from 0 to 1. */
  readonly utilization: () => number;
}

const busyEveryMs = 50;
/** A look wakes an idle agent. Twenty a second were more than all else that it does. */
const idleEveryMs = 5_000;
/** From 50 ms to 5 s in four looks: each little thing that wakes the agent is followed by so many. */
const slowDown = 4;
const busyUtilization = 0.05;
/** Less is common where other programs keep the processors busy, and says nothing of this loop. */
const lateMs = 50;
const longestUs = 60e6;

/**
 * Looks at the clock every 50 ms while the loop works or comes more than that too late, and less and less often, down to every 5 s, while it does not.
 * What comes in meanwhile says so by `workCame`.
 */
export function measureLoopDelay(deps: LoopDelayDeps = { clock: idleClock, utilization: ofThisLoop() }): LoopDelay {
  const { clock, utilization } = deps;
  // Of microseconds; a histogram counts from one on. One without an end would take three times as much memory.
  const histogram = createHistogram({ lowest: 1, highest: longestUs });
  let everyMs = busyEveryMs;
  let cancel = () => {};
  const lookAfter = (ms: number) => {
    everyMs = ms;
    const dueMs = clock.monotonicMs() + ms;
    cancel = clock.schedule(ms, () => {
      const late = Math.max(0, clock.monotonicMs() - dueMs);
      histogram.record(Math.min(longestUs, Math.max(1, Math.round(late * 1000))));
      const isBusy = late > lateMs || utilization() > busyUtilization;
      lookAfter(isBusy ? busyEveryMs : Math.min(slowDown * ms, idleEveryMs));
    });
  };
  lookAfter(busyEveryMs);
  const ms = (microseconds: number) => Math.round(microseconds / 10) / 100;
  return {
    read: () => ({
      p50: ms(histogram.percentile(50)),
      p95: ms(histogram.percentile(95)),
      p99: ms(histogram.percentile(99)),
      max: histogram.count === 0 ? 0 : ms(histogram.max),
      mean: histogram.count === 0 ? 0 : ms(histogram.mean),
    }),
    totals: () => ({
      count: histogram.count,
      lateMs: histogram.count === 0 ? 0 : (histogram.count * histogram.mean) / 1000,
    }),
    workCame() {
      if (everyMs === busyEveryMs) return;
      cancel();
      lookAfter(busyEveryMs);
    },
    stop: () => cancel(),
  };
}

/** A look keeps no process alive. */
const idleClock: LoopDelayDeps['clock'] = {
  monotonicMs: () => performance.now(),
  schedule(ms, callback) {
    const timer = setTimeout(callback, ms).unref();
    return () => clearTimeout(timer);
  },
};

function ofThisLoop(): () => number {
  let last = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, last);
    last = now;
    return utilization;
  };
}
