import { type Logger, sleep } from '../../base/index.ts';
import { KubeClient, loadKubeAccess } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';

export interface ConnectOptions {
  readonly kubeconfig: string;
  /** URL of the API that was started; a kubeconfig for another one is of an earlier start. */
  readonly server: string;
  /** Where the API's program writes, for the message. */
  readonly logFile: string;
}

const timeoutMs = 30_000;

/**
 * Waits until the API is up and takes the token of this kubeconfig: server and file are there at different moments, and a file
 * of an earlier start may hold another port or token. Throws NodeError CHILD_FAILED.
 */
export async function connectApi(options: ConnectOptions, log: Logger, stopping: AbortSignal): Promise<KubeClient> {
  const { kubeconfig, server, logFile } = options;
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(timeoutMs)]);
  let last: unknown = `no kubeconfig ${kubeconfig} yet`;
  while (!signal.aborted) {
    let client: KubeClient | undefined;
    try {
      const access = await loadKubeAccess({ kubeconfig });
      if (access.server === server) {
        const common = { userAgent: 'virt-node', rateLimit: { qps: 200, burst: 400 } };
        client = new KubeClient({ ...common, retry: { attempts: 3 } }, { access, log });
        await client.raw({ method: 'GET', path: '/apis', signal, timeoutMs: 2_000 });
        return client;
      }
    } catch (error) {
      client?.close();
      last = error;
    }
    await sleep(50, signal).catch(() => undefined);
  }
  const text = `the Kubernetes API did not come up in ${timeoutMs / 1000} s; see ${logFile}`;
  throw new NodeError('CHILD_FAILED', text, { cause: last });
}
