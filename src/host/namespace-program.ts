import type { ChildProcess } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { CodedError, errorMessage } from '../base/index.ts';
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
  /** Its standard input; without it there is none to read. */
  readonly input?: string;
  /** SELinux' label that it runs under. */
  readonly execLabel?: string;
}

/** Where distributions have programs for root; the agent's own PATH may be without. */
const searchPath = '/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin';
const maxOutputBytes = 4 * 1024 * 1024;
const maxMessageLength = 600;

/** Runs a program in a network namespace to its end, and gives what it printed. Rejects with NamespaceProgramError. */
export function runInNamespace(
  namespace: NetNamespace,
  { program, args, input, execLabel }: NamespaceProgram,
  signal: AbortSignal,
): Promise<string> {
  // Nothing of the agent's environment goes to it: no token, no proxy, no language.
  const env = { PATH: searchPath, LC_ALL: 'C' };
  return new Promise((resolve, reject) => {
    const fail = (code: NamespaceProgramErrorCode, text: string) =>
      reject(new NamespaceProgramError(code, `${program}: ${text}`));
    if (signal.aborted) return fail('ENDED', `not begun: ${errorMessage(signal.reason)}`);
    let child: ChildProcess;
    try {
      const stdin = input === undefined ? 'ignore' : 'pipe';
      const label = execLabel === undefined ? {} : { execLabel };
      child = namespace.spawn(program, args, { env, stdio: [stdin, 'pipe', 'pipe'], cwd: '/', ...label });
    } catch (cause) {
      return reject(cause);
    }
    const end = () => {
      child.kill('SIGKILL');
      // What it started itself may hold them open.
      child.stdout?.destroy();
      child.stderr?.destroy();
    };
    signal.addEventListener('abort', end, { once: true });
    const output = new Output(end);
    child.stdout?.setEncoding('utf8').on('data', (text: string) => output.add('printed', text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => output.add('complained', text));
    // It may end before it has read all: what it says counts.
    child.stdin?.on('error', () => undefined).end(input);
    child.on('error', (error) => fail('NOT_STARTED', `it cannot be started (${error.message}): is it installed?`));
    child.on('close', (code, by) => {
      signal.removeEventListener('abort', end);
      if (output.isTooLarge) fail('TOO_LARGE', `it printed more than ${maxOutputBytes} bytes`);
      else if (signal.aborted) fail('ENDED', errorMessage(signal.reason));
      else if (by) fail('ENDED', `it was ended by ${by}`);
      else if (code !== 0) fail('FAILED', output.complained.trim().slice(0, maxMessageLength) || `code ${code}`);
      else resolve(output.printed);
    });
  });
}

class Output {
  printed = '';
  complained = '';
  isTooLarge = false;
  readonly #end: () => void;

  constructor(end: () => void) {
    this.#end = end;
  }

  add(where: 'printed' | 'complained', text: string): void {
    if (this.printed.length + this.complained.length + text.length > maxOutputBytes) {
      this.isTooLarge = true;
      this.#end();
    } else this[where] += text;
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
