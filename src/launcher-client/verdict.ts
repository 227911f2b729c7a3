import { type Clock, sleep } from '../base/index.ts';
import type { ProcessId } from '../host/index.ts';
import type { OpenConnection } from './connection.ts';
import type { LauncherHost } from './launcher-host.ts';
import type { Listening } from './probe.ts';

/** What is known of a launcher process. `dead` is a proof, `unknown` is nothing. */
export type Verdict =
  | { readonly kind: 'alive' }
  | { readonly kind: 'dead'; readonly proof: string }
  | { readonly kind: 'unknown'; readonly reason: string; readonly listening: Listening };

/** A launcher that was seen before; `process` when it was connected to. */
export interface KnownLauncher {
  readonly uid: string;
  readonly socketFile: string;
  readonly process?: ProcessId | undefined;
}

export interface JudgeOptions {
  readonly host: LauncherHost;
  readonly podsDir: string;
  /** Between two looks at a launcher that seems to be ending. */
  readonly recheckMs: number;
  readonly clock: Clock;
  /** In place of the host's. */
  readonly probe?: LauncherHost['probe'];
}

/** A process closes its sockets one by one and is seen in /proc a little longer: as many looks before giving up. */
const looks = 5;

/** Of a process that is not known the refusals alone must prove its end; one between bind() and listen() refuses, too. */
const looksWithoutProcess = 10;

/**
 * Whether a launcher still runs (spec 20 §12): a refusal on its socket together with the end of its process is the proof
 * that it does not. `own`: the connection to it, whose socket is pinned. Never rejects.
 */
export async function judgeLauncher(
  known: KnownLauncher,
  own: OpenConnection | undefined,
  { host, podsDir, recheckMs, clock, probe = host.probe }: JudgeOptions,
): Promise<Verdict> {
  const process = own?.peer ?? known.process;
  let listening = await probe(known.socketFile, own);
  const tries = process ? looks : looksWithoutProcess;
  for (let look = 1; look < tries && isEnding(listening, process, own, host); look++) {
    await sleep(recheckMs, undefined, clock);
    listening = await probe(known.socketFile, own);
  }
  const unknown = (reason: string): Verdict => ({ kind: 'unknown', reason, listening });
  if (listening === 'listening') return { kind: 'alive' };
  if (listening === 'hung' || listening === 'unclear') return unknown(`its socket is ${listening}`);
  if (process && !host.isProcessAlive(process)) return { kind: 'dead', proof: `process ${process.pid} ended` };
  if (process) return unknown(`process ${process.pid} runs, its socket is ${listening}`);
  if (listening === 'refused') return { kind: 'dead', proof: 'nobody listens on its socket' };
  if (host.hasAnyPod()) return { kind: 'dead', proof: 'its socket is gone' };
  return unknown(emptyPods(podsDir));
}

/** Nothing can be told of launchers then: a mount is missing rather than that all of them died. */
export function emptyPods(podsDir: string): string {
  return `${podsDir} is empty or cannot be read: mount the directory of the kubelet's pods there`;
}

/** Whether another look can tell more. */
function isEnding(
  listening: Listening,
  process: ProcessId | undefined,
  own: OpenConnection | undefined,
  host: LauncherHost,
): boolean {
  if (listening === 'refused') return process === undefined || host.isProcessAlive(process);
  return listening === 'listening' && own !== undefined && !own.closed && !own.connected;
}
