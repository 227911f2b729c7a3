import { annotations as known } from '../../api/index.ts';
import { backoffDelayMs } from '../../base/index.ts';
import { type Decided, decideBy, type ObjectEvent, ruleTable, type Step } from '../../reconcile/index.ts';
import { type FillFacts, isFilled, isFinal } from './observe.ts';
import { annotations, doingOf, doings, sizeOf, volumeNameOf } from './wish.ts';

/** What is done about a DataVolume, or a claim that waits for an upload, besides writing its status. */
export interface FillStepArgs {
  /** Ends what fills it. */
  forget: object;
  /** The claim was made by others, who say that it is this DataVolume's: it becomes so. */
  adoptClaim: object;
  createClaim: { readonly sizeBytes: number | undefined };
  startFilling: object;
  /** Marks the claim as one that an upload may come for. */
  awaitUpload: object;
  /** Marks the claim as filled: from now on it is a guest's. */
  markFilled: object;
}

/** What is said of it; undefined: its status stays. */
export interface Said {
  readonly phase: string;
  readonly progress?: string;
  /** Why it does not go on, or failed. */
  readonly problem?: { readonly reason: string; readonly message: string };
  /** Something works at it now. */
  readonly isRunning?: true;
  readonly isBound: boolean;
}

export interface FillPlan {
  readonly steps: readonly Step<FillStepArgs>[];
  readonly says?: Said;
  readonly events?: readonly ObjectEvent[];
  readonly requeueAfterMs?: number;
}

export interface FillDecision extends Decided, FillPlan {
  readonly steps: readonly Step<FillStepArgs>[];
}

/** What no event of the claim announces: that pods have left one which is to be copied, or a class that was made. */
const lookMs = 5_000;
const backoff = { baseMs: 2_000, maxMs: 300_000 };
/** Trying again gives the same. */
const forGood: ReadonlySet<string> = new Set([
  'DISK_REFUSED',
  'DOWNLOAD_REFUSED',
  'CHECKSUM_DIFFERS',
  'IMAGE_MISSING',
  'IMAGE_INVALID',
]);

const isDeleted = ({ dataVolume, claim }: FillFacts) =>
  Boolean(dataVolume ? dataVolume.metadata.deletionTimestamp : claim?.metadata.deletionTimestamp);

function isOfOther({ dataVolume, claim }: FillFacts): boolean {
  if (!dataVolume || !claim) return false;
  const owner = claim.metadata.ownerReferences?.find(({ controller }) => controller);
  return owner?.uid !== dataVolume.metadata.uid;
}

const waiting = (reason: string, message: string, isBound = false): FillPlan => ({
  steps: [],
  says: { phase: 'Pending', isBound, problem: { reason, message } },
});

/** What it was is forgotten when it is seen to be final: a cache that is behind would have it filled again. */
const failed = (message: string): FillPlan => ({
  steps: [],
  says: { phase: 'Failed', isBound: false, problem: { reason: 'Error', message } },
});

function shown(share: number | undefined): string {
  return share === undefined ? 'N/A' : `${(share * 100).toFixed(2)}%`;
}

const isCopy = ({ wish }: FillFacts) => wish?.kind === 'clone' || wish?.kind === 'snapshot';
const isPopulated = ({ wish }: FillFacts) => wish?.kind === 'populated';
/** Storage itself puts the disk in its place, when it makes the volume. */
const isMadeFull = (facts: FillFacts) => isCopy(facts) || isPopulated(facts);

const awaits = ({ place }: FillFacts) => (place.kind === 'unbound' ? place.awaits.kind : undefined);

/** What a user has to do before the claim gets a volume; empty: nothing. */
function whyOf({ place }: FillFacts): string {
  return place.kind === 'unbound' && 'why' in place.awaits ? place.awaits.why : '';
}

const isUpload = ({ wish }: FillFacts) => wish?.kind === 'upload';

/** What is left of the pause after a failure. */
function pauseMs({ fill, failures, nowMs }: FillFacts): number {
  return fill.kind === 'failed' ? fill.atMs + backoffDelayMs(failures, backoff) - nowMs : 0;
}

function inProgress({ wish, fill }: FillFacts): string {
  const { queued, running } = doings[doingOf(wish ?? { kind: 'blank' })];
  return fill.kind === 'queued' ? queued : running;
}

