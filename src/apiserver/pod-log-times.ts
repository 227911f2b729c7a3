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

/** As the kubelet writes it, `2026-11-25T22:54:11.123000000Z`, and a blank. */
export function timePrefix(atMs: number): string {
  return `${new Date(atMs).toISOString().slice(0, -1)}000000Z `;
}
