import { readFileSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import path from 'node:path';
import { CodedError, errorMessage } from '../base/index.ts';
import { underExecLabel } from './exec-label.ts';
import { type LightChild, loadLightSpawn, type ProgramEnd } from './light-spawn.ts';
import type { NetNamespace } from './net-namespace.ts';

type NamespaceProgramErrorCode =
  /** It is not installed, or may not be started. */
  | 'NOT_STARTED'
  /** It said no. */
  | 'FAILED'
  /** It was ended, by a signal or because it took too long. */
  | 'ENDED'
  | 'TOO_LARGE';

class NamespaceProgramError extends CodedError<NamespaceProgramErrorCode> {}

export interface NamespaceProgram {
  readonly program: string;
  readonly args: readonly string[];
  /** Its standard input; nothing to read without it. */
  readonly input?: string;
  /** SELinux' label that it runs under. */
  readonly execLabel?: string;
}

/** Where distributions have programs for root; the agent's own PATH may be without. */
const searchPath = '/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin';
const maxOutputBytes = 4 * 1024 * 1024;
const maxMessageLength = 600;

/** Runs a program in a network namespace to its end, and gives what it printed. Rejects with NamespaceProgramError. */
export async function runInNamespace(
  namespace: NetNamespace,
  { program, args, input = '', execLabel }: NamespaceProgram,
  signal: AbortSignal,
): Promise<string> {
  const fail = (code: NamespaceProgramErrorCode, text: string) =>
    new NamespaceProgramError(code, `${program}: ${text}`);
  // Nothing of the agent's environment goes to it: no token, no proxy, no language.
  const env = { PATH: searchPath, LC_ALL: 'C' };
  const spawn = await loadLightSpawn();
  if (signal.aborted) throw fail('ENDED', `not begun: ${errorMessage(signal.reason)}`);
  const child = namespace.run((): LightChild | NamespaceProgramError => {
    try {
      const start = () => spawn({ program, args, env, input });
      return execLabel === undefined ? start() : underExecLabel(execLabel, start);
    } catch (cause) {
      return fail('NOT_STARTED', `it cannot be started (${errorMessage(cause)}): is it installed?`);
    }
  });
  if (child instanceof NamespaceProgramError) throw child;
  const output = new Output();
  const end = await endOf(child, output, signal);
  if (output.isTooLarge) throw fail('TOO_LARGE', `it printed more than ${maxOutputBytes} bytes`);
  if (signal.aborted) throw fail('ENDED', errorMessage(signal.reason));
  if (end.kind === 'killed') throw fail('ENDED', `it was ended by ${end.signal}`);
  if (end.code === 0) return output.printed;
  throw fail('FAILED', output.complained.trim().slice(0, maxMessageLength) || `code ${end.code}`);
}

/** Ends it when it takes too long or prints too much. */
async function endOf(child: LightChild, output: Output, signal: AbortSignal): Promise<ProgramEnd> {
  const { stdout, stderr } = child;
  const end = () => {
    child.kill();
    // What it started itself may hold them open.
    stdout.destroy();
    stderr.destroy();
  };
  signal.addEventListener('abort', end, { once: true });
  const read = (stream: Socket, where: 'printed' | 'complained') => {
    stream.setEncoding('utf8').on('data', (text: string) => {
      if (!output.add(where, text)) end();
    });
    return new Promise((resolve) => stream.on('error', () => undefined).once('close', resolve));
  };
  await Promise.all([read(stdout, 'printed'), read(stderr, 'complained')]);
  const seen = await child.ended();
  signal.removeEventListener('abort', end);
  return seen;
}

class Output {
  printed = '';
  complained = '';
  isTooLarge = false;

  /** False: it is too much. */
  add(where: 'printed' | 'complained', text: string): boolean {
    if (this.printed.length + this.complained.length + text.length > maxOutputBytes) this.isTooLarge = true;
    else this[where] += text;
    return !this.isTooLarge;
  }
}

/** Names of the links in a namespace, which takes no program. */
export function linkNamesIn(namespace: NetNamespace): string[] {
  const text = namespace.run(() => readFileSync('/proc/thread-self/net/dev', 'utf8'));
  return text
    .split('\n')
    .slice(2)
    .flatMap((line) => (line.includes(':') ? [line.slice(0, line.lastIndexOf(':')).trim()] : []));
}

/** A value below `/proc/sys/net`: files there are those of the namespace of the thread that opens them. */
export function readNetworkSetting(namespace: NetNamespace, name: string): string {
  const file = settingFile(name);
  return namespace.run(() => readFileSync(file, 'utf8')).trim();
}

export function writeNetworkSetting(namespace: NetNamespace, name: string, value: string): void {
  const file = settingFile(name);
  namespace.run(() => writeFileSync(file, value));
}

/** A link may have a dot in its name, and none leads elsewhere. */
function settingFile(name: string): string {
  const file = path.posix.join('/proc/sys', name);
  if (file === `/proc/sys/${name}` && name.startsWith('net/')) return file;
  throw new Error(`${JSON.stringify(name)} is no setting of a network`);
}
