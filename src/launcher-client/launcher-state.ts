import type { LauncherHost } from './launcher-host.ts';
import type { LauncherTarget } from './sockets.ts';
import { emptyPods, type Verdict } from './verdict.ts';

/**
 * Looked up in the file system and by a bare connect(), without a call to the launcher (spec 20 §8.2). Upstream's mark
 * `launcher-unresponsive` is written for upstream's agent and not believed: it says that somebody gave up waiting, which
 * proves nothing, and a launcher that was restarted in place finds its predecessor's.
 */
export type LauncherState =
  | { readonly kind: 'ready'; readonly connected: boolean }
  /** The pod is there, its socket not yet, or nobody listens on it yet. */
  | { readonly kind: 'not-ready'; readonly forMs: number }
  /** No pod directory, its process ended, nobody listens, or no socket for three minutes. */
  | { readonly kind: 'dead'; readonly reason: string }
  /** Several sockets for one VMI, a place that cannot be read, a process without its socket: proves nothing. */
  | { readonly kind: 'unclear'; readonly reason: string };

export function stateOf(verdict: Verdict): LauncherState {
  if (verdict.kind === 'dead') return { kind: 'dead', reason: `the launcher is dead: ${verdict.proof}` };
  // One that hangs can be dialled, with a time limit; that its socket went away is another matter.
  if (verdict.kind === 'alive' || verdict.listening === 'hung') return { kind: 'ready', connected: false };
  return { kind: 'unclear', reason: verdict.reason };
}

export interface WaitLimits {
  readonly initTimeoutMs: number;
  readonly podsDir: string;
}

/** `forMs`: since the first look that found none. Throws when it cannot look. */
export function stateWithoutSocket(
  target: LauncherTarget,
  forMs: number,
  host: LauncherHost,
  { initTimeoutMs, podsDir }: WaitLimits,
): LauncherState {
  const { process } = target;
  if (process && host.isProcessAlive(process)) {
    return { kind: 'unclear', reason: `the launcher's process ${process.pid} runs and its socket is gone` };
  }
  if (!host.hasPodDirectory(target)) {
    if (host.hasAnyPod()) return { kind: 'dead', reason: 'the launcher pod is gone' };
    return { kind: 'unclear', reason: emptyPods(podsDir) };
  }
  if (forMs < initTimeoutMs) return { kind: 'not-ready', forMs };
  return { kind: 'dead', reason: `the launcher made no socket within ${initTimeoutMs / 1_000} s` };
}
