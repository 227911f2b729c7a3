import { binaryQuantity, type PersistentVolume, parseQuantity } from '../../api/index.ts';
import { decideBy, type ObjectEvent, ruleTable } from '../../reconcile/index.ts';
import { type ClaimFacts, refusalOf, whyNotFor } from './claim-facts.ts';
import { boundHandle, driver, finalizers, ownHandle } from './driver.ts';
import { has, type StorageDecision, type StoragePlan } from './loop.ts';
import { bytesOf, wantedBytes } from './sizes.ts';

export interface ClaimStepArgs {
  /** So that the claim stays as long as a pod has it. */
  protect: object;
  useClass: { readonly name: string };
  /** Makes the data, then the volume. */
  provision: object;
  /** A free volume becomes this claim's, and no other's. */
  reserve: { readonly volume: PersistentVolume };
  bind: object;
  grow: { readonly sizeBytes: number };
  lose: { readonly problem: string };
  /** What a claim had that was never bound. */
  discard: object;
  release: object;
}

type Plan = StoragePlan<ClaimStepArgs>;

/** What no event announces: the data of a claim is gone, or there is room again. */
const lookMs = 60_000;

/** On claims that are to be filled before a pod asks for them (`virtctl image-upload --force-bind`); CDI has it, whatever its value. */
const bindImmediately = 'cdi.kubevirt.io/storage.bind.immediate.requested';

const warning = (reason: string, message: string): ObjectEvent => ({ type: 'Warning', reason, message });
const normal = (reason: string, message: string): ObjectEvent => ({ type: 'Normal', reason, message });
const failed = (message: string): Plan => ({
  steps: [],
  events: [warning('ProvisioningFailed', message)],
  requeueAfterMs: lookMs,
});

const isBound = ({ claim }: ClaimFacts) => Boolean(claim?.spec.volumeName) && claim?.status?.phase === 'Bound';
const isLost = ({ claim }: ClaimFacts) => claim?.status?.phase === 'Lost';
const isDeleted = ({ claim }: ClaimFacts) => claim?.metadata.deletionTimestamp !== undefined;

/** Why no guest starts with a bound claim, in words. */
export function lossOf({ claim, volume, dataProblem }: ClaimFacts): string | undefined {
  if (!claim?.spec.volumeName) return undefined;
  if (!volume) return `its volume ${claim.spec.volumeName} does not exist any more`;
  // Of another driver it is another one's matter.
  const bound = ownHandle(volume) === undefined ? undefined : boundHandle(claim, volume);
  if (bound && 'problem' in bound) return `it ${bound.problem}`;
  return dataProblem && `its data ${dataProblem}`;
}

/** What claim and volume are to say. A claim may have got a volume that is larger than it asked for. */
function grownBytes({ claim, volume }: ClaimFacts): number {
  return Math.max(claim ? wantedBytes(claim) : 0, volume ? bytesOf(volume) : 0);
}

/** By how much one of them says less. The claim is written last, so that a node that ends in between leaves it behind its volume. */
function missingBytes(facts: ClaimFacts): number {
  const { claim, volume } = facts;
  if (!claim || !volume || ownHandle(volume) === undefined) return 0;
  const saysItself = parseQuantity(claim.status?.capacity?.storage) ?? 0;
  return grownBytes(facts) - Math.min(bytesOf(volume), saysItself);
}

/** With the protection, which comes before any data. */
function withProtection({ claim }: ClaimFacts, plan: Plan): Plan {
  if (!claim || has(claim, finalizers.claim)) return plan;
  return { ...plan, steps: [{ step: 'protect' }, ...plan.steps] };
}

