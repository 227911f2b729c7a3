import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { closeSync, mkdirSync, readSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorMessage, plainText, sleep } from '../../base/index.ts';
import { findSystemProgram, isProcessAlive, loadMemoryFiles, type ProcessId, processIdOf } from '../../host/index.ts';
import { ControlConnection } from './control-connection.ts';
import { MigrationProxyError } from './errors.ts';
import { orderProgram } from './stream-order.ts';

/** Undefined: it is not installed. */
export function findHaproxy(): string | undefined {
  return findSystemProgram('haproxy');
}

/** What programs of that name say of themselves, in a moment. */
const tellMs = 5_000;

const unordered =
  'this HAProxy is older than 2.6 or built without Lua: install one with Lua; QEMU before 8.0 needs the order';

/**
 * Whether a build keeps streams in order: it has Lua, and rules that count connections (2.6, the oldest that was tried). That it does is
 * kept as long as the file is the same; that it does not, or does not say so, is asked again: it may have been a busy moment.
 */
export class OrderProbe {
  #keeping: string | undefined;

  /** Why it keeps none, in words; undefined: it does. Rejects with the signal's reason. */
  async objection(program: string, signal?: AbortSignal): Promise<string | undefined> {
    try {
      const { mtimeMs, ino } = statSync(program);
      const build = `${program} ${ino} ${mtimeMs}`;
      if (build === this.#keeping) return undefined;
      const limits = { env: {}, timeout: tellMs, ...(signal && { signal }) };
      const { stdout } = await promisify(execFile)(program, ['-vv'], limits);
      if (!saysItKeepsOrder(stdout)) return unordered;
      this.#keeping = build;
      return undefined;
    } catch (error) {
      signal?.throwIfAborted();
      return `this HAProxy does not say what it can: ${errorMessage(error)}`;
    }
  }
}

/** Reads `haproxy -vv`. */
export function saysItKeepsOrder(text: string): boolean {
  const [, major = 0, minor = 0] = /^HA-?Proxy version (\d{1,4})\.(\d{1,4})/.exec(text)?.map(Number) ?? [];
  return (major > 2 || (major === 2 && minor >= 6)) && /^Built with Lua version/m.test(text);
}

export interface ProgramStart {
  readonly program: string;
  /** Where the control socket is made. */
  readonly directory: string;
  readonly controlName: string;
  readonly configuration: string;
  /** PEM of the certificate and its key, and of the authorities. */
  readonly keyPair: string;
  readonly authorities: string;
  /** Descriptors of sockets that listen. */
  readonly listeners: readonly number[];
  /** Called before anything is awaited, so that no process is ever forgotten. */
  readonly onSpawned: (process: ProcessId) => void;
}

const startMs = 10_000;
const endMs = 2_000;
const maxWords = 500;

/** An empty root directory for a process that needs no file. */
export function makeEmptyRoot(directory: string): string {
  const empty = path.join(directory, 'empty');
  mkdirSync(empty, { recursive: true, mode: 0o755 });
  return empty;
}

/**
 * Starts the program in a session of its own: it outlives this one. Resolves when it serves. Rejects with MigrationProxyError
 * START_FAILED and the program's own words, or with the signal's reason; nothing of it runs then.
 */
export async function startHaproxy(start: ProgramStart, signal: AbortSignal): Promise<ControlConnection> {
  const memoryFile = await loadMemoryFiles();
  signal.throwIfAborted();
  const words = memoryFile('words', '');
  const files: number[] = [words];
  try {
    for (const content of [start.configuration, start.keyPair, start.authorities, orderProgram]) {
      files.push(memoryFile('haproxy', content));
    }
    rmSync(path.join(start.directory, start.controlName), { force: true });
    const child = spawn(start.program, ['-db', '-f', '/dev/fd/3'], {
      cwd: start.directory,
      env: {},
      detached: true,
      stdio: ['ignore', 'ignore', ...files, ...start.listeners],
    });
    return await served(child, start, () => textOf(words), signal);
  } finally {
    for (const fd of files) closeSync(fd);
  }
}

async function served(
  child: ChildProcess,
  start: ProgramStart,
  words: () => string,
  signal: AbortSignal,
): Promise<ControlConnection> {
  let failure: string | undefined;
  child.once('error', (error) => {
    failure = errorMessage(error);
  });
  child.once('exit', (code, name) => {
    failure = `it ended with ${code ?? name}`;
  });
  child.unref();
  const process = child.pid === undefined ? undefined : processIdOf(child.pid);
  if (process) start.onSpawned(process);
  const beganMs = performance.now();
  try {
    for (let problem = 'it does not listen'; ; ) {
      signal.throwIfAborted();
      if (failure !== undefined)
        throw new MigrationProxyError('START_FAILED', `haproxy did not start: ${failure} ${words()}`.trim());
      if (performance.now() - beganMs > startMs) {
        throw new MigrationProxyError('START_FAILED', `haproxy does not serve: ${problem} ${words()}`.trim());
      }
      const connection = await ControlConnection.open(start.directory, start.controlName).catch((error: unknown) => {
        problem = errorMessage(error);
      });
      if (connection) return connection;
      await sleep(10);
    }
  } catch (error) {
    if (process) await endProcess(process);
    throw error;
  }
}

function textOf(fd: number): string {
  const buffer = Buffer.alloc(maxWords);
  return plainText(buffer.toString('latin1', 0, readSync(fd, buffer, 0, maxWords, 0))).trim();
}

/**
 * Resolves when it has ended; a process that does not end when asked is killed. `drainMs`: so long it takes no new streams and lets
 * those that it has come to their end.
 */
export async function endProcess(process: ProcessId, { drainMs = 0 } = {}): Promise<void> {
  if (drainMs > 0 && (await hasEndedBy(process, 'SIGUSR1', drainMs))) return;
  if (!(await hasEndedBy(process, 'SIGTERM'))) await killProcess(process);
}

/** At once: one that is frozen would not hear anything else. Resolves when it has ended, or the kernel does not let go of it. */
export async function killProcess(process: ProcessId): Promise<void> {
  await hasEndedBy(process, 'SIGKILL');
}

async function hasEndedBy(process: ProcessId, signal: NodeJS.Signals, waitMs = endMs): Promise<boolean> {
  if (!send(process, signal)) return true;
  for (const beganMs = performance.now(); performance.now() - beganMs < waitMs; await sleep(10)) {
    if (!isProcessAlive(process)) return true;
  }
  return false;
}

/** False: it has ended. */
function send({ pid, startTime }: ProcessId, signal: NodeJS.Signals): boolean {
  if (!isProcessAlive({ pid, startTime })) return false;
  try {
    process.kill(pid, signal);
    return true;
  } catch {
    return false;
  }
}
