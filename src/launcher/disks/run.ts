import { spawn } from 'node:child_process';
import { errorCode } from '../../base/index.ts';
import { DiskError } from './errors.ts';

export interface ToolOptions {
  /** Real time until the tool is killed. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Address space and CPU time, for tools that read untrusted files. */
  readonly limits?: { readonly memoryBytes: number; readonly cpuSeconds: number };
}

const maxOutputBytes = 1 << 20;
const packages: Readonly<Record<string, string>> = {
  'qemu-img': 'qemu-utils',
  genisoimage: 'genisoimage',
  prlimit: 'util-linux',
};

/** Runs a tool without a shell and gives its standard output. Throws `TOOL_FAILED` with the tool's last words. */
export async function runTool(tool: string, args: readonly string[], options: ToolOptions): Promise<string> {
  const { limits } = options;
  if (!limits) return runLimited(tool, tool, args, options);
  const prefix = [`--as=${limits.memoryBytes}`, `--cpu=${limits.cpuSeconds}`, '--core=0', '--', tool];
  return runLimited(tool, 'prlimit', [...prefix, ...args], options);
}

function runLimited(tool: string, command: string, args: readonly string[], options: ToolOptions): Promise<string> {
  const timeout = AbortSignal.timeout(options.timeoutMs);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  return new Promise((resolve, reject) => {
    const fail = (problem: string, cause?: unknown) =>
      reject(new DiskError('TOOL_FAILED', `${tool} ${problem}`, { cause }));
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], signal, killSignal: 'SIGKILL' });
    const output = { stdout: '', stderr: '' };
    const collect = (name: 'stdout' | 'stderr') => (text: string) => {
      output[name] = (output[name] + text).slice(-maxOutputBytes);
    };
    child.stdout.setEncoding('utf8').on('data', collect('stdout'));
    child.stderr.setEncoding('utf8').on('data', collect('stderr'));
    child.on('error', (error) => {
      if (errorCode(error) === 'ENOENT')
        fail(`is not installed: install the package ${packages[command] ?? command}`, error);
      else if (timeout.aborted) fail(`did not end within ${options.timeoutMs} ms and was killed`, error);
      else fail(`was stopped: ${error.message}`, error);
    });
    child.on('close', (code, killedBy) => {
      if (code === 0) resolve(output.stdout);
      else fail(`failed (${killedBy ? `signal ${killedBy}` : `code ${code}`}): ${lastLine(output.stderr)}`);
    });
  });
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 500) || 'no message';
}
