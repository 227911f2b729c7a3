import { type ConditionState, type MigrationPhase, type Pod, retryCondition } from '../../api/index.ts';
import type { Decided, ObjectEvent, Rule } from '../../reconcile/index.ts';
import type { PresentMigration } from './observation.ts';
import type { MigrationStep } from './steps.ts';

/** What shall be stored about the migration when all steps are done. */
export type StatusChange =
  | { readonly kind: 'keep' }
  /** Label and finalizer, as upstream's webhook sets them. */
  | { readonly kind: 'admit' }
  | { readonly kind: 'phase'; readonly phase: Exclude<MigrationPhase, '' | 'Failed'> }
  | { readonly kind: 'condition'; readonly condition: ConditionState }
  | {
      readonly kind: 'failed';
      readonly reason: string;
      readonly message: string;
      readonly isAbort?: true;
      readonly isTriedAgain?: true;
    }
  /** It is over: the VMI's account of it is copied, and the finalizer goes. */
  | { readonly kind: 'release' };

export interface MigrationPlan {
  readonly steps: readonly MigrationStep[];
  readonly change: StatusChange;
  readonly events?: readonly ObjectEvent[];
  readonly problem?: string;
  readonly requeueAfterMs?: number;
}

export interface MigrationDecision extends Decided, MigrationPlan {
  readonly steps: readonly MigrationStep[];
  readonly problem?: string;
}

export type MigrationRule = Rule<Facts, MigrationPlan>;

/** A migration with the pod that it gets, made when a rule asks for it. */
export interface Facts extends PresentMigration {
  readonly newPod: () => NewPod;
  /** The pod that brings its plugged volumes to the target. */
  readonly newAttachment: () => NewPod;
}

export type NewPod =
  | { readonly kind: 'made'; readonly pod: Pod }
  | { readonly kind: 'problem'; readonly problem: string };

const keep: StatusChange = { kind: 'keep' };

export const abortRequested: ConditionState = { type: 'migrationAbortRequested', status: 'True' };
export const quotaCondition = 'migrationRejectedByResourceQuota';
export const utilityCondition = 'migrationBlockedByUtilityVolumes';
export const unschedulableCondition = 'migrationTargetPodUnschedulable';
/** Upstream's, of one half of a migration between two VMI objects that cannot go on without the other. */
export const blockedCondition = 'decentralizedMigrationBlocked';
/** Why it failed, in words; upstream has it in an event alone. */
export const failedCondition = 'migrationFailed';
/** Written together with the failure: what is to be done is known for good from then on. */
export const retryDue: ConditionState & { readonly reason: string } = {
  type: retryCondition,
  status: 'True',
  reason: 'RetryDue',
  message: 'a loss ended it before the guest had moved: it is tried again, once',
};
/** Conditions of a migration that waits for something. */
export const waitingConditions: readonly string[] = [
  quotaCondition,
  utilityCondition,
  unschedulableCondition,
  blockedCondition,
];

export function waits(requeueAfterMs?: number): MigrationPlan {
  return { steps: [], change: keep, ...(requeueAfterMs !== undefined && { requeueAfterMs }) };
}

export function does(steps: readonly MigrationStep[]): MigrationPlan {
  return { steps, change: keep };
}

export function goesTo(phase: Exclude<MigrationPhase, '' | 'Failed'>): MigrationPlan {
  return { steps: [], change: { kind: 'phase', phase } };
}

/** With its cause for a condition and an event. */
export function fails(reason: string, message: string, steps: readonly MigrationStep[] = []): MigrationPlan {
  return { steps, change: { kind: 'failed', reason, message } };
}
