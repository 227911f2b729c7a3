import type { ExplainNext } from '../../../api/index.ts';
import { errorCode, errorMessage } from '../../../base/index.ts';
import type { KeyResult } from '../../../reconcile/index.ts';
import type { Pass } from '../status/index.ts';
import type { WriteOutcome } from './write-status.ts';

/** Also what `writeStatus` throws, and that there is nothing to write to. */
export type Written = WriteOutcome | { readonly kind: 'no-vmi' } | { readonly kind: 'failed'; readonly error: unknown };

/** When a key runs again and why; the reason is told to people. */
export interface Next extends ExplainNext {
  readonly result: KeyResult;
  /** Run by then even if the back-off is longer. */
  readonly latestMs?: number;
}

/** The watch will say so, too. */
const goneRetryMs = 1_000;
/** Others who write the VMI wake its key: while writes fail each of their writes lengthens the back-off, to a minute in a moment. */
const unwrittenRetryMs = 15_000;

const conflictStorm = { code: 'CONFLICT', message: 'the VMI was changed by others at every try to write its status' };

/** Pure: what follows from a pass and its write. */
export function nextOf({ decision, outcomes }: Pass, written: Written): Next {
  if (written.kind === 'outdated') return again(0, 'the VMI changed while it was written');
  if (written.kind === 'gone') return again(goneRetryMs, 'the VMI is no more; its watch will say so');
  const failed = outcomes.find(({ outcome }) => outcome.kind === 'failed')?.outcome;
  if (failed?.kind === 'failed') return backOff(failed.error, decision.latestMs);
  if (written.kind === 'conflicts') return backOff(conflictStorm, latestWriteMs(decision));
  if (written.kind === 'failed') {
    const isRefused = errorCode(written.error) === 'INVALID';
    return backOff(written.error, isRefused ? decision.latestMs : latestWriteMs(decision));
  }
  const waiting = outcomes.find(({ outcome }) => outcome.kind === 'wait')?.outcome;
  if (waiting?.kind === 'wait') return again(waiting.afterMs, waiting.reason);
  const unfinishedMs = 'projection' in written ? written.projection.requeueAfterMs : undefined;
  if (unfinishedMs !== undefined && unfinishedMs < (decision.requeueAfterMs ?? Number.POSITIVE_INFINITY))
    return again(unfinishedMs, 'part of the status is not finished or was not taken');
  if (decision.requeueAfterMs === undefined) return { because: onChange, result: { kind: 'done' } };
  const because = decision.requeueAfterMs === 0 ? decidedAtOnce : `at the latest; sooner ${onChange}`;
  return again(decision.requeueAfterMs, because);
}

function latestWriteMs({ latestMs = unwrittenRetryMs }: Pass['decision']): number {
  return Math.min(latestMs, unwrittenRetryMs);
}

export const decidedAtOnce = 'what follows is decided at once';
const onChange = 'when the VMI, its domain or its launcher changes';

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
