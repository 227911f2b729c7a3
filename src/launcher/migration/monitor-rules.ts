import type { JobSample } from './job.ts';
import type { MigrationSettings } from './settings.ts';

/** What is remembered between two looks at a migration. */
export interface MonitorState {
  readonly mode: 'PreCopy' | 'PostCopy' | 'Paused';
  /** From the begin; grows once when the guest is paused. Undefined: no limit. */
  readonly acceptableMs: number | undefined;
  readonly last: JobSample | undefined;
  readonly progressMs: number;
}

export type MonitorAction =
  | { readonly kind: 'none' }
  | { readonly kind: 'start-post-copy' }
  | { readonly kind: 'suspend' }
  | { readonly kind: 'abort'; readonly reason: string };

export interface MonitorStep {
  readonly state: MonitorState;
  readonly action: MonitorAction;
}

type Allowed = Pick<MigrationSettings, 'progressTimeoutMs' | 'allowsWorkloadDisruption'> & {
  /** libvirt was asked for a migration that can switch. */
  readonly canPostCopy: boolean;
};

export function firstMonitorState(acceptable: number | undefined): MonitorState {
  return { mode: 'PreCopy', acceptableMs: acceptable, last: undefined, progressMs: 0 };
}

/**
 * One look at a migration, `elapsedMs` after its begin (upstream's `live-migration-source.go`). Progress is any byte that moves: a
 * frozen stream is noticed by neither libvirt nor QEMU.
 */
export function watchMigration(
  before: MonitorState,
  sample: JobSample,
  elapsedMs: number,
  allowed: Allowed,
): MonitorStep {
  const progressMs = hasMoved(before.last, sample) ? elapsedMs : before.progressMs;
  const state = { ...before, last: sample, progressMs };
  if (state.mode === 'PostCopy') return { state, action: { kind: 'none' } };
  const isLate = state.acceptableMs !== undefined && elapsedMs > state.acceptableMs;
  if (isLate && allowed.allowsWorkloadDisruption && state.mode === 'PreCopy') return disrupt(state, allowed);
  const stuckMs = elapsedMs - progressMs;
  if (allowed.progressTimeoutMs > 0 && stuckMs > allowed.progressTimeoutMs) {
    return { state, action: abort(`no data has moved for ${seconds(stuckMs)} s`) };
  }
  if (isLate) return { state, action: abort(`it has not ended within ${seconds(state.acceptableMs ?? 0)} s`) };
  return { state, action: { kind: 'none' } };
}

/** The guest runs on the target from now on, or stands still until its memory is there. */
function disrupt(state: MonitorState, { canPostCopy }: Allowed): MonitorStep {
  if (canPostCopy) return { state: { ...state, mode: 'PostCopy' }, action: { kind: 'start-post-copy' } };
  const acceptable = state.acceptableMs === undefined ? undefined : state.acceptableMs * 2;
  return { state: { ...state, mode: 'Paused', acceptableMs: acceptable }, action: { kind: 'suspend' } };
}

function hasMoved(before: JobSample | undefined, now: JobSample): boolean {
  if (!before) return true;
  return now.processedBytes > before.processedBytes || now.remainingBytes < before.remainingBytes;
}

const seconds = (ms: number) => Math.round(ms / 1000);

function abort(why: string): MonitorAction {
  return { kind: 'abort', reason: `Live migration has been aborted: ${why}` };
}
