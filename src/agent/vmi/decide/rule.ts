import type { Condition, VmiPhase } from '../../../api/index.ts';
import type { Rule as NamedRule, Requeue } from '../../../reconcile/index.ts';
import type { Remember } from '../observe/index.ts';
import type { VmiEvent } from '../ports.ts';
import type { Facts } from './facts.ts';
import type { Step } from './steps.ts';

export type Route = 'migration-target' | 'migration-arrived' | 'orphaned-source' | 'migration-source' | 'default';

/**
 * A change of the VMI that a rule decided on, merged over what the projection makes of the domain: `null` removes a field.
 * It is put on the newest object, so it names only what it changes.
 */
export interface VmiPatch {
  readonly labels?: Readonly<Record<string, string | null>>;
  readonly annotations?: Readonly<Record<string, string | null>>;
  /** JSON merge patch of `status`; lists are replaced. */
  readonly status?: Readonly<Record<string, unknown>>;
  readonly removeConditions?: readonly string[];
  readonly setConditions?: readonly Condition[];
  /** Recorded when the write went through. */
  readonly events?: readonly VmiEvent[];
}

export interface Plan extends Requeue {
  /** Done in order; the first that fails or must wait ends the plan. */
  readonly steps: readonly Step[];
  /** Phase to write in this reconcile. */
  readonly phase?: VmiPhase;
  /**
   * Written whatever becomes of the steps: a plan acts or patches, and what follows from an act is the next reconcile's patch.
   */
  readonly patch?: VmiPatch;
  /** Kept whatever becomes of the steps; what depends on a step's success is in its outcome. */
  readonly remember?: Remember;
  readonly events?: readonly VmiEvent[];
  /** Shown to the user as condition `Synchronized=False` and event `SyncFailed`. */
  readonly problem?: string;
  /** Nothing is wrong: an older `Synchronized=False` goes. */
  readonly healthy?: boolean;
}

export type Rule = NamedRule<Facts, Plan>;

export interface Decision extends Plan {
  readonly route: Route;
  readonly rule: string;
}

/** Nothing to do until something wakes the key. */
export const rest: Plan = { steps: [] };

export function wait(requeueAfterMs: number): Plan {
  return { steps: [], requeueAfterMs };
}
