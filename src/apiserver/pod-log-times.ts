import type { LogTime } from '../host/index.ts';

/** Where the lines begin that were written at `sinceMs` or later: a byte at which a line may be in its middle. `endMs`: the last was written then. */
export function sinceOffset(times: readonly LogTime[], sinceMs: number, { size, endMs }: LogEnd): number {
  if (endMs < sinceMs) return size;
  const before = times.findLast(({ atMs }) => atMs < sinceMs);
  return Math.min(before?.bytes ?? 0, size);
}

export interface LogEnd {
  readonly size: number;
  readonly endMs: number;
}

/** When the byte before `offset` was written. Later ones than were noted: at `endMs`. */
export function timeAt(times: readonly LogTime[], offset: number, endMs: number): number {
  // The first that has it; offsets and times only grow.
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle]?.bytes ?? 0) >= offset) high = middle;
    else low = middle + 1;
  }
  return times[low]?.atMs ?? endMs;
}

/** As the kubelet writes it, `2026-11-25T22:54:11.123000000Z`, and a blank. */
export function timePrefix(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, -1)}000000Z `;
}
