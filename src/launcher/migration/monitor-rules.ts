import type { JobSample } from './job.ts';
import type { MigrationSettings, StallSettings } from './settings.ts';
import { type Convergence, isAtMinimum, noConvergence, transferMs, withBandwidth, withPass } from './stall.ts';

/** What is remembered between two looks at a migration. */
export interface MonitorState {
  readonly mode: 'PreCopy' | 'PostCopy' | 'Paused';
  /** From the begin; grows once when the guest is paused. Undefined: no limit. */
  readonly acceptableMs: number | undefined;
  readonly last: JobSample | undefined;
  readonly progressMs: number;
  readonly convergence: Convergence;
  /** At the last pass. */
  readonly remainingBytes: number | undefined;
  /** QEMU was told to switch, and has to have done so by then. */
  readonly switchDeadlineMs: number | undefined;
}

export type MonitorAction =
  | { readonly kind: 'none' }
  | { readonly kind: 'start-post-copy' }
  | { readonly kind: 'suspend' }
  /** QEMU switches as soon as a pause of this length is enough. */
  | { readonly kind: 'allow-downtime'; readonly milliseconds: number }
  | { readonly kind: 'abort'; readonly reason: string };

export interface MonitorStep {
  readonly state: MonitorState;
  readonly action: MonitorAction;
}

export interface Look {
  readonly sample: JobSample;
  readonly elapsedMs: number;
  /** A pass over the memory has just begun. */
  readonly isPass: boolean;
}

export type Allowed = Pick<
  MigrationSettings,
  'progressTimeoutMs' | 'allowsWorkloadDisruption' | 'maxDowntimeMs' | 'stall'
> & {
  /** libvirt was asked for a migration that can switch. */
  readonly canPostCopy: boolean;
};

/** The longest that QEMU takes: it switches at once. */
const anyDowntimeMs = 2_000_000;
const defaultDowntimeMs = 300;
const none: MonitorAction = { kind: 'none' };

export function firstMonitorState(acceptable: number | undefined): MonitorState {
  return {
    mode: 'PreCopy',
    acceptableMs: acceptable,
    last: undefined,
    progressMs: 0,
    convergence: noConvergence,
    remainingBytes: undefined,
    switchDeadlineMs: undefined,
  };
}

/** The pause to aim at from the begin; undefined: QEMU's own. A stall detector allows more when it is time for it. */
export function firstDowntimeMs({ maxDowntimeMs, stall }: MigrationSettings): number | undefined {
  if (maxDowntimeMs <= 0) return undefined;
  return stall ? Math.min(maxDowntimeMs, defaultDowntimeMs) : maxDowntimeMs;
}

/**
 * One look at a migration (upstream's `live-migration-source.go`). Progress is any byte that moves: a frozen stream is noticed by
 * neither libvirt nor QEMU.
 */
export function watchMigration(before: MonitorState, look: Look, allowed: Allowed): MonitorStep {
  const state = observed(before, look, allowed);
  if (state.mode === 'PostCopy') return { state, action: none };
  const converged = allowed.stall
    ? convergeByPasses(state, look, allowed, allowed.stall)
    : disruptWhenLate(state, look, allowed);
  if (converged) return converged;
  const stuckMs = look.elapsedMs - state.progressMs;
  if (allowed.progressTimeoutMs > 0 && stuckMs > allowed.progressTimeoutMs) {
    return { state, action: abort(`no data has moved for ${seconds(stuckMs)} s`) };
  }
  const { switchDeadlineMs } = state;
  if (switchDeadlineMs !== undefined && look.elapsedMs > switchDeadlineMs) {
    return { state, action: abort('the switch to the target has not happened in its time') };
  }
  if (switchDeadlineMs === undefined && isLate(state, look)) {
    return { state, action: abort(`it has not ended within ${seconds(state.acceptableMs ?? 0)} s`) };
  }
  return { state, action: none };
}

