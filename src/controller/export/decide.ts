import { findCondition, type Pod } from '../../api/index.ts';
import { type Decided, decideBy, longerPause, type ObjectEvent, ruleTable, type Step } from '../../reconcile/index.ts';
import { goneOrUnclearTable } from '../reconciling.ts';
import type { ExportObservation, PresentExport } from './observation.ts';
import { certificateText, certificateTimes } from './pod.ts';
import type { Said } from './status.ts';

export interface ExportStepArgs {
  createService: object;
  createToken: object;
  /** Claims of what a snapshot has. */
  createClaims: object;
  createManifest: object;
  createPod: object;
  /** The secret that the pod waits for. */
  createCertificate: object;
  deletePod: { readonly pod: Pod };
  deleteExport: object;
}

export interface ExportPlan {
  readonly steps: readonly Step<ExportStepArgs>[];
  readonly events?: readonly ObjectEvent[];
  readonly requeueAfterMs?: number;
  readonly says?: Said;
}

export interface ExportDecision extends Decided, ExportPlan {
  readonly steps: readonly Step<ExportStepArgs>[];
}

type Facts = PresentExport;

const lookMs = 5_000;
/** What it waits for wakes it, but for pods of others. */
const pendingPauses = { firstMs: lookMs, longestMs: 60_000 };
/** Its log can be read for so long, and one that fails at once is not made in a loop. */
const failedStayMs = 30_000;

const leftMs = ({ expiresAt, now }: Facts) => Math.max(0, expiresAt.getTime() - now.getTime());
const phaseOf = ({ pod }: Facts) => pod?.status?.phase ?? 'Pending';
const isPodReady = ({ pod }: Facts) =>
  phaseOf({ pod } as Facts) === 'Running' && findCondition(pod?.status?.conditions, 'Ready')?.status === 'True';
const services = ({ service }: Facts): Step<ExportStepArgs>[] => (service ? [] : [{ step: 'createService' }]);

/** Why it cannot be exported now, though its source is whole. */
function obstacleOf({ source, users, access }: Facts): { reason: string; message: string } | undefined {
  if (source.problem) return source.problem;
  const [user] = users;
  if (user !== undefined) {
    const claims = source.volumes.map(({ claim }) => claim.metadata.name).join(', ');
    return { reason: 'InUse', message: `PersistentVolumeClaim ${claims} is in use by pod ${users.join(', ')}` };
  }
  return access.problem === undefined ? undefined : { reason: 'Initializing', message: access.problem };
}

const unavailable = (facts: Facts) => obstacleOf(facts) !== undefined;

function waiting(facts: Facts, rule: string, { reason, message }: { reason: string; message: string }): ExportPlan {
  return {
    steps: services(facts),
    says: { phase: facts.source.isSkipped ? 'Skipped' : 'Pending', ready: { status: 'False', reason, message } },
    requeueAfterMs: Math.min(leftMs(facts), longerPause(facts, rule, pendingPauses)),
  };
}

function replaced(pod: Pod, reason: string, message: string, says: Said): ExportPlan {
  return { steps: [{ step: 'deletePod', pod }], events: [{ type: 'Warning', reason, message }], says };
}

const notReady = (reason: string, message?: string): Said['ready'] => ({
  status: 'False',
  reason,
  ...(message !== undefined && { message }),
});

/** Since when the pod has failed; undefined: it has not. */
function failedMs({ pod, now }: Facts): number | undefined {
  if (pod?.status?.phase !== 'Failed') return undefined;
  const ended = pod.status.containerStatuses?.[0]?.state?.terminated?.finishedAt;
  const at = Date.parse(ended ?? pod.metadata.creationTimestamp ?? '');
  return Number.isNaN(at) ? failedStayMs : now.getTime() - at;
}

/** In the words of its scheduler or its kubelet. */
function podWords({ pod }: Facts): string {
  const waits = pod?.status?.containerStatuses?.[0]?.state?.waiting;
  const scheduled = findCondition(pod?.status?.conditions, 'PodScheduled');
  if (scheduled?.status === 'False') return scheduled.message ?? '';
  return waits?.message ?? waits?.reason ?? '';
}

function endWords({ pod }: Facts): string {
  const ended = pod?.status?.containerStatuses?.[0]?.state?.terminated;
  const why = ended?.message?.trim() || (ended && `exit code ${ended.exitCode}`) || pod?.status?.message;
  return `Exporter pod ${pod?.metadata.name} is in phase ${pod?.status?.phase}${why ? `: ${why}` : ''}`;
}

