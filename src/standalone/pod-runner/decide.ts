import type { Pod } from '../../api/index.ts';
import { type Decided, decideBy, ruleTable, type Step } from '../../reconcile/index.ts';
import type { OrphanSandbox, PodObservation, PresentPod } from './observe.ts';
import { hasObjects } from './volumes.ts';

/** What may be done about a pod besides writing its status. */
export interface PodStepArgs {
  startSandbox: { readonly pod: Pod };
  /** Asks process 1 to end, and remembers on disk since when the first time. `because`: an event says so. */
  terminateSandbox: { readonly because?: string };
  killSandbox: object;
  rotateLog: object;
  /** Asks the guest from now on, as the container's probes say. */
  keepProbes: { readonly pod: Pod };
  /** Brings the files of its secrets and config maps up to what those are by now. */
  refreshObjects: { readonly pod: Pod };
  /** Gives back the files of the host that the pod had. */
  releaseDisks: object;
  /** Writes the last status while the files still tell how the pod ended. */
  reportEnd: { readonly pod: Pod };
  removeFiles: object;
  /** Takes the pod out of the API. */
  deletePod: { readonly pod: Pod };
}

export type PodStep = Step<PodStepArgs>;

export interface PodPlan {
  readonly steps: readonly PodStep[];
  readonly requeueAfterMs?: number;
  /** There is no status to write after the steps: they wrote it, and the pod is on its way out of the API. */
  readonly leavesStatus?: true;
}

export interface PodDecision extends Decided, PodPlan {
  readonly steps: readonly PodStep[];
}

/** A sandbox that comes or goes is watched; this is for what a watch misses. */
const recheckMs = 1_000;
const upRecheckMs = 5_000;
/** A kubelet takes a minute. */
const objectsMs = 20_000;

const killing: PodPlan = { steps: [{ step: 'killSandbox' }], requeueAfterMs: recheckMs };

const isUp = ({ sandbox }: PodObservation) => sandbox.kind === 'running' || sandbox.kind === 'starting';
const isDeleted = ({ pod }: PresentPod) => Boolean(pod.metadata.deletionTimestamp);
/** Who was asked to end has to, also when it is forgotten why. */
const mustEnd = (seen: PresentPod) => seen.isDraining || isDeleted(seen) || seen.terminatingSinceMs !== undefined;
const isFinal = ({ pod }: PresentPod) => pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed';

/** What is left of the pod's grace period. */
function leftMs({ pod, now, terminatingSinceMs = now.getTime() }: PresentPod): number {
  return terminatingSinceMs + graceMs(pod) - now.getTime();
}

function hasProbes({ spec: { containers } }: Pod): boolean {
  return containers[0]?.readinessProbe !== undefined || containers[0]?.livenessProbe !== undefined;
}

/** Of a pod that was just started they are new. */
function areObjectsDue({ pod, sandbox, now, objectsAtMs }: PresentPod): boolean {
  if (sandbox.kind !== 'running' || !hasObjects(pod)) return false;
  return now.getTime() - (objectsAtMs ?? sandbox.startedAtMs) >= objectsMs;
}

/** QEMU has ended; the object of the pod may stay for long. */
function afterEnd({ sandbox }: PresentPod): PodPlan {
  const hasEnded = sandbox.kind === 'exited' || sandbox.kind === 'lost';
  return { steps: hasEnded ? [{ step: 'releaseDisks' }] : [] };
}