function observed(before: MonitorState, { sample, elapsedMs, isPass }: Look, { stall }: Allowed): MonitorState {
  const progressMs = hasMoved(before.last, sample) ? elapsedMs : before.progressMs;
  const state = { ...before, last: sample, progressMs };
  if (!stall) return state;
  const { remainingBytes, memoryBytesPerSecond } = sample;
  if (!isPass) return { ...state, convergence: withBandwidth(state.convergence, memoryBytesPerSecond, stall) };
  return { ...state, remainingBytes, convergence: withPass(state.convergence, { elapsedMs, remainingBytes }, stall) };
}

function disruptWhenLate(state: MonitorState, look: Look, allowed: Allowed): MonitorStep | undefined {
  if (!isLate(state, look) || !allowed.allowsWorkloadDisruption || state.mode !== 'PreCopy') return undefined;
  if (allowed.canPostCopy) return switchToPostCopy(state);
  // The guest stands still until its memory is there, and gets as much time once more.
  const acceptableMs = state.acceptableMs === undefined ? undefined : state.acceptableMs * 2;
  return { state: { ...state, mode: 'Paused', acceptableMs }, action: { kind: 'suspend' } };
}

/** The switch is made at a good moment, once the passes do not get smaller; and when the time is over. */
function convergeByPasses(
  state: MonitorState,
  look: Look,
  allowed: Allowed,
  stall: StallSettings,
): MonitorStep | undefined {
  const { convergence, switchDeadlineMs } = state;
  if (switchDeadlineMs !== undefined) return undefined;
  const remainingBytes = state.remainingBytes ?? look.sample.remainingBytes;
  const pauseMs = transferMs(convergence, remainingBytes);
  if (pauseMs === undefined || !fits(state, look, pauseMs, stall)) return undefined;
  if (isLate(state, look)) {
    if (allowed.canPostCopy) return switchToPostCopy(state);
    return allowed.allowsWorkloadDisruption ? allowDowntime(state, look, anyDowntimeMs, stall) : undefined;
  }
  if (!look.isPass || !convergence.stall || !isAtMinimum(convergence, remainingBytes, stall)) return undefined;
  if (allowed.allowsWorkloadDisruption) {
    return allowed.canPostCopy ? switchToPostCopy(state) : allowDowntime(state, look, anyDowntimeMs, stall);
  }
  const { maxDowntimeMs } = allowed;
  if (pauseMs <= maxDowntimeMs * Math.max(1, stall.preCopyPossibleFactor)) {
    return allowDowntime(state, look, maxDowntimeMs, stall);
  }
  const why = `it does not converge: a pause of ${Math.round(pauseMs)} ms would be needed, ${maxDowntimeMs} ms are allowed`;
  return { state, action: abort(why) };
}

function switchToPostCopy(state: MonitorState): MonitorStep {
  return { state: { ...state, mode: 'PostCopy' }, action: { kind: 'start-post-copy' } };
}

function allowDowntime(
  state: MonitorState,
  { elapsedMs }: Look,
  milliseconds: number,
  { switchoverTimeoutMs }: StallSettings,
): MonitorStep {
  const switchDeadlineMs = elapsedMs + switchoverTimeoutMs;
  return { state: { ...state, switchDeadlineMs }, action: { kind: 'allow-downtime', milliseconds } };
}

/** A network that has just become slow is no reason to stop the guest for minutes. */
function fits({ acceptableMs }: MonitorState, { elapsedMs }: Look, pauseMs: number, stall: StallSettings): boolean {
  return acceptableMs === undefined || pauseMs <= acceptableMs * stall.completionFactor - elapsedMs;
}

function isLate({ acceptableMs }: MonitorState, { elapsedMs }: Look): boolean {
  return acceptableMs !== undefined && elapsedMs > acceptableMs;
}

function hasMoved(before: JobSample | undefined, now: JobSample): boolean {
  if (!before) return true;
  return now.processedBytes > before.processedBytes || now.remainingBytes < before.remainingBytes;
}

const seconds = (ms: number) => Math.round(ms / 1000);

function abort(why: string): MonitorAction {
  return { kind: 'abort', reason: `Live migration has been aborted: ${why}` };
}
