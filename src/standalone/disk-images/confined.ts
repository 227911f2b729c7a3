import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { errorCode, errorMessage } from '../../base/index.ts';
import { findSystemProgram } from '../../host/index.ts';
import { NodeError } from '../errors.ts';

/** No user of the machine, and not that of guests: what breaks out of a program that reads foreign bytes finds nothing that is its own. */
export const importUser = { uid: 64_207, gid: 64_207 };

export interface Limits {
  /** Address space. */
  readonly memoryBytes: number;
  readonly cpuSeconds: number;
  /** Of each file that it writes. */
  readonly fileBytes: number;
  /** Real time until it is killed; a day at the most. */
  readonly timeoutMs: number;
}

export interface ConfinedOptions {
  /** Where it runs; all that it can reach with its rights besides what every user may read. */
  readonly dir: string;
  readonly limits: Limits;
  readonly signal: AbortSignal;
  /** Without it the program has no network, not even this machine's. */
  readonly network?: true;
  /** Given to it and closed. */
  readonly input?: string;
  /** A file that it reads as standard input, open for reading. */
  readonly inputFile?: number;
  /** A file that it writes as standard output, open for writing. */
  readonly outputFile?: number;
  /** Hears each piece that the program writes to standard output. */
  readonly onOutput?: (text: string) => void;
}

/** How a program ended that did not do its work. */
export class ConfinedFailure extends Error {
  /** Undefined: a signal ended it. */
  readonly exitCode: number | undefined;
  readonly signal: NodeJS.Signals | undefined;
  readonly words: string;

  constructor(program: string, end: { exitCode?: number; signal?: NodeJS.Signals }, words: string) {
    super(`${program} failed (${end.signal ?? `code ${end.exitCode}`}): ${words}`);
    this.exitCode = end.exitCode;
    this.signal = end.signal;
    this.words = words;
  }
}

const maxOutputBytes = 1 << 20;
const dayMs = 24 * 3_600_000;
const packages: Readonly<Record<string, string>> = {
  'qemu-img': 'qemu-utils',
  xz: 'xz-utils',
  unshare: 'util-linux',
  setpriv: 'util-linux',
  prlimit: 'util-linux',
};

/**
 * Runs a program that reads foreign bytes: as a user that owns nothing but `dir`, without capabilities, within limits, killed with
 * this process. Resolves with its standard output, of which it keeps a mebibyte. Rejects with ConfinedFailure, NodeError
 * (PROGRAM_MISSING, TIMEOUT), or the signal's reason.
 */
export async function runConfined(argv: readonly [string, ...string[]], options: ConfinedOptions): Promise<string> {
  const { dir, limits, signal, input, inputFile, outputFile, onOutput } = options;
  signal.throwIfAborted();
  const timeout = AbortSignal.timeout(Math.min(limits.timeoutMs, dayMs));
  const [name] = argv;
  const [command = '', ...args] = confined(argv, options);
  const child = spawn(command, args, {
    cwd: dir,
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8', HOME: '/nonexistent' },
    stdio: [inputFile ?? (input === undefined ? 'ignore' : 'pipe'), outputFile ?? 'pipe', 'pipe'],
    signal: AbortSignal.any([signal, timeout]),
    killSignal: 'SIGKILL',
  });
  const output = collect(child.stdout, onOutput);
  const words = collect(child.stderr);
  child.stdin?.on('error', () => undefined).end(input);
  const end = await new Promise<{ exitCode?: number; signal?: NodeJS.Signals; error?: Error }>((resolve) => {
    let error: Error | undefined;
    child.once('error', (problem) => {
      error = problem;
      // Without a process there is no further event.
      if (child.pid === undefined) resolve({ error });
    });
    child.once('close', (exitCode, killedBy) =>
      resolve({ ...(error && { error }), ...(killedBy ? { signal: killedBy } : { exitCode: exitCode ?? -1 }) }),
    );
  });
  signal.throwIfAborted();
  if (timeout.aborted) {
    throw new NodeError('TIMEOUT', `${name} did not end within ${limits.timeoutMs / 1000} s and was killed`);
  }
  if (end.error) throw new NodeError('CHILD_FAILED', `${name}: ${errorMessage(end.error)}`, { cause: end.error });
  if (end.exitCode === 0) return output();
  throw new ConfinedFailure(name, end, lastLine(words()));
}

function confined([name, ...args]: readonly [string, ...string[]], { limits, network }: ConfinedOptions): string[] {
  const { memoryBytes, cpuSeconds, fileBytes } = limits;
  const bounds = [`--as=${memoryBytes}`, `--cpu=${cpuSeconds}`, `--fsize=${fileBytes}`, '--core=0', '--nofile=256'];
  const asRoot = process.geteuid?.() === 0;
  const { uid, gid } = importUser;
  const rights = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--bounding-set=-all', '--inh-caps=-all'];
  return [
    ...(asRoot && !network ? [program('unshare'), '--net', '--'] : []),
    ...[program('prlimit'), ...bounds, '--', program('nice'), '-n', '10'],
    ...[program('setpriv'), ...(asRoot ? rights : []), '--no-new-privs', '--pdeathsig=KILL', '--'],
    ...[program(name), ...args],
  ];
}

function program(name: string): string {
  const file = findSystemProgram(name);
  if (file) return file;
  throw new NodeError('PROGRAM_MISSING', `${name} is missing (apt-get install ${packages[name] ?? name})`);
}

function collect(stream: Readable | null, hear?: (text: string) => void): () => string {
  let text = '';
  stream?.setEncoding('utf8').on('data', (piece: string) => {
    text = (text + piece).slice(-maxOutputBytes);
    hear?.(piece);
  });
  return () => text;
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 500) || 'no message';
}

/** What a full disk is called by the system and by programs. */
export function isNoSpace(error: unknown): boolean {
  if (errorCode(error) === 'ENOSPC' || errorCode(error) === 'EDQUOT') return true;
  return error instanceof ConfinedFailure && /No space left|Disk quota exceeded/i.test(error.words);
}
