import type { Pod } from '../../api/index.ts';
import type { SandboxState } from './sandbox.ts';

/** Everything a decision about one pod rests on. */
export interface PodObservation {
  /** undefined: the complete list of this node's pods does not have it. */
  readonly pod: Pod | undefined;
  readonly sandbox: SandboxState;
  /** When the pod was told to end; undefined: not yet. */
  readonly terminatingSinceMs: number | undefined;
  readonly nowMs: number;
  /** The node is being stopped together with its pods. */
  readonly isDraining: boolean;
}

export type PodAction =
  | 'none'
  | 'start'
  /** Tell process 1, remember when. */
  | 'terminate'
  | 'kill'
  /** Delete the files. */
  | 'remove'
  /** Report the end, delete the files, take the pod out of the API. */
  | 'finish';

export interface PodDecision {
  readonly rule: string;
  readonly action: PodAction;
  readonly requeueAfterMs?: number;
}

interface Rule {
  readonly name: string;
  readonly when: (seen: PodObservation) => boolean;
  readonly plan: (seen: PodObservation) => Omit<PodDecision, 'rule'>;
}

/** A sandbox that comes or goes is watched; this is for what a watch misses. */
const recheckMs = 1_000;
const upRecheckMs = 5_000;

const isUp = ({ sandbox }: PodObservation) => sandbox.kind === 'running' || sandbox.kind === 'starting';
const mustEnd = ({ pod, isDraining }: PodObservation) => isDraining || Boolean(pod?.metadata.deletionTimestamp);
const leftMs = (seen: PodObservation) => (seen.terminatingSinceMs ?? seen.nowMs) + graceMs(seen.pod) - seen.nowMs;

/** First match wins. */
const rules: readonly Rule[] = [
  {
    name: 'orphan-runs',
    when: (seen) => !seen.pod && isUp(seen),
    plan: () => ({ action: 'kill', requeueAfterMs: recheckMs }),
  },
  { name: 'orphan-files', when: (seen) => !seen.pod, plan: () => ({ action: 'remove' }) },
  {
    name: 'grace-over',
    when: (seen) => mustEnd(seen) && isUp(seen) && leftMs(seen) <= 0,
    plan: () => ({ action: 'kill', requeueAfterMs: recheckMs }),
  },
  {
    name: 'must-end',
    when: (seen) => mustEnd(seen) && seen.sandbox.kind === 'running' && seen.terminatingSinceMs === undefined,
    plan: (seen) => ({ action: 'terminate', requeueAfterMs: Math.min(leftMs(seen), recheckMs) }),
  },
  {
    name: 'ending',
    when: (seen) => mustEnd(seen) && isUp(seen),
    plan: (seen) => ({ action: 'none', requeueAfterMs: Math.min(Math.max(leftMs(seen), 1), recheckMs) }),
  },
  { name: 'ended', when: (seen) => Boolean(seen.pod?.metadata.deletionTimestamp), plan: () => ({ action: 'finish' }) },
  {
    name: 'final-runs',
    when: (seen) => isFinal(seen.pod) && isUp(seen),
    plan: () => ({ action: 'kill', requeueAfterMs: recheckMs }),
  },
  { name: 'final', when: (seen) => isFinal(seen.pod), plan: () => ({ action: 'none' }) },
  { name: 'up', when: isUp, plan: () => ({ action: 'none', requeueAfterMs: upRecheckMs }) },
  { name: 'down', when: ({ sandbox }) => sandbox.kind !== 'none', plan: () => ({ action: 'none' }) },
  // Its record vanished with the files: never start a pod a second time.
  { name: 'record-lost', when: ({ pod }) => pod?.status?.phase === 'Running', plan: () => ({ action: 'none' }) },
  { name: 'draining', when: ({ isDraining }) => isDraining, plan: () => ({ action: 'none' }) },
];

/** Pure and total: what to do for a pod of this node now. */
export function decidePod(seen: PodObservation): PodDecision {
  const rule = rules.find(({ when }) => when(seen));
  return rule ? { rule: rule.name, ...rule.plan(seen) } : { rule: 'new', action: 'start', requeueAfterMs: recheckMs };
}

/** Time from the first word to SIGKILL. */
export function graceMs(pod: Pod | undefined): number {
  const seconds = pod?.metadata.deletionGracePeriodSeconds ?? pod?.spec.terminationGracePeriodSeconds ?? 30;
  return Math.max(0, seconds) * 1000;
}

function isFinal(pod: Pod | undefined): boolean {
  return pod?.status?.phase === 'Succeeded' || pod?.status?.phase === 'Failed';
}
