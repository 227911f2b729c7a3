import type { StallSettings } from './settings.ts';

/** The begin of a pass over the guest's memory: the only moment at which the remaining bytes are exact. */
export interface Pass {
  readonly elapsedMs: number;
  readonly remainingBytes: number;
}

/** What is known of how a migration converges (KubeVirt's enhancement proposal 248). Pure data. */
export interface Convergence {
  /** Smoothed; 0: not measured yet. */
  readonly bytesPerMs: number;
  /** Passes within the window, each with less to move than the one before. */
  readonly recent: readonly Pass[];
  /** The least that was left at a pass before the window. */
  readonly oldMinimum: number | undefined;
  readonly stall: Stall | undefined;
}

/** It has stopped to converge, and a good moment for the switch is waited for. */
interface Stall {
  /** What is good enough. */
  readonly best: number;
  /** Remaining bytes of the passes since, the least first. */
  readonly seen: readonly number[];
  readonly patienceMs: number;
  readonly deadlineMs: number;
}

export const noConvergence: Convergence = { bytesPerMs: 0, recent: [], oldMinimum: undefined, stall: undefined };

const maxSeen = 1000;

export function withBandwidth(before: Convergence, bytesPerSecond: number, { smoothing }: StallSettings): Convergence {
  if (bytesPerSecond <= 0) return before;
  const now = bytesPerSecond / 1000;
  const bytesPerMs = before.bytesPerMs === 0 ? now : smoothing * now + (1 - smoothing) * before.bytesPerMs;
  return { ...before, bytesPerMs };
}

/** Without a bandwidth nothing can be reckoned, so the passes before it do not count. */
export function withPass(before: Convergence, pass: Pass, settings: StallSettings): Convergence {
  if (before.bytesPerMs === 0) return before;
  const known = aged(before, pass, settings);
  if (known.stall) return { ...known, stall: relaxed(known.stall, pass, settings) };
  const { oldMinimum } = known;
  if (oldMinimum === undefined || pass.remainingBytes < oldMinimum * (1 - settings.margin)) return known;
  const best = Math.min(oldMinimum, ...known.recent.map(({ remainingBytes }) => remainingBytes));
  const patienceMs = settings.progressTimeoutMs;
  return { ...known, stall: { best, seen: [], patienceMs, deadlineMs: pass.elapsedMs + patienceMs } };
}

export function isAtMinimum({ stall }: Convergence, remainingBytes: number, settings: StallSettings): boolean {
  if (!settings.searchesMinimum || !stall) return true;
  return remainingBytes <= stall.best * (1 + settings.margin);
}

/** Undefined: not known. */
export function transferMs({ bytesPerMs }: Convergence, remainingBytes: number): number | undefined {
  return bytesPerMs === 0 ? undefined : remainingBytes / bytesPerMs;
}

/** Only new minima are kept: of the others none can become the least before the window. */
function aged(before: Convergence, pass: Pass, { progressTimeoutMs }: StallSettings): Convergence {
  const isOld = ({ elapsedMs }: Pass) => pass.elapsedMs - elapsedMs >= progressTimeoutMs;
  const old = before.recent.filter(isOld).map(({ remainingBytes }) => remainingBytes);
  const minima = before.oldMinimum === undefined ? old : [before.oldMinimum, ...old];
  const oldMinimum = minima.length === 0 ? undefined : Math.min(...minima);
  const recent = before.recent.filter((each) => !isOld(each));
  const least = recent.at(-1)?.remainingBytes ?? oldMinimum ?? Number.POSITIVE_INFINITY;
  return { ...before, oldMinimum, recent: pass.remainingBytes < least ? [...recent, pass] : recent };
}

/** When nothing as good as before comes in time, the best of what came instead is good enough; each time sooner. */
function relaxed(stall: Stall, pass: Pass, { patienceDecay }: StallSettings): Stall {
  const seen = [...stall.seen, pass.remainingBytes].sort((a, b) => a - b).slice(0, maxSeen);
  if (pass.elapsedMs < stall.deadlineMs) return { ...stall, seen };
  const [best = stall.best, ...others] = seen;
  const patienceMs = stall.patienceMs * patienceDecay;
  return { best, seen: others, patienceMs, deadlineMs: pass.elapsedMs + patienceMs };
}
