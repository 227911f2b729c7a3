import {
  type ConditionState,
  findCondition,
  isBeingDeleted,
  isFinal,
  type Pod,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { podFacts } from '../pod/facts.ts';
import { isAdmitted } from './admit.ts';
import type { VmiObservation } from './observation.ts';

const unpausedCondition = 'kubevirt.io/virtual-machine-unpaused';

export type VmiStep =
  /** `leftovers`: of a controller that ended before it could record them, or of strangers. */
  | { readonly step: 'createPod'; readonly leftovers: readonly Pod[] }
  | { readonly step: 'deletePod'; readonly pod: Pod }
  | { readonly step: 'setPodCondition'; readonly pod: Pod; readonly condition: ConditionState }
  | { readonly step: 'labelPod'; readonly pod: Pod; readonly labels: Readonly<Record<string, string>> };

export interface VmiPlan {
  readonly rule: string;
  readonly steps: readonly VmiStep[];
}

interface VmiRule {
  readonly name: string;
  readonly when: (seen: VmiObservation) => boolean;
  readonly plan: (seen: VmiObservation) => readonly VmiStep[];
}

/** First match wins (spec 50 §4.3). The phase is not decided here but projected, see project.ts. */
const vmiRules: readonly VmiRule[] = [
  {
    name: 'being-deleted',
    when: ({ vmi }) => isBeingDeleted(vmi),
    // A launcher gets its grace period from the pod; asking twice changes nothing but is noise.
    plan: ({ pods }) => pods.filter((pod) => !isBeingDeleted(pod)).map((pod): VmiStep => ({ step: 'deletePod', pod })),
  },
  { name: 'final', when: ({ vmi }) => isFinal(vmi), plan: () => [] },
  // Finalizer and defaults have to be stored before anything of the VMI exists outside of it.
  { name: 'not-admitted', when: ({ vmi }) => !isAdmitted(vmi), plan: () => [] },
  {
    name: 'no-pod-yet',
    when: ({ vmi, pod }) => !pod && isUnprocessed(vmi),
    plan: ({ strangers }) => [{ step: 'createPod', leftovers: strangers.filter((pod) => !isBeingDeleted(pod)) }],
  },
  // A lost pod is never made again: the guest's state went with it.
  { name: 'pod-lost', when: ({ pod }) => !pod, plan: () => [] },
  { name: 'pod-there', when: () => true, plan: ({ vmi, pod }) => (pod ? podSteps(vmi, pod) : []) },
];

export function decideVmi(seen: VmiObservation): VmiPlan {
  const rule = vmiRules.find(({ when }) => when(seen));
  return { rule: rule?.name ?? 'none', steps: rule?.plan(seen) ?? [] };
}

export function isUnprocessed(vmi: VirtualMachineInstance): boolean {
  const phase = vmi.status?.phase ?? '';
  return phase === '' || phase === 'Pending';
}

/** The readiness gate and the labels that the pod carries for its VMI (spec 50 §4.6). */
function podSteps(vmi: VirtualMachineInstance, pod: Pod): VmiStep[] {
  const steps: VmiStep[] = [];
  if (podFacts.isFinal(pod)) return steps;
  const condition = unpaused(vmi);
  const current = findCondition(pod.status?.conditions, unpausedCondition);
  if (current?.status !== condition.status) steps.push({ step: 'setPodCondition', pod, condition });
  const node = vmi.metadata.labels?.['kubevirt.io/nodeName'];
  if (node && pod.metadata.labels?.['kubevirt.io/nodeName'] !== node) {
    steps.push({ step: 'labelPod', pod, labels: { 'kubevirt.io/nodeName': node } });
  }
  return steps;
}

function unpaused(vmi: VirtualMachineInstance): ConditionState {
  const isPaused = findCondition(vmi.status?.conditions, 'Paused')?.status === 'True';
  return isPaused
    ? { type: unpausedCondition, status: 'False', reason: 'Paused', message: 'the virtual machine is paused' }
    : { type: unpausedCondition, status: 'True', reason: 'NotPaused', message: 'the virtual machine is not paused' };
}