const table = ruleTable<FillFacts, FillPlan>(
  [
    {
      name: 'nothing-to-fill',
      why: 'There is no DataVolume, and no claim that waits for an upload.',
      when: ({ dataVolume, wish }) => !dataVolume && wish === undefined,
      plan: () => ({ steps: [{ step: 'forget' }] }),
    },
    {
      name: 'deleted',
      why: 'It is being deleted, so what fills it ends.',
      when: isDeleted,
      plan: () => ({ steps: [{ step: 'forget' }] }),
    },
    {
      name: 'population-awaited',
      why: 'A restore makes the claim of this DataVolume: nothing else fills it.',
      when: ({ dataVolume, claim }) =>
        claim === undefined &&
        dataVolume?.metadata.annotations?.[known.prePopulated] !== undefined &&
        !isFinal(dataVolume),
      plan: () => ({ ...waiting('Pending', 'a restore makes the claim'), requeueAfterMs: lookMs }),
    },
    {
      name: 'final',
      why: 'It has succeeded or failed, and nothing more is done about it.',
      when: ({ dataVolume, claim }) => (dataVolume ? isFinal(dataVolume) : isFilled(claim)),
      plan: () => ({ steps: [{ step: 'forget' }] }),
    },
    {
      name: 'refused',
      why: 'It asks for something that this node cannot do.',
      when: ({ wish }) => wish?.kind === 'refused',
      plan: ({ wish }) => failed(wish?.kind === 'refused' ? wish.why : ''),
    },
    {
      name: 'reference-missing',
      why: 'The DataSource that it names does not exist yet.',
      when: ({ wish }) => wish?.kind === 'reference',
      plan: ({ wish }) => {
        const name = wish?.kind === 'reference' ? `${wish.namespace}/${wish.name}` : '';
        return { ...waiting('SourceNotReady', `DataSource ${name} does not exist`), requeueAfterMs: lookMs };
      },
    },
    {
      name: 'snapshot-elsewhere',
      why: 'Storage makes a volume of a snapshot in the same namespace only.',
      when: ({ wish, dataVolume }) => wish?.kind === 'snapshot' && wish.namespace !== dataVolume?.metadata.namespace,
      plan: () => failed('spec.source.snapshot.namespace: the snapshot has to be in the namespace of the DataVolume'),
    },
    {
      name: 'clone-elsewhere',
      why: 'Who may make a DataVolume here may not read the claims of another namespace by it, and nobody knows who asked.',
      when: ({ wish, dataVolume }) => wish?.kind === 'clone' && wish.namespace !== dataVolume?.metadata.namespace,
      plan: () =>
        failed(
          'spec.source.pvc.namespace: the claim has to be in the namespace of the DataVolume; bring the disk by a file (virt-node image add), and use source.registry',
        ),
    },
    {
      name: 'size-unknown',
      why: 'It is to be as large as what it is a copy of, which does not exist yet.',
      when: ({ claim, wish, sourceBytes, dataVolume }) =>
        !claim && wish?.kind === 'clone' && sourceBytes === undefined && sizeOf(dataVolume) === undefined,
      plan: ({ wish }) => {
        const name = wish?.kind === 'clone' ? `${wish.namespace}/${wish.name}` : '';
        const message = `claim ${name}, which is to be copied, does not exist`;
        return { ...waiting('CloneSourceNotReady', message), requeueAfterMs: lookMs };
      },
    },
    {
      name: 'size-missing',
      why: 'Nothing says how large it is to be: of a snapshot that is not read here.',
      when: ({ claim, sourceBytes, dataVolume }) =>
        !claim && sourceBytes === undefined && sizeOf(dataVolume) === undefined,
      plan: () =>
        failed('spec.storage.resources.requests.storage: say how large it is to be, at the least as the snapshot'),
    },
    {
      name: 'copy-into-named-volume',
      why: 'A copy gets a volume that is made for it: into one that exists nothing is copied.',
      when: (facts) => !facts.claim && isCopy(facts) && volumeNameOf(facts.dataVolume) !== undefined,
      plan: ({ dataVolume }) =>
        failed(
          `volumeName ${volumeNameOf(dataVolume)}: a copy gets a volume of its own: make the DataVolume without it`,
        ),
    },
    {
      name: 'claim-wanted',
      why: 'Its claim is made.',
      when: ({ claim }) => claim === undefined,
      plan: ({ sourceBytes }) => ({
        steps: [{ step: 'createClaim', sizeBytes: sourceBytes }],
        says: { phase: 'Pending', isBound: false },
      }),
    },
    {
      name: 'populated-by-others',
      why: 'A restore made the claim for this DataVolume, which takes it over.',
      when: (facts) => isPopulated(facts) && isOfOther(facts) && !facts.claim?.metadata.deletionTimestamp,
      plan: () => ({ steps: [{ step: 'adoptClaim' }], requeueAfterMs: lookMs }),
    },
    {
      name: 'claim-of-others',
      why: 'There is a claim of its name that it did not make, and that nobody may overwrite.',
      when: isOfOther,
      plan: ({ key }) => {
        const message = `claim ${key} exists and is not of this DataVolume: delete it, or choose another name`;
        return {
          ...waiting('ErrClaimNotValid', message),
          events: [{ type: 'Warning', reason: 'ErrClaimNotValid', message }],
        };
      },
    },
    {
      name: 'filled',
      why: 'The disk is in its place, and the claim a guest’s.',
      when: ({ claim }) => isFilled(claim),
      plan: () => ({ steps: [{ step: 'forget' }], says: { phase: 'Succeeded', progress: '100.0%', isBound: true } }),
    },
    {
      name: 'claim-wrong',
      why: 'The claim cannot have a volume here.',
      when: ({ place }) => place.kind === 'wrong',
      plan: ({ place }) => ({
        ...waiting('ErrClaimNotValid', place.kind === 'wrong' ? place.why : ''),
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'consumer-awaited',
      why: 'The claim is of a class whose volumes are made when a pod asks for them.',
      when: (facts) => awaits(facts) === 'consumer',
      plan: () => ({ steps: [], requeueAfterMs: lookMs, says: { phase: 'WaitForFirstConsumer', isBound: false } }),
    },
    {
      name: 'source-awaited',
      why: 'What is to be copied is not there, not filled, or in use.',
      when: (facts) => awaits(facts) === 'source',
      plan: ({ place }) => {
        const awaited = place.kind === 'unbound' ? place.awaits : undefined;
        const { isInUse, why } = awaited?.kind === 'source' ? awaited : { isInUse: false, why: '' };
        const reason = isInUse ? 'CloneSourceInUse' : 'CloneSourceNotReady';
        return {
          steps: [],
          requeueAfterMs: lookMs,
          events: [{ type: 'Warning', reason, message: why }],
          says: { phase: 'CloneScheduled', isBound: false, problem: { reason, message: why } },
        };
      },
    },
    {
      name: 'source-refused',
      why: 'What is to be copied cannot be the begin of this claim.',
      when: (facts) => awaits(facts) === 'refused',
      plan: (facts) => failed(whyOf(facts)),
    },
    {
      name: 'copy-under-way',
      why: 'Storage copies the disk, and binds the claim afterwards.',
      when: (facts) => awaits(facts) === 'nothing' && isMadeFull(facts),
      plan: () => ({
        steps: [],
        requeueAfterMs: lookMs,
        says: { phase: 'CloneInProgress', progress: 'N/A', isRunning: true, isBound: false },
      }),
    },
    {
      name: 'claim-unbound',
      why: 'The claim has no volume yet.',
      when: ({ place }) => place.kind === 'unbound',
      plan: (facts) => ({
        ...waiting('Pending', whyOf(facts) || `PVC ${facts.claim?.metadata.name} Pending`),
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'claim-without-source',
      why: 'An older version of the node has made the claim, and would have copied the disk itself.',
      when: (facts) => isCopy(facts) && facts.claim?.spec.dataSource === undefined,
      plan: ({ claim }) =>
        failed(
          `claim ${claim?.metadata.name} was made empty by an older version: delete the DataVolume, and make it anew`,
        ),
    },
    {
      name: 'made-full',
      why: 'Storage made the volume of a claim or a snapshot, so that it is filled already.',
      when: isMadeFull,
      plan: () => ({ steps: [{ step: 'markFilled' }] }),
    },
    {
      name: 'whole',
      why: 'The disk is in its place, which the claim shall say.',
      when: ({ fill }) => fill.kind === 'filled',
      plan: () => ({ steps: [{ step: 'markFilled' }] }),
    },
    {
      name: 'under-way',
      why: 'The claim is being filled.',
      when: ({ fill }) => fill.kind === 'running' || fill.kind === 'queued',
      plan: (facts) => ({
        steps: [],
        says: {
          phase: inProgress(facts),
          progress: shown(facts.fill.kind === 'running' ? facts.fill.share : undefined),
          isRunning: true,
          isBound: true,
        },
      }),
    },
    {
      name: 'upload-awaited',
      why: 'An upload is waited for; after one that failed another one may come.',
      when: isUpload,
      plan: ({ fill, claim }) => ({
        steps: claim?.metadata.annotations?.[annotations.podReady] === 'true' ? [] : [{ step: 'awaitUpload' }],
        says: {
          phase: 'UploadReady',
          progress: 'N/A',
          isBound: true,
          ...(fill.kind === 'failed'
            ? { problem: { reason: 'Error', message: `the last upload failed: ${fill.message}` } }
            : { isRunning: true as const }),
        },
      }),
    },
    {
      name: 'failed',
      why: 'What it is to be filled with cannot be a disk of its claim, and trying again would give the same.',
      when: ({ fill }) => fill.kind === 'failed' && forGood.has(fill.code),
      plan: ({ fill }) => failed(fill.kind === 'failed' ? fill.message : ''),
    },
    {
      name: 'backing-off',
      why: 'The last try failed; the next one waits, longer after each failure.',
      when: (facts) => pauseMs(facts) > 0,
      plan: (facts) => ({
        steps: [],
        requeueAfterMs: pauseMs(facts),
        says: {
          phase: inProgress(facts),
          progress: 'N/A',
          isBound: true,
          problem: { reason: 'Error', message: facts.fill.kind === 'failed' ? facts.fill.message : '' },
        },
      }),
    },
  ],
  {
    name: 'to-be-filled',
    why: 'The claim is bound and empty: it is filled.',
    plan: () => ({ steps: [{ step: 'startFilling' }] }),
  },
);

export const fillRules = table.rules;

/** Pure and total. */
export const decideFill = (facts: FillFacts): FillDecision => decideBy(table, facts);
