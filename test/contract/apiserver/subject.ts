import { randomBytes } from 'node:crypto';
import type { ApiServerOptions } from '../../../src/apiserver/index.ts';
import { ApiClient } from '../../fixtures/api-client.ts';
import { startEmbeddedApi } from '../../fixtures/embedded-api.ts';
import { useUpstreamSchema } from '../../fixtures/upstream-schema.ts';

export interface Subject {
  readonly client: ApiClient;
  /** Of a person, whose fields have managers. */
  readonly user: ApiClient;
  readonly namespace: string;
  /** Of its collections in that namespace. */
  readonly maps: string;
  readonly pods: string;
  readonly vms: string;
  readonly vmis: string;
  stop(): Promise<void>;
}

/**
 * The server under the contract: the one `CONTRACT_KUBECONFIG` names (a real kube-apiserver, with upstream's
 * own schemas of VMs and VMIs), else
 * the embedded one. Each file works in a namespace of its own.
 */
export async function startSubject(embeddedOptions: Partial<ApiServerOptions> = {}): Promise<Subject> {
  const kubeconfig = process.env.CONTRACT_KUBECONFIG;
  const embedded = kubeconfig ? undefined : await startEmbeddedApi(embeddedOptions);
  const client = embedded?.controller ?? ApiClient.fromKubeconfig(String(kubeconfig));
  if (!embedded) await useUpstreamSchema(client);
  const namespace = `contract-${randomBytes(4).toString('hex')}`;
  const made = await client.post('/api/v1/namespaces', { metadata: { name: namespace } });
  if (made.status !== 201) throw new Error(`namespace: ${made.text}`);
  const core = `/api/v1/namespaces/${namespace}`;
  const kubevirt = `/apis/kubevirt.io/v1/namespaces/${namespace}`;
  return {
    client,
    user: embedded?.client ?? client,
    namespace,
    maps: `${core}/configmaps`,
    pods: `${core}/pods`,
    vms: `${kubevirt}/virtualmachines`,
    vmis: `${kubevirt}/virtualmachineinstances`,
    async stop() {
      await client.delete(`/api/v1/namespaces/${namespace}`);
      await embedded?.stop();
    },
  };
}

export function configMap(name: string, more: object = {}) {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data: { key: 'value' }, ...more };
}

export function pod(name: string, more: { metadata?: object; spec?: object } = {}) {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, ...more.metadata },
    spec: { containers: [{ name: 'main', image: 'none' }], ...more.spec },
  };
}

export function vmi(name: string, more: { metadata?: object; spec?: object; status?: object } = {}) {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name, ...more.metadata },
    spec: { domain: { devices: {}, memory: { guest: '64Mi' } }, ...more.spec },
    ...(more.status ? { status: more.status } : {}),
  };
}

export function vm(name: string) {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name },
    spec: { runStrategy: 'Halted', template: { spec: { domain: { devices: {}, memory: { guest: '64Mi' } } } } },
  };
}
