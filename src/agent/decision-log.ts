import type { Key, VmiPhase } from '../api/index.ts';
import type { Decision, StepOutcome } from './decide/index.ts';

/** One pass over a VMI, for "why": kept in memory, served by a later part. */
export interface DecisionRecord {
  readonly firstAt: Date;
  lastAt: Date;
  /** How often the same decision was taken in a row. */
  times: number;
  readonly uid: string;
  readonly route: string;
  readonly rule: string;
  readonly domain: string;
  readonly launcher: string;
  readonly phase: VmiPhase;
  readonly newPhase?: VmiPhase;
  readonly steps: readonly string[];
  /** Of the steps that were begun; the first time when the decision was taken several times in a row. */
  readonly tookMs: Readonly<Record<string, number>>;
  /** `step: failure or wait reason` of the steps that were not done. */
  readonly troubles: readonly string[];
  readonly problem?: string;
  readonly requeueAfterMs?: number;
}

export interface DecisionLogOptions {
  readonly recordsPerVmi: number;
  /** Oldest keys go first beyond this. */
  readonly vmis: number;
}

/** The last decisions of each VMI in a bounded ring. */
export class DecisionLog {
  readonly #options: DecisionLogOptions;
  readonly #rings = new Map<Key, DecisionRecord[]>();

  constructor(options: DecisionLogOptions = { recordsPerVmi: 32, vmis: 1024 }) {
    this.#options = options;
  }

  /** True when the decision differs from the one before: worth a log line. */
  add(key: Key, record: DecisionRecord): boolean {
    const ring = this.#rings.get(key) ?? [];
    const last = ring.at(-1);
    if (last && isSame(last, record)) {
      last.times++;
      last.lastAt = record.lastAt;
      return false;
    }
    ring.push(record);
    if (ring.length > this.#options.recordsPerVmi) ring.shift();
    this.#rings.delete(key);
    this.#rings.set(key, ring);
    if (this.#rings.size > this.#options.vmis) this.#dropOldest();
    return true;
  }

  of(key: Key): readonly DecisionRecord[] {
    return this.#rings.get(key) ?? [];
  }

  #dropOldest(): void {
    const oldest = this.#rings.keys().next();
    if (!oldest.done) this.#rings.delete(oldest.value);
  }
}

function isSame(left: DecisionRecord, right: DecisionRecord): boolean {
  return (
    left.uid === right.uid &&
    left.route === right.route &&
    left.rule === right.rule &&
    left.problem === right.problem &&
    left.troubles.join() === right.troubles.join() &&
    left.steps.join() === right.steps.join()
  );
}

export function troublesOf(outcomes: readonly StepOutcome[]): string[] {
  return outcomes.flatMap(({ step, outcome }) => {
    if (outcome.kind === 'done') return [];
    return [`${step}: ${outcome.kind === 'failed' ? outcome.error.message : outcome.reason}`];
  });
}

export function durationsOf(outcomes: readonly StepOutcome[]): Record<string, number> {
  return Object.fromEntries(outcomes.map(({ step, tookMs }) => [step, Math.round(tookMs * 10) / 10]));
}

export function stepNames(decision: Decision): string[] {
  return decision.steps.map(({ step }) => step);
}
