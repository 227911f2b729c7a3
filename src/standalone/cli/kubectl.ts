import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { errorCode, errorMessage } from '../../base/index.ts';
import { NodeError } from '../errors.ts';

const run = promisify(execFile);

/** Runs the stock kubectl against the node. Gives its output; throws NodeError with what it said. */
export async function kubectl(
  args: readonly string[],
  options: {
    readonly kubeconfig: string;
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly signal?: AbortSignal;
  },
): Promise<string> {
  try {
    const env = { ...options.env, KUBECONFIG: options.kubeconfig };
    const { stdout } = await run('kubectl', [...args], { env, signal: options.signal, timeout: 120_000 });
    return stdout.trim();
  } catch (cause) {
    if (errorCode(cause) === 'ENOENT') {
      throw new NodeError('NOT_FOUND', 'kubectl is not on PATH: run `node scripts/setup.mjs up`', { cause });
    }
    const said = typeof cause === 'object' && cause !== null && 'stderr' in cause ? String(cause.stderr).trim() : '';
    throw new NodeError('CHILD_FAILED', `kubectl ${args.join(' ')}: ${said || errorMessage(cause)}`, { cause });
  }
}
