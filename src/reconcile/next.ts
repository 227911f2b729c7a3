import type { ExplainNext } from '../api/index.ts';
import { errorMessage } from '../base/index.ts';
import type { KeyResult } from './keyed-queue.ts';
import { type StepOutcome, stepFailureOf } from './steps.ts';

/** What became of writing what was projected. */
export type Written =
  /** `requeueAfterMs`: something is unfinished that no event may announce. */
  | { readonly kind: 'written' | 'unchanged'; readonly requeueAfterMs?: number | undefined }
  | { readonly kind: 'gone' | 'outdated' | 'conflicts' }
  /** Not even the essential was taken, and the same again would be refused again. */
  | { readonly kind: 'refused'; readonly error: unknown }
  /** The API server did not answer. */
  | { readonly kind: 'failed'; readonly error: unknown }
  /** There is no object to write to. */
  | { readonly kind: 'no-object' };

/** When a key runs again and why; the reason is shown to people. */
export interface Next extends ExplainNext {
  readonly result: KeyResult;
  /** Run by then even if the back-off is longer. */
  readonly latestMs?: number;
}

/** What a decision says about the time after it. */
export interface Requeue {
  /** Run again after this time if nothing else wakes the key; 0: at once. */
  readonly requeueAfterMs?: number;
  /** After a failure the key backs off, but no longer than this: a failing signal must not outlast a grace period. */
  readonly latestMs?: number;
}

/** How the reconciled kind is called in sentences. */
export interface NextWords {
  /** `the VMI` */
  readonly object: string;
  /** What wakes a key, as in: when the VMI, its domain or its launcher changes. */
  readonly onChange: string;
}

/** The watch reports it, too. */
const goneRetryMs = 1_000;
/** Others who write the object wake its key: while writes fail each of them lengthens the back-off, to a minute within seconds. */
const unwrittenRetryMs = 15_000;

/** Pure: what follows from a decision, its steps and its write. */
export function nextOf(
  decision: Requeue,
  outcomes: readonly StepOutcome<unknown>[],
  written: Written,
  words: NextWords,
): Next {
  if (written.kind === 'outdated') return again(0, `${words.object} changed while it was written`);
  if (written.kind === 'gone') return again(goneRetryMs, `${words.object} is no more; its watch will say so`);
  const failure = stepFailureOf(outcomes);
  if (failure) return backOff(failure, decision.latestMs);
  const unwritten = unwrittenCause(written, words);
  if (unwritten)
    return backOff(unwritten.cause, written.kind === 'refused' ? decision.latestMs : latestWriteMs(decision));
  const waiting = outcomes.find(({ outcome }) => outcome.kind === 'wait')?.outcome;
  if (waiting?.kind === 'wait') return again(waiting.afterMs, waiting.reason);
  return afterSuccess(decision, written, words);
}

function unwrittenCause(written: Written, { object }: NextWords): { readonly cause: unknown } | undefined {
  switch (written.kind) {
    case 'conflicts':
      return {
        cause: { code: 'CONFLICT', message: `${object} was changed by others at every try to write its status` },
      };
    case 'refused':
    case 'failed':
      return { cause: written.error };
    default:
      return undefined;
  }
}

function afterSuccess({ requeueAfterMs }: Requeue, written: Written, { onChange }: NextWords): Next {
  const unfinishedMs = 'requeueAfterMs' in written ? written.requeueAfterMs : undefined;
  if (unfinishedMs !== undefined && unfinishedMs < (requeueAfterMs ?? Number.POSITIVE_INFINITY))
    return again(unfinishedMs, 'part of the status is not finished or was not taken');
  if (requeueAfterMs === undefined) return { because: onChange, result: { kind: 'done' } };
  const because = requeueAfterMs === 0 ? decidedAtOnce : `at the latest; sooner ${onChange}`;
  return again(requeueAfterMs, because);
}

function latestWriteMs({ latestMs = unwrittenRetryMs }: Requeue): number {
  return Math.min(latestMs, unwrittenRetryMs);
}

export const decidedAtOnce = 'what follows is decided at once';

export function again(afterMs: number, because: string): Next {
  return { afterMs, because, result: { kind: 'done', requeueAfterMs: afterMs } };
}

export function backOff(cause: unknown, latestMs?: number): Next {
  return {
    because: `back-off after a failure: ${describeCause(cause)}`,
    result: { kind: 'retry', cause },
    ...(latestMs !== undefined && { latestMs }),
  };
}

/** The text of a StepError or of anything thrown. */
export function describeCause(cause: unknown): string {
  const hasMessage = typeof cause === 'object' && cause !== null && 'message' in cause;
  return hasMessage && typeof cause.message === 'string' ? cause.message : errorMessage(cause);
}