const presentTable = ruleTable<Facts, ExportPlan>(
  [
    {
      name: 'deleted',
      why: 'The export is being deleted, and all that was made for it goes with it.',
      when: ({ vmExport }) => vmExport.metadata.deletionTimestamp !== undefined,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'expired',
      why: 'The time that the export was made for is over: it is deleted with all that was made for it.',
      when: (facts) => leftMs(facts) === 0,
      plan: () => ({ steps: [{ step: 'deleteExport' }] }),
    },
    {
      name: 'name-occupied',
      why: 'A pod or service of the name that the export needs belongs to another.',
      when: ({ occupied }) => occupied !== undefined,
      plan: (facts) => waiting(facts, 'name-occupied', { reason: 'Initializing', message: facts.occupied ?? '' }),
    },
    {
      name: 'pod-ending',
      why: 'The exporter pod is being deleted; another one can be made when it is gone.',
      when: ({ pod }) => pod?.metadata.deletionTimestamp !== undefined,
      plan: (facts) => ({
        steps: services(facts),
        says: {
          phase: 'Pending',
          ready: notReady(obstacleOf(facts)?.reason ?? 'PodPending', obstacleOf(facts)?.message),
        },
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'source-lost',
      why: 'What is exported is not free any more, so the exporter pod is taken away until it is.',
      when: (facts) => facts.pod !== undefined && unavailable(facts),
      plan: (facts) => {
        const { reason, message } = obstacleOf(facts) ?? { reason: '', message: '' };
        const says: Said = { phase: facts.source.isSkipped ? 'Skipped' : 'Pending', ready: notReady(reason, message) };
        return facts.pod ? replaced(facts.pod, 'ExportPaused', message, says) : { steps: [], says };
      },
    },
    {
      name: 'pod-failed',
      why: 'The exporter pod has failed; it stays for half a minute, for who looks for the reason, and is made anew.',
      when: (facts) => (failedMs(facts) ?? failedStayMs) < failedStayMs,
      plan: (facts) => ({
        steps: services(facts),
        says: { phase: 'Pending', ready: notReady('Unknown', endWords(facts)) },
        requeueAfterMs: failedStayMs - (failedMs(facts) ?? 0),
      }),
    },
    {
      name: 'pod-ended',
      why: 'The exporter pod has ended, at its deadline or by a failure, and is made anew.',
      when: (facts) => phaseOf(facts) === 'Succeeded' || phaseOf(facts) === 'Failed',
      plan: (facts) => {
        const hasSucceeded = phaseOf(facts) === 'Succeeded';
        const says: Said = hasSucceeded
          ? { phase: 'Terminated', ready: notReady('PodCompleted', endWords(facts)) }
          : { phase: 'Pending', ready: notReady('Unknown', endWords(facts)) };
        return facts.pod ? replaced(facts.pod, 'ExporterPodFailedOrCompleted', endWords(facts), says) : { steps: [] };
      },
    },
    {
      name: 'certificate-times-changed',
      why: 'Certificates last for another time now, so the pod is made anew with another one.',
      when: ({ pod, certificates }) =>
        pod !== undefined && pod.metadata.annotations?.[certificateTimes] !== certificateText(certificates),
      plan: ({ pod }) => {
        const message = 'Exporter TLS certificate parameters updated';
        const says: Said = { phase: 'Pending', ready: notReady('PodPending', message) };
        return pod ? replaced(pod, 'CertificateParametersChanged', message, says) : { steps: [] };
      },
    },
    {
      name: 'ready',
      why: 'The exporter pod serves.',
      when: isPodReady,
      plan: (facts) => ({
        steps: services(facts),
        says: {
          phase: 'Ready',
          ready: { status: 'True', reason: 'PodReady' },
          ...(facts.pod && { serving: facts.pod }),
        },
        requeueAfterMs: leftMs(facts),
      }),
    },
    {
      name: 'pod-pending',
      why: 'The exporter pod is not at work yet; it may wait for its certificate, for its token or for its volumes.',
      when: (facts) => facts.pod !== undefined && phaseOf(facts) === 'Pending',
      plan: (facts) => ({
        steps: [...services(facts), { step: 'createToken' }, { step: 'createCertificate' }],
        says: { phase: 'Pending', ready: notReady('PodPending', podWords(facts)) },
        requeueAfterMs: Math.min(leftMs(facts), longerPause(facts, 'pod-pending', pendingPauses)),
      }),
    },
    {
      name: 'pod-starting',
      why: 'The exporter pod runs, and does not answer yet.',
      when: ({ pod }) => pod !== undefined,
      plan: (facts) => ({
        steps: services(facts),
        says: { phase: 'Pending', ready: notReady('Unknown', 'the exporter pod does not answer yet') },
        requeueAfterMs: leftMs(facts),
      }),
    },
    {
      name: 'nothing-to-export',
      why: 'There is nothing that could be exported, so no pod is made.',
      when: ({ source }) => source.isSkipped,
      plan: (facts) =>
        waiting(facts, 'nothing-to-export', facts.source.problem ?? { reason: 'Initializing', message: '' }),
    },
    {
      name: 'source-not-ready',
      why: 'What is exported is not free, not whole, or not there yet.',
      when: unavailable,
      plan: (facts) => waiting(facts, 'source-not-ready', obstacleOf(facts) ?? { reason: 'Initializing', message: '' }),
    },
    {
      name: 'claims-missing',
      why: 'Claims are made of what the snapshot has.',
      when: ({ source }) => source.wanted.length > 0,
      plan: (facts) => ({
        steps: [...services(facts), { step: 'createClaims' }],
        says: { phase: 'Pending', ready: notReady('Initializing', 'claims are made of the snapshot') },
        requeueAfterMs: lookMs,
      }),
    },
  ],
  {
    name: 'pod-missing',
    why: 'What is exported is free: the exporter pod is made, with its token and certificate.',
    plan: (facts) => ({
      steps: [
        ...services(facts),
        { step: 'createToken' },
        ...(facts.source.vm ? [{ step: 'createManifest' } as const] : []),
        { step: 'createPod' },
        { step: 'createCertificate' },
      ],
      says: { phase: 'Pending', ready: notReady('PodPending') },
      requeueAfterMs: lookMs,
    }),
  },
);

const otherTable = goneOrUnclearTable<Exclude<ExportObservation, Facts>, ExportPlan>({
  object: 'export',
  asked: 'what can be exported',
  plan: (nothing) => nothing,
});

export const exportRules = [...presentTable.rules, ...otherTable.rules];

/** Pure and total. */
export function decideExport(observation: ExportObservation): ExportDecision {
  return observation.kind === 'present' ? decideBy(presentTable, observation) : decideBy(otherTable, observation);
}
