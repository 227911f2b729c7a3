import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { errorMessage } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { isAlive, type ProcessIdentity } from '../process-identity.ts';
import { podProgramWords } from './sandbox-script.ts';
import { shellQuote } from './shell-quote.ts';

export interface SandboxCommand {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** `pipe` each; or the descriptor of a terminal, which becomes the command's own, for all three. */
  readonly stdio: 'pipes' | { readonly terminal: number };
}

/** Where it runs: a pod's process 1, and the pod's cgroup where there is one. */
export interface SandboxPlace {
  readonly init: ProcessIdentity;
  readonly cgroup: string | undefined;
}

/** What a pod has for its own, as namespaces. Mounts last: from there on /proc is the pod's. */
const namespaces = ['pid', 'ipc', 'net', 'mnt'] as const;
const firstFd = 3;
/** Of the programs that lead into the pod; the command's own comes after them. */
const outerEnv = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C' };

/**
 * Starts a command in a pod that runs, with the rights of the pod's program and no more. It is the first of a process group of its own. Nothing is
 * waited for once it is started: listen at once, a short one ends soon. Rejects with NodeError SANDBOX when the pod has ended, or no process can be
 * started.
 */
export async function execInSandbox(place: SandboxPlace, command: SandboxCommand): Promise<ChildProcess> {
  const opened: number[] = [];
  try {
    for (const name of namespaces) opened.push(openSync(`/proc/${place.init.pid}/ns/${name}`, 'r'));
    // Only now: what was opened is that of the pod, and not of a process that has its number by now.
    if (!(await isAlive(place.init))) throw new Error('its process 1 is gone');
    const child = start(place, command, opened);
    if (child.pid === undefined) throw (await once(child, 'error'))[0];
    return child;
  } catch (cause) {
    throw new NodeError('SANDBOX', `nothing can be run in the pod: ${errorMessage(cause)}`, { cause });
  } finally {
    for (const fd of opened) closeSync(fd);
  }
}

function start({ cgroup }: SandboxPlace, command: SandboxCommand, opened: readonly number[]): ChildProcess {
  const { stdio } = command;
  const own = stdio === 'pipes' ? (['pipe', 'pipe', 'pipe'] as const) : Array(3).fill(stdio.terminal);
  return spawn('/bin/sh', ['-c', outerScript(cgroup), 'exec', ...wordsOf(command)], {
    cwd: '/',
    detached: true,
    env: outerEnv,
    stdio: [...own, ...opened],
  });
}

/** Ends all of a command that was started in a pod: it and its process group, and what has its terminal hears that that is gone. */
export function endCommand(child: ChildProcess): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has just ended.
  }
}

function outerScript(cgroup: string | undefined): string {
  const enter = namespaces.map(
    (name, index) => `--${name === 'mnt' ? 'mount' : name}=/proc/self/fd/${firstFd + index}`,
  );
  const join = cgroup ? `(echo $$ >"$CGROUP") 2>/dev/null; ` : '';
  const place = cgroup ? `CGROUP=${shellQuote(`${cgroup}/cgroup.procs`)}; ` : '';
  const closing = namespaces.map((_, index) => `${firstFd + index}<&-`).join(' ');
  return `${place}${join}exec nsenter ${enter.join(' ')} -- /bin/sh -c 'exec "$@" ${closing}' exec "$@"`;
}

/** A session of its own makes the terminal the command's. */
function wordsOf({ argv, env, stdio }: SandboxCommand): string[] {
  return podProgramWords(stdio === 'pipes' ? argv : ['setsid', '--ctty', ...argv], env);
}
