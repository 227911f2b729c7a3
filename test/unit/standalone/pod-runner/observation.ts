import type { Pod } from '../../../../src/api/index.ts';
import type { PodObservation, ProbeState, SandboxState } from '../../../../src/standalone/index.ts';

/** A pod, or none of the API, as rows of tests vary it. */
export interface PodSituation {
  readonly pod: Pod | undefined;
  readonly sandbox: SandboxState;
  readonly terminatingSinceMs: number | undefined;
  readonly nowMs: number;
  readonly isDraining: boolean;
  readonly probes?: ProbeState;
  readonly objectsAtMs?: number;
}

export function observationOf(situation: PodSituation): PodObservation {
  const { pod, sandbox, terminatingSinceMs, nowMs, isDraining, probes, objectsAtMs } = situation;
  const observed = { key: 'u', uid: 'u', now: new Date(nowMs), sandbox };
  if (!pod) return { ...observed, kind: 'orphan' };
  const present = { ...observed, kind: 'present', pod, obstacle: undefined, terminatingSinceMs, objectsAtMs } as const;
  return { ...present, isDraining, probes };
}
