import type { VirtualMachineSnapshot } from '../../api/index.ts';
import { parseGoDurationMs } from '../../base/index.ts';

const fallbackMs = 300_000;

/** How long a snapshot may take; undefined: as long as it takes. What is no duration counts as none given. */
export function failureDeadlineMs({ spec }: VirtualMachineSnapshot): number | undefined {
  const given: unknown = spec.failureDeadline;
  const ms = typeof given === 'string' ? parseGoDurationMs(given) : undefined;
  if (ms === 0) return undefined;
  return ms !== undefined && ms > 0 ? ms : fallbackMs;
}

/** Negative: it has passed. Undefined: there is none. */
export function msUntilDeadline(snapshot: VirtualMachineSnapshot, now: Date): number | undefined {
  const allowedMs = failureDeadlineMs(snapshot);
  const begunMs = Date.parse(snapshot.metadata.creationTimestamp ?? '');
  if (allowedMs === undefined || !Number.isFinite(begunMs)) return undefined;
  return begunMs + allowedMs - now.getTime();
}

/** It has been taken, or never will be. */
export function isSnapshotOver({ status }: VirtualMachineSnapshot): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

/** Nothing more is taken for it. */
export function isEnding(snapshot: VirtualMachineSnapshot, now: Date): boolean {
  if (snapshot.metadata.deletionTimestamp || snapshot.status?.phase === 'Failed') return true;
  return snapshot.status?.phase !== 'Succeeded' && (msUntilDeadline(snapshot, now) ?? 0) < 0;
}
