import type { LauncherAddress, LauncherState, LauncherTarget } from '../api/index.ts';
import { type Clock, sleep } from '../base/index.ts';
import type { OpenConnection } from './connection.ts';
import type { LauncherHost } from './launcher-host.ts';
import type { Listening } from './probe.ts';

/** Whether a launcher process runs. `dead` is a proof, `unknown` is nothing. */
export type Liveness =
  | { readonly kind: 'alive' }
  | { readonly kind: 'dead'; readonly proof: string }
  | { readonly kind: 'unknown'; readonly reason: string; readonly listening: Listening };

export interface LivenessOptions {
  readonly podsDir: string;
  /** Between two probes of a launcher that seems to be ending. */
  readonly recheckMs: number;
}

export interface LivenessDeps {
  readonly host: LauncherHost;
  readonly clock: Clock;
  /** In place of the host's. */
  readonly probe?: LauncherHost['probe'];
}

/** A process closes its sockets one by one and is seen in /proc a little longer: as many probes before giving up. */
const probes = 5;

/** Of a process that is not known the refusals alone must prove its end; one between bind() and listen() refuses, too. */
const probesWithoutProcess = 10;

/**
 * Whether a launcher still runs: a refusal on its socket together with the end of its process is the proof that it does not.
 * Upstream connects every 11 s and concludes after 30 s of failures (`pkg/virt-handler/cache/domain-watcher.go`).
 * `own`: the connection to it, whose socket is pinned. Never rejects.
 */
export async function judgeLiveness(
  { socketFile, process: remembered }: LauncherAddress,
  own: OpenConnection | undefined,
  { podsDir, recheckMs }: LivenessOptions,
  { host, clock, probe = host.probe }: LivenessDeps,
): Promise<Liveness> {
  const process = own?.peer ?? remembered;
  let listening = await probe(socketFile, own);
  const tries = process ? probes : probesWithoutProcess;
  const isProcessAlive = () => process === undefined || host.isProcessAlive(process);
  for (let tried = 1; tried < tries && isEnding(listening, isProcessAlive, own); tried++) {
    await sleep(recheckMs, undefined, clock);
    listening = await probe(socketFile, own);
  }
  const unknown = (reason: string): Liveness => ({ kind: 'unknown', reason, listening });
  if (listening === 'listening') return { kind: 'alive' };
  if (listening === 'hung' || listening === 'unclear') return unknown(`its socket is ${listening}`);
  if (process && !host.isProcessAlive(process)) return { kind: 'dead', proof: `process ${process.pid} ended` };
  if (process) return unknown(`process ${process.pid} runs, its socket is ${listening}`);
  if (listening === 'refused') return { kind: 'dead', proof: 'nobody listens on its socket' };
  if (host.hasAnyPod()) return { kind: 'dead', proof: 'its socket is gone' };
  return unknown(emptyPods(podsDir));
}

/** Nothing is known of launchers then: a mount is missing rather than that all of them died. */
export function emptyPods(podsDir: string): string {
  return `${podsDir} is empty or cannot be read: mount the directory of the kubelet's pods there`;
}

/** Whether another probe can show more. */
function isEnding(listening: Listening, isProcessAlive: () => boolean, own: OpenConnection | undefined): boolean {
  if (listening === 'refused') return isProcessAlive();
  return listening === 'listening' && own !== undefined && !own.closed && !own.connected;
}

export function stateOf(liveness: Liveness): LauncherState {
  if (liveness.kind === 'dead') return { kind: 'dead', reason: `the launcher is dead: ${liveness.proof}` };
  // One that hangs can be dialled, with a time limit; that its socket went away is another matter.
  if (liveness.kind === 'alive' || liveness.listening === 'hung') return { kind: 'ready', connected: false };
  return { kind: 'unclear', reason: liveness.reason };
}

/** `forMs`: since the socket was first found to be missing. Throws when the pods' directory cannot be searched. */
export function stateWithoutSocket(
  target: LauncherTarget,
  forMs: number,
  host: LauncherHost,
  { initTimeoutMs, podsDir }: { readonly initTimeoutMs: number; readonly podsDir: string },
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