const presentRules = ruleTable<PresentPod, PodPlan>(
  [
    {
      name: 'grace-over',
      why: 'The pod has to end and its grace period is over, so its processes are killed.',
      when: (seen) => mustEnd(seen) && isUp(seen) && leftMs(seen) <= 0,
      plan: () => killing,
    },
    {
      name: 'must-end',
      why: 'The pod is deleted or the node stops, so the program of the pod is asked to end.',
      when: (seen) => mustEnd(seen) && seen.sandbox.kind === 'running' && seen.terminatingSinceMs === undefined,
      plan: (seen) => ({
        steps: [{ step: 'terminateSandbox' }],
        requeueAfterMs: Math.min(leftMs(seen), recheckMs),
      }),
    },
    {
      name: 'ending',
      why: 'The pod has to end and still runs: it is asked again, and waited for until its grace period is over.',
      when: (seen) => mustEnd(seen) && isUp(seen),
      plan: (seen) => ({
        // Whoever asked first may have died between noting it and asking.
        steps: seen.sandbox.kind === 'running' ? [{ step: 'terminateSandbox' }] : [],
        requeueAfterMs: Math.min(Math.max(leftMs(seen), 1), recheckMs),
      }),
    },
    {
      name: 'ended',
      why: 'The pod is deleted and nothing of it runs: its end is reported, its files go, and it is taken out of the API.',
      when: isDeleted,
      plan: ({ pod }) => ({
        steps: [
          { step: 'releaseDisks' },
          { step: 'reportEnd', pod },
          { step: 'removeFiles' },
          { step: 'deletePod', pod },
        ],
        leavesStatus: true,
      }),
    },
    {
      name: 'final-runs',
      why: 'The API has the pod as ended while its processes live, so they are killed.',
      when: (seen) => isFinal(seen) && isUp(seen),
      plan: () => killing,
    },
    {
      name: 'final',
      why: 'The pod has ended; its files stay until it is deleted.',
      when: isFinal,
      plan: afterEnd,
    },
    {
      name: 'unhealthy',
      why: 'The liveness probe failed too often, so the program of the pod is asked to end; a pod is never started a second time.',
      when: ({ sandbox, probes }) => sandbox.kind === 'running' && probes?.unhealthy !== undefined,
      plan: ({ probes }) => ({
        steps: [{ step: 'terminateSandbox', ...(probes?.unhealthy && { because: probes.unhealthy }) }],
        requeueAfterMs: recheckMs,
      }),
    },
    {
      name: 'up',
      why: 'The pod runs and shall run; only its log is kept from growing, its probes are kept going, and changed secrets are followed.',
      when: isUp,
      plan: (seen) => ({
        steps: [
          { step: 'rotateLog' },
          ...(seen.sandbox.kind === 'running' && hasProbes(seen.pod)
            ? [{ step: 'keepProbes', pod: seen.pod } as const]
            : []),
          ...(areObjectsDue(seen) ? [{ step: 'refreshObjects', pod: seen.pod } as const] : []),
        ],
        requeueAfterMs: upRecheckMs,
      }),
    },
    {
      name: 'down',
      why: 'The processes of the pod have ended, which is reported; a pod is never started a second time.',
      when: ({ sandbox }) => sandbox.kind !== 'none',
      plan: afterEnd,
    },
    {
      name: 'record-lost',
      why: 'The pod ran and nothing of it is left on disk: it is reported as failed, never started a second time.',
      when: ({ pod }) => pod.status?.phase === 'Running',
      plan: () => ({ steps: [] }),
    },
    {
      name: 'draining',
      why: 'The node is being stopped, so no pod is started.',
      when: ({ isDraining }) => isDraining,
      plan: () => ({ steps: [] }),
    },
  ],
  {
    name: 'new',
    why: 'The pod was never started here, so it is started.',
    plan: ({ pod }) => ({ steps: [{ step: 'startSandbox', pod }], requeueAfterMs: recheckMs }),
  },
);

const orphanRules = ruleTable<OrphanSandbox, PodPlan>(
  [
    {
      name: 'orphan-runs',
      why: 'The API has no such pod, but its processes live: they are killed.',
      when: isUp,
      plan: () => killing,
    },
  ],
  {
    name: 'orphan-files',
    why: 'The API has no such pod and nothing of it runs, so its files are deleted.',
    plan: () => ({ steps: [{ step: 'releaseDisks' }, { step: 'removeFiles' }] }),
  },
);

/** Of both kinds of observations; the names differ. */
export const podRules = [...orphanRules.rules, ...presentRules.rules];

/** Pure and total: what to do for a pod of this node now. */
export function decidePod(seen: PodObservation): PodDecision {
  return seen.kind === 'orphan' ? decideBy(orphanRules, seen) : decideBy(presentRules, seen);
}

/** Time from the first request to SIGKILL. */
function graceMs({ metadata, spec }: Pod): number {
  const seconds = metadata.deletionGracePeriodSeconds ?? spec.terminationGracePeriodSeconds ?? 30;
  return Math.max(0, seconds) * 1000;
}
