import type { Condition, VmiPhase } from '../../../api/index.ts';
import type { VmiEvent } from '../ports.ts';
import type { Facts } from './facts.ts';
import type { Remember, Step } from './steps.ts';

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
  /** Told when the write went through. */
  readonly events?: readonly VmiEvent[];
}

export interface Plan {
  /** Done in order; the first that fails or must wait ends the plan. */
  readonly steps: readonly Step[];
  /** Phase to write in this pass. */
  readonly phase?: VmiPhase;
  /**
   * Written whatever becomes of the steps: a plan acts or patches, and what follows from an act is the next pass's patch.
   */
  readonly patch?: VmiPatch;
  /** Run again after this time if nothing else wakes the key; 0: at once. */
  readonly requeueAfterMs?: number;
  /** After a failed step the key backs off, but no longer than this: a failing signal must not outlast a grace period. */
  readonly latestMs?: number;
  /** Kept whatever becomes of the steps; what depends on a step's success is in its outcome. */
  readonly remember?: Remember;
  readonly events?: readonly VmiEvent[];
  /** Told to the user as condition `Synchronized=False` and event `SyncFailed`. */
  readonly problem?: string;
  /** Nothing is wrong: an older `Synchronized=False` goes. */
  readonly healthy?: boolean;
}

/** First match wins. The name is log field, metric label and test title. */
export interface Rule {
  readonly name: string;
  /** One sentence for people: what is the matter, and what is done or awaited because of it. Shown by "why". */
  readonly why: string;
  readonly when: (facts: Facts) => boolean;
  readonly plan: (facts: Facts) => Plan;
}

export interface Decision extends Plan {
  readonly route: Route;
  readonly rule: string;
}

/** Nothing to do until something wakes the key. */
export const rest: Plan = { steps: [] };

export function wait(requeueAfterMs: number): Plan {
  return { steps: [], requeueAfterMs };
}
