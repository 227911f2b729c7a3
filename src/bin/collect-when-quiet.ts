import { performance } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import { collector } from './collect-once.ts';

export interface QuietCollections {
  readonly lookEachMs: number;
  /** Part of the time since the last look in which the event loop worked. */
  readonly quiet: number;
  /** Of what V8 has taken from the system to what was in use after the last collection. */
  readonly slack: number;
  /** At least, between two times: what a steady trickle of work leaves behind may wait. */
  readonly pauseMs: number;
}

const usual: QuietCollections = { lookEachMs: 3_000, quiet: 0.1, slack: 1.25, pauseMs: 60_000 };

/**
 * Gives back what a time of work has left behind, as soon as it is over. V8 collects when the heap has grown by a part of what is in use, so that what grew last
 * stays for as long as nothing happens, and it closes the gaps between objects only when it is short of memory: a program with a large cache rests with twice
 * its size. One collection frees, and the next one finds whole pages to give back. Each takes about 1 ms per MB in use, in which nothing else is done: hence
 * only while hardly anything is.
 */
export function collectWhenQuiet({ lookEachMs, quiet, slack, pauseMs }: QuietCollections = usual): void {
  const collect = collector();
  let before = performance.eventLoopUtilization();
  /** What V8 has when all is in order; undefined: not known since the last collection, for pages are given back behind it. */
  let keptBytes: number | undefined = 0;
  let lastMs = Number.NEGATIVE_INFINITY;
  const look = () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    const { total_heap_size: bytes } = getHeapStatistics();
    keptBytes ??= bytes;
    const nowMs = performance.now();
    if (utilization > quiet || bytes < keptBytes * slack || nowMs - lastMs < pauseMs) return;
    [keptBytes, lastMs] = [undefined, nowMs];
    collect();
    setImmediate(collect);
  };
  setInterval(look, lookEachMs).unref();
}
