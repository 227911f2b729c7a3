import { readFile } from 'node:fs/promises';
import { errorMessage } from '../base/index.ts';
import { type Credentials, checkedServer, type KubeAccess } from './credentials.ts';
import { KubeError } from './errors.ts';
import { ServiceAccountCredentials } from './service-account.ts';

export type { Credentials, KubeAccess } from './credentials.ts';

export interface InClusterOptions {
  /** `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT` of the pod. */
  readonly host?: string | undefined;
  readonly port?: string | undefined;
  readonly tokenFile?: string;
  readonly caFile?: string;
}

export interface KubeAccessOptions {
  /** Path of a kubeconfig; empty counts as not given. */
  readonly kubeconfig?: string | undefined;
  /** Server URL that wins over the kubeconfig's; alone: that server without credentials. */
  readonly master?: string | undefined;
  /** Used when neither is given. */
  readonly inCluster?: InClusterOptions;
}

export const serviceAccountDir = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Namespace of the pod that this program runs in; undefined outside of a pod. */
export async function podNamespace(dir: string = serviceAccountDir): Promise<string | undefined> {
  const text = await readFile(`${dir}/namespace`, 'utf8').catch(() => '');
  return text.trim() || undefined;
}

/** Anonymous: for a proxy that adds the identity, and for tests. */
export const noCredentials: Credentials = {
  current: async () => ({ headers: {} }),
  invalidate: () => false,
};

/** Kubeconfig, else `master` alone, else the pod's service account. Rejects with BAD_CONFIG saying what is missing. */
export async function loadKubeAccess(options: KubeAccessOptions): Promise<KubeAccess> {
  if (options.kubeconfig) {
    // Loaded only here: client-node costs an agent 40 MB (docs/decisions/0010).
    const { loadKubeconfig } = await import('./kubeconfig.ts');
    const access = await loadKubeconfig(options.kubeconfig);
    return options.master ? { ...access, server: checkedServer(options.master) } : access;
  }
  if (options.master) return { server: checkedServer(options.master), credentials: noCredentials };
  return inClusterAccess(options.inCluster ?? {});
}

async function inClusterAccess(options: InClusterOptions): Promise<KubeAccess> {
  const { host, port = '443' } = options;
  if (!host) {
    throw new KubeError(
      'BAD_CONFIG',
      'no access to Kubernetes: not in a pod (KUBERNETES_SERVICE_HOST is not set), and neither --kubeconfig nor --master is given',
    );
  }
  const tokenFile = options.tokenFile ?? `${serviceAccountDir}/token`;
  const caFile = options.caFile ?? `${serviceAccountDir}/ca.crt`;
  const credentials = new ServiceAccountCredentials({ tokenFile });
  await credentials.current();
  const ca = await readFile(caFile).catch((cause: unknown) => {
    throw new KubeError('BAD_CONFIG', `service account CA: ${errorMessage(cause)}`, { cause });
  });
  const bracketed = host.includes(':') ? `[${host}]` : host;
  return { server: checkedServer(`https://${bracketed}:${port}`), ca, credentials };
}
