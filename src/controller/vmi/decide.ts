import {
  annotations,
  type ConditionState,
  findCondition,
  isBeingDeleted,
  isFinal,
  isMigrationTarget,
  labels,
  type Pod,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { errorCode, errorMessage } from '../../base/index.ts';
import { type Decided, decideBy, longerPause, type ObjectEvent, ruleTable } from '../../reconcile/index.ts';
import type { FillingState } from '../data-volumes/index.ts';
import type { KeptState } from '../kept-state/index.ts';
import { changedNetworks, networkInfoAnnotation, podFacts } from '../pod/index.ts';
import { once, unclearPauses } from '../reconciling.ts';
import { type EntryChanges, metadataChanges } from '../synced-metadata.ts';
import { isAdmitted } from './admit.ts';
import { type AttachmentPlan, planAttachments, type RenderAttachment } from './attachments.ts';
import { multusLeftMs } from './migration-required.ts';
import type { AbsentVmi, PresentVmi, UnclearVmi, VmiFacts, VmiObservation } from './observation.ts';
import type { VmiStep } from './steps.ts';

const unpausedCondition = 'kubevirt.io/virtual-machine-unpaused';
/** Each look is a LIST. The watch reports what becomes of pods in the cache; this is for what it missed. */
const cachedPodsMs = 60_000;
/** A pod that no watch ever shows has lost its labels, maybe like all others. */
const unseenPauses = { firstMs: 500, longestMs: cachedPodsMs };

export interface VmiPlan {
  readonly steps: readonly VmiStep[];
  readonly events?: readonly ObjectEvent[];
  readonly problem?: string;
  /** Of the condition that tells of the problem; `FailedCreate` unless given. */
  readonly problemReason?: string;
  readonly requeueAfterMs?: number;
  /** The VMI stays as it is: what is known of it is not enough to say how it shall be stored. */
  readonly leavesVmi?: true;
}

export interface VmiDecision extends Decided, VmiPlan {
  readonly steps: readonly VmiStep[];
  readonly problem?: string;
}

/** `reason`: of the condition that tells of the problem. */
type Rendered = { readonly pod: Pod } | { readonly problem: string; readonly reason?: string };

/** A VMI with the pod that it gets, made when a rule asks for it. */
interface Facts extends PresentVmi {
  readonly newPod: () => Rendered;
  readonly attachmentPlan: () => AttachmentPlan;
  readonly newTemporaryPod: () => Rendered;
  readonly newTriggers: (claims: readonly string[]) => readonly Pod[];
  /** Annotations by which Multus is asked for the pod's networks, as far as they are to be changed. */
  readonly networks: () => { readonly changed: Readonly<Record<string, string>> } | { readonly problem: string };
}

/** The phase is not decided here but projected, see project.ts. Upstream's order: pkg/virt-controller/watch/vmi/lifecycle.go. */
const presentRules = ruleTable<Facts, VmiPlan>(
  [
    {
      name: 'being-deleted',
      why: 'The VMI is deleted: its launcher pods are deleted, each with its grace period.',
      when: ({ vmi }) => isBeingDeleted(vmi),
      plan: (facts) => ({
        steps: deletionOf(facts.pods.filter((pod) => !isBeingDeleted(pod))),
        ...(facts.otherPods !== 'none' && untilShown(facts, 'being-deleted')),
      }),
    },
    {
      name: 'pod-not-shown-yet',
      why: 'The API server has a launcher pod of this VMI that the cache does not show yet, or only temporary ones: it is waited for.',
      when: ({ otherPods }) => otherPods !== 'none',
      plan: (facts) => ({ steps: [], ...untilShown(facts, 'pod-not-shown-yet') }),
    },
    {
      name: 'malformed',
      why: 'The VMI lacks what every launcher needs, so no launcher pod is made until it is changed.',
      when: ({ problem }) => problem !== undefined,
      plan: ({ vmi, problem = '' }) => cannotStart(vmi, `the VirtualMachineInstance cannot be started: ${problem}`),
    },
    {
      name: 'final',
      why: 'The VMI has ended; it is kept until it is deleted.',
      when: ({ vmi }) => isFinal(vmi),
      plan: ({ attachments, triggers }) => ({
        steps: attachmentDeletion(
          [...attachments, ...triggers].map(({ pod }) => pod).filter((pod) => !isBeingDeleted(pod)),
        ),
      }),
    },
    {
      name: 'not-admitted',
      why: 'Finalizer and defaults are stored before anything of the VMI exists outside of it.',
      when: ({ vmi }) => !isAdmitted(vmi),
      plan: () => ({ steps: [] }),
    },
    {
      name: 'guest-awaited',
      why: 'The VMI receives a guest of another VMI object: its pod is made by the migration that brings the guest, and by nothing else.',
      when: ({ vmi, pod }) => !pod && (awaitsGuest(vmi) || vmi.status?.phase === 'WaitingForSync'),
      plan: ({ config: { noDecentralisedMigration: obstacle } }) => ({
        steps: [],
        ...(obstacle !== undefined && {
          problem: `a guest of another VMI object is waited for (annotation ${annotations.createMigrationTarget}), and none comes: ${obstacle}`,
          problemReason: 'NoGuestComes',
        }),
      }),
    },
    {
      name: 'tsc-frequency-unsaid',
      why: 'The guest needs to be told the frequency of its TSC: it is stored before there is a pod, which asks for a node that can give it.',
      when: (facts) => wantsPod(facts) && facts.tscFrequency !== undefined,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'data-volume-failed',
      why: 'A DataVolume could not be filled: the VMI fails, so that who made it may try again.',
      when: (facts) => wantsPod(facts) && hasFilling(facts, 'failed'),
      plan: (facts) => cannotBeFilled(facts, 'failed'),
    },
    {
      name: 'data-volume-gone',
      why: 'A DataVolume is gone that was to fill a claim, and nobody knows whether it did: no guest starts with half of a disk.',
      when: (facts) => wantsPod(facts) && hasFilling(facts, 'missing'),
      plan: (facts) => cannotBeFilled(facts, 'missing'),
    },
    {
      name: 'data-not-whole',
      why: 'A DataVolume still fills a claim of the VMI: a guest that started now would find half of its disk.',
      when: (facts) => wantsPod(facts) && hasFilling(facts, 'filling', 'unread'),
      plan: (facts) => ({
        steps: [],
        ...(hasFilling(facts, 'unread') && { requeueAfterMs: longerPause(facts, 'data-not-whole', unclearPauses) }),
      }),
    },
    {
      name: 'state-claim-missing',
      why: 'The TPM or the EFI variables of the guest are to be kept: the claim for them is made before there is a pod.',
      when: (facts) => wantsPod(facts) && facts.keptState.kind === 'missing',
      plan: () => ({ steps: [{ step: 'createStateClaim' }] }),
    },
    {
      name: 'state-claim-unusable',
      why: 'The claim on which the TPM or the EFI variables of the guest are kept cannot be used: no guest starts without what it kept.',
      when: (facts) => wantsPod(facts) && facts.keptState.kind === 'unusable',
      plan: ({ vmi, keptState }) => cannotStart(vmi, whyOf(keptState), 'FailedBackendStorageProbe'),
    },
    {
      name: 'state-claim-unbound',
      why: 'The claim on which the TPM or the EFI variables of the guest are kept has no volume yet: it is waited for.',
      when: (facts) => wantsPod(facts) && facts.keptState.kind === 'waits',
      plan: ({ keptState }) => ({ steps: [], problem: whyOf(keptState), problemReason: 'BackendStorageNotReady' }),
    },
    {
      name: 'consumer-awaited',
      why: 'A claim is filled when a pod that uses it has a node: a temporary one with the wishes of the launcher pod asks for it.',
      when: (facts) => wantsPod(facts) && hasFilling(facts, 'awaits-consumer'),
      plan: (facts) => {
        if (facts.temporaryPod) return { steps: [] };
        const made = facts.newTemporaryPod();
        if ('problem' in made) return cannotStart(facts.vmi, made.problem, made.reason);
        return { steps: [{ step: 'createPod', pod: made.pod, leftovers: [] }] };
      },
    },
    {
      name: 'pod-cannot-be-made',
      why: 'No launcher pod can be made from this VMI and the configuration; it is tried again when either changes.',
      when: (facts) => wantsPod(facts) && 'problem' in facts.newPod(),
      plan: (facts) => {
        const made = facts.newPod();
        return 'problem' in made ? cannotStart(facts.vmi, made.problem, made.reason) : { steps: [] };
      },
    },
    {
      name: 'no-pod-yet',
      why: 'The VMI has no launcher pod yet, so one is made.',
      when: wantsPod,
      plan: ({ newPod, foreignPods }) => {
        const made = newPod();
        const leftovers = foreignPods.filter((pod) => !isBeingDeleted(pod));
        return { steps: 'pod' in made ? [{ step: 'createPod', pod: made.pod, leftovers }] : [] };
      },
    },
    {
      name: 'pod-lost',
      why: 'The launcher pod is gone, and the state of the guest with it: the VMI has failed, no second pod is made.',
      when: ({ pod }) => !pod,
      plan: () => ({ steps: [] }),
    },
    {
      name: 'network-cannot-be-plugged',
      why: 'The networks of the guest have changed to what Multus cannot be asked for: its pod keeps those that it has until that is corrected.',
      when: (facts) => 'problem' in facts.networks(),
      plan: (facts) => {
        const networks = facts.networks();
        return { ...withAttachments(facts), ...('problem' in networks && { problem: networks.problem }) };
      },
    },
    {
      name: 'volumes-to-attach',
      why: 'Volumes are to be plugged into the guest: an attachment pod brings their claims to its node.',
      when: ({ attachmentPlan }) => attachmentPlan().wanted !== undefined,
      plan: withAttachments,
    },
    {
      name: 'plugged-consumer-awaited',
      why: 'A claim that is to be plugged in is filled when a pod that uses it has a node: a pod that does nothing else asks for it.',
      when: ({ attachmentPlan }) => attachmentPlan().awaiting.length > 0,
      plan: withAttachments,
    },
    {
      name: 'attachment-cannot-be-made',
      why: 'Volumes are to be plugged into the guest, but no attachment pod can be made yet; it is tried again when the VMI changes.',
      when: ({ attachmentPlan }) => attachmentPlan().problem !== undefined,
      plan: withAttachments,
    },
    {
      name: 'attachments-superseded',
      why: 'Attachment pods hold claims that the guest no longer uses, or that another pod holds now: they are deleted.',
      when: ({ attachmentPlan }) => attachmentPlan().superseded.length > 0,
      plan: withAttachments,
    },
    {
      name: 'multus-awaited',
      why: 'The guest’s pod lacks a network; Multus gets a moment to change that, and then the guest is to migrate to a pod that has it.',
      when: (facts) => multusLeftMs(facts) !== undefined,
      plan: (facts) => ({ steps: podSteps(facts), requeueAfterMs: multusLeftMs(facts) ?? 0 }),
    },
    {
      name: 'plugged-consumer-failed',
      why: 'The pod that asked for a claim which is to be plugged in has failed: another one asks after a pause.',
      when: ({ attachmentPlan }) => attachmentPlan().againMs !== undefined,
      plan: withAttachments,
    },
  ],
  {
    name: 'pod-there',
    why: 'The launcher pod is there and carries what others read of its VMI.',
    plan: (facts) => ({ steps: podSteps(facts) }),
  },
);

const absentRules = ruleTable<AbsentVmi, VmiPlan>([], {
  name: 'vmi-gone',
  why: 'There is no VMI of this name; launcher pods that an earlier one left are deleted.',
  plan: ({ orphans }) => ({ steps: orphanSteps(orphans) }),
});

const unclearRules = ruleTable<UnclearVmi, VmiPlan>([], {
  name: 'api-without-answer',
  why: 'The API server did not answer what the decision depends on, so nothing is done until it does.',
  plan: (unclear) => ({
    steps: [],
    problem: unclear.reason,
    requeueAfterMs: longerPause(unclear, 'api-without-answer', unclearPauses),
    leavesVmi: true,
  }),
});

/** Of all kinds of observations; the names differ. */
export const vmiRules = [...presentRules.rules, ...absentRules.rules, ...unclearRules.rules];

/** Each makes a pod, or throws an error whose message says why there is none. */
export interface Renderers {
  readonly render: (facts: VmiFacts) => Pod;
  readonly renderTemporary: (facts: VmiFacts) => Pod;
  readonly renderAttachment: RenderAttachment;
  readonly renderTrigger: (facts: VmiFacts, launcher: Pod, claim: string) => Pod;
}

/** Pure and total. */
export function decideVmi(observation: VmiObservation, renderers: Renderers): VmiDecision {
  if (observation.kind === 'absent') return decideBy(absentRules, observation);
  if (observation.kind === 'unclear') return decideBy(unclearRules, observation);
  const facts: Facts = {
    ...observation,
    newPod: once(() => rendered(observation, renderers.render)),
    newTemporaryPod: once(() => rendered(observation, renderers.renderTemporary)),
    attachmentPlan: once(() => planAttachments(observation, renderers.renderAttachment)),
    newTriggers: (claims) => {
      const { pod } = observation;
      return pod ? claims.map((claim) => renderers.renderTrigger(observation, pod, claim)) : [];
    },
    networks: once(() => networksOf(observation)),
  };
  const decision = decideBy(presentRules, facts);
  const events = [...foreignPodEvents(observation), ...(decision.events ?? [])];
  return {
    ...decision,
    steps: [...orphanSteps(observation.orphans), ...decision.steps],
    ...(events.length > 0 && { events }),
  };
}

export function isUnprocessed(vmi: VirtualMachineInstance): boolean {
  const phase = vmi.status?.phase ?? '';
  return phase === '' || phase === 'Pending';
}

/** Made to receive a guest that no migration has brought so far. */
export function awaitsGuest(vmi: VirtualMachineInstance): boolean {
  return (
    isMigrationTarget(vmi) && isUnprocessed(vmi) && vmi.metadata.labels?.[labels.migrationTargetNodeName] === undefined
  );
}

/** What is stored of the VMI waits, too. */
function untilShown(facts: VmiFacts & Pick<PresentVmi, 'otherPods' | 'lastRule'>, rule: string) {
  const requeueAfterMs = facts.otherPods === 'unseen' ? longerPause(facts, rule, unseenPauses) : cachedPodsMs;
  return { requeueAfterMs, leavesVmi: true } as const;
}

function wantsPod({ vmi, pod }: VmiFacts): boolean {
  return !pod && isUnprocessed(vmi);
}

const whyOf = (state: KeptState) => ('why' in state ? state.why : '');

const hasFilling = ({ fillings }: VmiFacts, ...states: FillingState[]) =>
  fillings.some(({ state }) => states.includes(state));

function cannotBeFilled({ vmi, fillings }: VmiFacts, state: FillingState): VmiPlan {
  const details = fillings.filter((each) => each.state === state).map(({ detail }) => detail);
  return cannotStart(vmi, details.join('; '), 'FailedDataVolumeImport');
}

function rendered(facts: VmiFacts, render: (facts: VmiFacts) => Pod): Rendered {
  try {
    return { pod: render(facts) };
  } catch (error) {
    const problem = `the launcher pod cannot be made from this object: ${errorMessage(error)}`;
    return { problem, ...(errorCode(error) === 'CLAIM_MISSING' && { reason: 'FailedPvcNotFound' }) };
  }
}

/** Before its guest runs a pod is connected to the networks that it was made with. */
function networksOf({ vmi, pod, config }: VmiFacts): ReturnType<Facts['networks']> {
  const isPlugging = pod && vmi.status?.phase === 'Running' && !podFacts.isTemporary(pod) && podFacts.isReady(pod);
  if (!isPlugging) return { changed: {} };
  try {
    return { changed: changedNetworks(vmi, pod, config.networkBindings) };
  } catch (error) {
    return { problem: errorMessage(error) };
  }
}

function cannotStart(vmi: VirtualMachineInstance, problem: string, reason = 'FailedCreate'): VmiPlan {
  const isKnown = findCondition(vmi.status?.conditions, 'Synchronized')?.message === problem;
  const event: ObjectEvent = { type: 'Warning', reason, message: problem };
  return { steps: [], problem, problemReason: reason, ...(!isKnown && { events: [event] }) };
}

/** The newcomer comes first: it is what an older pod may be waiting for. */
function withAttachments(facts: Facts): VmiPlan {
  const { wanted, superseded, awaiting, againMs } = facts.attachmentPlan();
  const create = [...(wanted ? [wanted] : []), ...facts.newTriggers(awaiting)].map((pod): VmiStep => {
    return { step: 'createAttachmentPod', pod };
  });
  const steps = [...podSteps(facts), ...create, ...attachmentDeletion(superseded)];
  return { steps, ...(againMs !== undefined && { requeueAfterMs: againMs }) };
}

const attachmentDeletion = (pods: readonly Pod[]): VmiStep[] =>
  pods.length > 0 ? [{ step: 'deleteAttachmentPods', pods }] : [];

const deletionOf = (pods: readonly Pod[]): VmiStep[] => (pods.length > 0 ? [{ step: 'deletePods', pods }] : []);

const orphanSteps = (pods: readonly Pod[]): VmiStep[] => (pods.length > 0 ? [{ step: 'deleteOrphans', pods }] : []);

function foreignPodEvents({ newForeignPods }: PresentVmi): ObjectEvent[] {
  return newForeignPods.map(({ metadata }) => {
    const message = `pod ${metadata.name} says that this is its controller, and was not made for it: it is not believed`;
    return { type: 'Warning', reason: 'ForeignPod', message };
  });
}

/** The readiness gate, labels and annotations that the pod carries for its VMI. */
function podSteps({ vmi, pod, pods, networks, config }: Facts): VmiStep[] {
  // Their work is done.
  const steps = deletionOf(pods.filter((each) => podFacts.isTemporary(each) && !isBeingDeleted(each)));
  if (!pod || podFacts.isFinal(pod)) return steps;
  const synced = metadataChanges(config.synced, vmi.metadata, pod.metadata);
  const node = vmi.metadata.labels?.['kubevirt.io/nodeName'];
  const isUnnamed = node && pod.metadata.labels?.['kubevirt.io/nodeName'] !== node;
  const labels = { ...synced.labels, ...(isUnnamed && { 'kubevirt.io/nodeName': node }) };
  steps.push(...markSteps(pod, gateOf(vmi, pod), labels));
  const asked = networks();
  const ofNetworks = { ...networkInfoAnnotation(vmi, pod, config), ...('changed' in asked && asked.changed) };
  const annotations = { ...synced.annotations, ...ofNetworks };
  if (Object.keys(annotations).length > 0) steps.push({ step: 'annotatePod', pod, annotations });
  return steps;
}

/** The gate and the labels go in one request. */
function markSteps(pod: Pod, condition: ConditionState | undefined, labels: EntryChanges): VmiStep[] {
  const isLabelled = Object.keys(labels).length === 0;
  if (condition) return [{ step: 'setPodCondition', pod, condition, ...(!isLabelled && { labels }) }];
  return isLabelled ? [] : [{ step: 'labelPod', pod, labels }];
}

/** Undefined: it is right, or says nothing yet. Nothing that a pod could be ready for is in it before the VMI was handed over to its node. */
function gateOf(vmi: VirtualMachineInstance, pod: Pod): ConditionState | undefined {
  const { phase } = vmi.status ?? {};
  if (isUnprocessed(vmi) || phase === 'Scheduling' || phase === 'WaitingForSync') return undefined;
  const condition = unpaused(vmi);
  const current = findCondition(pod.status?.conditions, unpausedCondition);
  return current?.status === condition.status ? undefined : condition;
}

function unpaused(vmi: VirtualMachineInstance): ConditionState {
  const isPaused = findCondition(vmi.status?.conditions, 'Paused')?.status === 'True';
  return isPaused
    ? { type: unpausedCondition, status: 'False', reason: 'Paused', message: 'the virtual machine is paused' }
    : { type: unpausedCondition, status: 'True', reason: 'NotPaused', message: 'the virtual machine is not paused' };
}
