import { isRecord } from '../../base/index.ts';

/** What a later sync, or this launcher started again, must know of the domain's past; its present is asked of libvirt. */
export type RunRecord =
  /** `paused`: libvirt was asked to start the domain without running it. */
  | { readonly kind: 'not-run'; readonly paused: boolean }
  /**
   * QEMU has run for this VMI: a domain that is down now has ended and is not started again. `paused`: on purpose, a sync does
   * not resume it.
   */
  | { readonly kind: 'has-run'; readonly paused: boolean; readonly panicReported: boolean };

export const notRun: RunRecord = { kind: 'not-run', paused: false };

/** The domain is paused on purpose, or is to be started so; or neither any more. */
export function pausedOnPurpose(paused: boolean): (record: RunRecord) => RunRecord {
  return (record) => ({ ...record, paused });
}

export function hasRun(record: RunRecord): RunRecord {
  if (record.kind === 'has-run') return record;
  return { kind: 'has-run', paused: record.paused, panicReported: false };
}

/** A guest that panicked has run, whether or not a sync has noticed. */
export function panicReported(record: RunRecord): RunRecord {
  return { kind: 'has-run', paused: record.paused, panicReported: true };
}

/** As it is kept on disk: marks, which launchers before this form have written. */
export interface RunMarks {
  readonly userPaused: boolean;
  readonly hasRun: boolean;
  readonly panicHandled: boolean;
}

export function marksOf(record: RunRecord): RunMarks {
  const isOver = record.kind === 'has-run';
  return { userPaused: record.paused, hasRun: isOver, panicHandled: isOver && record.panicReported };
}

export function recordOf({ userPaused: paused, hasRun, panicHandled }: RunMarks): RunRecord {
  return hasRun ? { kind: 'has-run', paused, panicReported: panicHandled } : { kind: 'not-run', paused };
}

export function areRunMarks(value: unknown): value is RunMarks {
  if (!isRecord(value)) return false;
  return [value.userPaused, value.hasRun, value.panicHandled].every((mark) => typeof mark === 'boolean');
}