const table = ruleTable<ClaimFacts, Plan>(
  [
    {
      name: 'claim-gone',
      why: 'There is no such claim.',
      when: ({ claim }) => claim === undefined,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'claim-held',
      why: 'The claim is being deleted, and stays until the pods that have it have ended.',
      when: (facts) => isDeleted(facts) && facts.users.length > 0,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'claim-let-go',
      why: 'The claim is being deleted and no pod has it: it goes, and what becomes of its volume is the volume’s matter.',
      when: isDeleted,
      plan: ({ claim }) => ({
        steps: [...(claim?.spec.volumeName ? [] : [{ step: 'discard' } as const]), { step: 'release' }],
      }),
    },
    {
      name: 'claim-lost',
      why: 'The data of the claim, or its volume, is gone or another claim’s: no guest starts with it until it is back.',
      when: (facts) => (isBound(facts) || isLost(facts)) && lossOf(facts) !== undefined,
      plan: (facts) => ({
        steps: isLost(facts) ? [] : [{ step: 'lose', problem: lossOf(facts) ?? '' }],
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'claim-grows',
      why: 'The claim asks for more than its volume has, or than it says itself: the disk is made larger, and a guest that runs is told.',
      when: (facts) => isBound(facts) && missingBytes(facts) > 0,
      plan: (facts) => withProtection(facts, { steps: [{ step: 'grow', sizeBytes: grownBytes(facts) }] }),
    },
    {
      name: 'claim-bound',
      why: 'The claim has its volume, and the volume its data.',
      when: isBound,
      plan: (facts) => withProtection(facts, { steps: [], requeueAfterMs: lookMs }),
    },
    {
      name: 'source-besides-volume',
      why: 'The claim wants a volume by its name, and one that begins with other data.',
      when: ({ claim, source }) => Boolean(claim?.spec.volumeName) && source.kind === 'wrong',
      plan: ({ source }) => failed(source.kind === 'wrong' ? source.why : ''),
    },
    {
      name: 'volume-missing',
      why: 'The claim wants a volume by its name, which does not exist yet.',
      when: ({ claim, volume }) => Boolean(claim?.spec.volumeName) && volume === undefined,
      plan: ({ claim }) => ({
        steps: [],
        events: [warning('FailedBinding', `volume ${claim?.spec.volumeName} does not exist`)],
      }),
    },
    {
      name: 'volume-does-not-fit',
      why: 'The claim wants a volume by its name that it cannot have.',
      when: ({ claim, volume }) =>
        claim !== undefined && volume !== undefined && whyNotFor(volume, claim) !== undefined,
      plan: ({ claim, volume }) => ({
        steps: [],
        events:
          claim && volume
            ? [warning('FailedBinding', `volume ${volume.metadata.name} ${whyNotFor(volume, claim)}`)]
            : [],
      }),
    },
    {
      name: 'volume-there',
      why: 'There is a volume for the claim, which is bound to it.',
      when: ({ volume, dataProblem }) => volume !== undefined && dataProblem === undefined,
      plan: (facts) =>
        withProtection(facts, {
          steps: [...(facts.volume ? [{ step: 'reserve', volume: facts.volume } as const] : []), { step: 'bind' }],
        }),
    },
    {
      name: 'volume-without-data',
      why: 'There is a volume for the claim, without its data.',
      when: ({ volume }) => volume !== undefined,
      plan: ({ volume, dataProblem }) => ({
        steps: [],
        events: [warning('FailedBinding', `volume ${volume?.metadata.name}: its data ${dataProblem}`)],
        requeueAfterMs: lookMs,
      }),
    },
    {
      name: 'class-by-default',
      why: 'The claim names no storage class and gets the default one.',
      when: ({ claim, defaultClass }) => claim?.spec.storageClassName === undefined && defaultClass !== undefined,
      plan: ({ defaultClass = '' }) => ({ steps: [{ step: 'useClass', name: defaultClass }] }),
    },
    {
      name: 'volume-free',
      why: 'There is a free volume that has all that the claim asks for.',
      when: ({ candidate }) => candidate !== undefined,
      plan: (facts) =>
        withProtection(facts, {
          steps: facts.candidate ? [{ step: 'reserve', volume: facts.candidate }, { step: 'bind' }] : [],
        }),
    },
    {
      name: 'no-class',
      why: 'The claim is of no storage class, so that no volume is made for it, and there is none that fits.',
      when: ({ claim }) => !claim?.spec.storageClassName,
      plan: () => ({
        steps: [],
        events: [normal('FailedBinding', 'no persistent volumes available for this claim and no storage class is set')],
      }),
    },
    {
      name: 'class-unknown',
      why: 'There is no storage class of the name that the claim gives.',
      when: ({ storageClass }) => storageClass === undefined,
      plan: ({ claim, defaultClass }) => {
        const advice = defaultClass ? `use ${defaultClass}, or create it` : 'create it';
        return failed(
          `storageclass.storage.k8s.io ${JSON.stringify(claim?.spec.storageClassName)} not found: ${advice}`,
        );
      },
    },
    {
      name: 'class-of-others',
      why: 'The storage class has a provisioner that does not run here.',
      when: ({ storageClass }) => storageClass?.provisioner !== driver,
      plan: ({ storageClass }) => {
        const of = `storage class ${storageClass?.metadata.name} is of the provisioner ${storageClass?.provisioner}`;
        return failed(`${of}, which this node does not have: use a class of ${driver}`);
      },
    },
    {
      name: 'claim-refused',
      why: 'The claim asks for something that this node cannot give.',
      when: (facts) => refusalOf(facts) !== undefined,
      plan: (facts) => failed(refusalOf(facts) ?? ''),
    },
    {
      name: 'source-awaited',
      why: 'The claim is to begin with data that is not there yet.',
      when: ({ source }) => source.kind === 'waits',
      plan: ({ source }) => failed(source.kind === 'waits' ? source.why : ''),
    },
    {
      name: 'consumer-awaited',
      why: 'The storage class makes volumes for claims that a pod asks for, and none does.',
      when: ({ claim, storageClass, users }) =>
        storageClass?.volumeBindingMode === 'WaitForFirstConsumer' &&
        users.length === 0 &&
        claim?.metadata.annotations?.[bindImmediately] === undefined,
      plan: () => ({
        steps: [],
        events: [normal('WaitForFirstConsumer', 'waiting for first consumer to be created before binding')],
      }),
    },
  ],
  {
    name: 'volume-wanted',
    why: 'A volume is made for the claim and bound to it.',
    plan: (facts) => withProtection(facts, { steps: [{ step: 'provision' }, { step: 'bind' }] }),
  },
);

/** Pure and total. */
export const claimRules = table.rules;
export const decideClaim = (facts: ClaimFacts): StorageDecision<ClaimStepArgs> => decideBy(table, facts);

/** What the maker of a large claim has to know: its disk takes room only as the guest writes. */
export function roomWords(sizeBytes: number, freeBytes: number): string {
  if (sizeBytes <= freeBytes) return '';
  const free = binaryQuantity(Math.floor(freeBytes / 2 ** 20) * 2 ** 20);
  return ` of ${binaryQuantity(sizeBytes)}; only ${free} are free now, and a guest that writes more than that gets errors`;
}
