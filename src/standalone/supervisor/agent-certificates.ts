import { type KubeObject, resources } from '../../api/index.ts';
import { type Component, errorMessage, type Logger, sleep } from '../../base/index.ts';
import { ensureKubevirtCertificates, type KubevirtCertificates } from '../../certificates/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import { kubevirtNamespace } from './node-objects.ts';

export interface AgentCertificatesDeps {
  readonly client: KubeClient;
  readonly log: Logger;
}

const checkMs = 12 * 3600 * 1000;
const name = 'kubevirt-ca';
const key = 'ca-bundle';

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

/**
 * Certificates of the agent's servers and of their client, and the ConfigMap from which the agent learns whom to trust: what
 * virt-operator does on a cluster (pkg/virt-operator/resource/generate/components/secrets.go). Checked twice a day; the agent
 * follows the files and the ConfigMap.
 */
export class AgentCertificates implements Component {
  readonly name = 'agent certificates';
  readonly #dir: string;
  readonly #deps: AgentCertificatesDeps;
  readonly #stopping = new AbortController();
  #loop: Promise<void> | undefined;

  constructor(dir: string, deps: AgentCertificatesDeps) {
    this.#dir = dir;
    this.#deps = deps;
  }

  /** Renews what is missing, torn or about to expire. Throws CertificateError, KubeError. */
  async ensure(): Promise<KubevirtCertificates> {
    const certificates = await ensureKubevirtCertificates(this.#dir);
    await publishBundle(this.#deps.client, certificates.caBundle);
    return certificates;
  }

  async start(): Promise<void> {
    this.#loop = this.#keepFresh();
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error('stopped'));
    await this.#loop;
  }

  async #keepFresh(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await sleep(checkMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      await this.ensure().catch((error: unknown) =>
        this.#deps.log.warn({ reason: errorMessage(error) }, "the agent's certificates could not be looked at"),
      );
    }
  }
}

/** What a user wrote there is replaced: with another authority no client reaches the agent. */
async function publishBundle(client: KubeClient, bundle: string): Promise<void> {
  const ref = { namespace: kubevirtNamespace, name };
  const data = { [key]: bundle };
  try {
    const present = await client.get<ConfigMap>(resources.configMaps, ref);
    if (present.data?.[key] === bundle) return;
    await client.patch(resources.configMaps, ref, { data }, 'merge');
  } catch (error) {
    if (!isKubeError(error, 'NOT_FOUND')) throw error;
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...ref }, data };
    await client.create<ConfigMap>(resources.configMaps, object);
  }
}
