import type { PemPair } from '../../src/tls/index.ts';
import { AgentConsole } from '../fixtures/agent-console.ts';
import { TestAuthority } from '../fixtures/certificates.ts';
import type { KubeApiserver } from '../fixtures/kube-apiserver.ts';
import type { PodNetworks } from './container-runtime.ts';
import { EvictionWebhook } from './eviction-webhook.ts';
import { NodeMachine, nodeName } from './node-machine.ts';

export interface Installation {
  /** Folder of the agent's manifests. */
  readonly overlay: string;
  readonly featureGates?: readonly string[];
  readonly disabledFeatureGates?: readonly string[];
  readonly podNetworks?: PodNetworks;
  /** Of VMs; ours unless given. */
  readonly launcher?: 'ours' | 'upstream';
  readonly nodes?: 1 | 2;
  /** `spec.configuration.migrations` of the KubeVirt object. */
  readonly migrations?: object;
  /** How running VMs get what only another launcher pod gives them: `spec.workloadUpdateStrategy.workloadUpdateMethods` there. */
  readonly workloadUpdates?: readonly string[];
  /** Of kube-controller-manager. */
  readonly managerFlags?: readonly string[];
  /** Of virt-controller. */
  readonly controllerFlags?: readonly string[];
}

/** A cluster of one node, or two, that KubeVirt was installed in, with our agent. */
export class InstalledCluster {
  readonly machine: NodeMachine;
  readonly #authority: TestAuthority;
  readonly #webhook: EvictionWebhook;

  private constructor(machine: NodeMachine, authority: TestAuthority, webhook: EvictionWebhook) {
    this.machine = machine;
    this.#authority = authority;
    this.#webhook = webhook;
  }

  static async start(installation: Installation): Promise<InstalledCluster> {
    const authority = await TestAuthority.make();
    try {
      const server = await authority.issue({ commonName: 'kubevirt.io:system:node:virt-handler', usage: 'serverAuth' });
      const pairs = { server, client: await authority.issue(), ca: authority.pair.cert };
      const prepare = (api: KubeApiserver) => install(api, pairs, installation);
      const machine = await NodeMachine.start(prepare, installation);
      return new InstalledCluster(machine, authority, await EvictionWebhook.start(machine.api, authority));
    } catch (error) {
      await authority.remove();
      throw error;
    }
  }

  /** Of the node's agent that is there at each call, as virt-api asks it. */
  consoles(node = nodeName): AgentConsole {
    return new AgentConsole(async () => {
      const { status } = await this.machine.agentPod(120_000, node);
      return { host: status.podIP, port: 8186, ca: this.#authority.pair.cert, ...(await this.#authority.issue()) };
    });
  }

  async stop(): Promise<void> {
    await this.#webhook.stop();
    await this.machine.stop();
    await this.#authority.remove();
  }
}

interface Pairs {
  readonly server: PemPair;
  readonly client: PemPair;
  readonly ca: string;
}

/** As an operator does: what virt-operator would bring, then the agent. */
function install(
  api: KubeApiserver,
  { server, client, ca }: Pairs,
  { overlay, migrations = {}, workloadUpdates: workloadUpdateMethods = [], ...given }: Installation,
): void {
  api.kubectl('create', '-k', 'daemonset/prerequisites');
  api.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=30s');
  const inNamespace = (object: object, ...more: string[]) =>
    api.kubectlStdin(JSON.stringify(object), '-n', 'kubevirt', 'create', '-f', '-', ...more);
  const secret = { apiVersion: 'v1', kind: 'Secret', type: 'kubernetes.io/tls' };
  const putPair = (name: string, { cert, key }: PemPair) =>
    inNamespace({ ...secret, metadata: { name }, stringData: { 'tls.crt': cert, 'tls.key': key } });
  putPair('kubevirt-virt-handler-server-certs', server);
  putPair('kubevirt-virt-handler-certs', client);
  const bundle = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'kubevirt-ca' } };
  inNamespace({ ...bundle, data: { 'ca-bundle': ca } });
  const kubevirt = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt' } };
  // Emulated, as a KVM device that can be opened need not work.
  const { featureGates, disabledFeatureGates } = given;
  const developerConfiguration = { featureGates, disabledFeatureGates, useEmulation: true };
  const configuration = { developerConfiguration, migrations };
  const spec = { configuration, workloadUpdateStrategy: { workloadUpdateMethods } };
  const made = JSON.parse(inNamespace({ ...kubevirt, spec }, '-o', 'json'));
  const status = `/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts/kubevirt/status`;
  api.kubectlStdin(JSON.stringify({ ...made, status: { phase: 'Deployed' } }), 'replace', '--raw', status, '-f', '-');
  api.kubectl('apply', '-k', overlay);
}
