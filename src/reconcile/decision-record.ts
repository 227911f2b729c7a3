import type { ExplainDecision, ExplainStep } from '../api/index.ts';
import { errorMessage, isRecord, shortened } from '../base/index.ts';
import { type StepOutcome, type StepPart, stepFailureOf } from './steps.ts';

/**
 * One reconcile as it is kept for "explain". `Seen`: what was observed, in the words of the reconciled kind. What rarely changes
 * within the same decision is written over.
 */
export type DecisionRecord<Seen> = {
  -readonly [Part in keyof Omit<ExplainDecision, 'why' | 'seen'>]: ExplainDecision[Part];
} & { seen: Seen };

/** What a record keeps of a decision. */
export interface RecordedDecision {
  readonly route?: string;
  readonly rule: string;
  readonly steps: readonly { readonly step: PropertyKey }[];
  readonly problem?: string | undefined;
  readonly healthy?: boolean;
}

const textLimit = 600;

/** No message, whatever its source, makes the records large. */
export function clip(text: string, limit = textLimit): string {
  return shortened(text, limit);
}

/** `problem`: what is wrong besides a failed step, which is reported first. */
export function decisionRecord<Seen>(
  { uid, now }: { readonly uid: string; readonly now: Date },
  decision: RecordedDecision,
  outcomes: readonly StepOutcome<PropertyKey>[],
  { seen, problem = decision.problem }: { readonly seen: Seen; readonly problem?: string | undefined },
): DecisionRecord<Seen> {
  const reported = stepFailureOf(outcomes)?.message ?? problem;
  return {
    ...emptyRecord(now, uid, seen),
    route: decision.route ?? '',
    rule: decision.rule,
    steps: decision.steps.map(({ step }, index) => stepOf(String(step), outcomes[index])),
    ...(reported !== undefined && { problem: clip(reported) }),
    ...(decision.healthy && { healthy: true }),
  };
}

/** A reconcile that threw is a fault of this program, reported like any other trouble of the object. */
export function faultRecord<Seen>(at: Date, uid: string, error: unknown, seen: Seen): DecisionRecord<Seen> {
  return { ...emptyRecord(at, uid, seen), problem: clip(errorMessage(error)) };
}

/** In place of a rule's name when the reconcile itself failed. Clients of the explain document and of metrics read this word. */
export const faultRule = 'pass-failed';

function emptyRecord<Seen>(at: Date, uid: string, seen: Seen): DecisionRecord<Seen> {
  const time = at.toISOString();
  const write = { outcome: 'not-reached' };
  return { firstAt: time, lastAt: time, times: 1, uid, route: '', rule: faultRule, seen, steps: [], write };
}

function stepOf(step: string, reached: StepOutcome<PropertyKey> | undefined): ExplainStep {
  if (!reached) return { step, outcome: 'not-reached' };
  const { outcome } = reached;
  const tookMs = rounded(reached.tookMs);
  const parts = outcome.parts?.length ? { parts: outcome.parts.slice(0, partLimit).map(partOf) } : {};
  switch (outcome.kind) {
    case 'done':
      return { step, outcome: 'done', tookMs, ...parts };
    case 'wait':
      return { step, outcome: 'waits', tookMs, because: clip(outcome.reason), ...parts };
    case 'failed': {
      const because = clip(`${outcome.error.code}: ${outcome.error.message}`);
      return { step, outcome: 'failed', tookMs, because, ...parts };
    }
  }
}

const partLimit = 16;

function partOf({ name: step, outcome, tookMs, because, gave }: StepPart): ExplainStep {
  return {
    step,
    outcome,
    tookMs: rounded(tookMs),
    ...(because !== undefined && { because: clip(because) }),
    ...(gave !== undefined && { gave: clip(gave, 200) }),
  };
}

function rounded(tookMs: number): number {
  return Math.round(tookMs * 10) / 10;
}

const durations = new Set(['waitMs']);

/**
 * What is remembered of a key, for readers outside: monotonic times mean nothing outside this process, so they become
 * milliseconds ago, or still to come (negative). What is empty or false is left out.
 */
export function memoryInWords(memory: object, nowMs: number): Record<string, unknown> {
  const words: [string, unknown][] = [];
  for (const [name, value] of Object.entries(memory)) {
    if (value === undefined || value === '' || value === false) continue;
    if (typeof value === 'number' && name.endsWith('Ms') && !durations.has(name)) {
      words.push([`${name.slice(0, -2)}MsAgo`, Math.round(nowMs - value)]);
    } else if (typeof value === 'string') words.push([name, clip(value, 200)]);
    else if (isRecord(value)) words.push([name, memoryInWords(value, nowMs)]);
    else if (typeof value === 'number' || typeof value === 'boolean') words.push([name, value]);
  }
  return Object.fromEntries(words);
}
