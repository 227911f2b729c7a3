import { AgentConsole } from '../fixtures/agent-console.ts';
import { TestAuthority } from '../fixtures/certificates.ts';
import type { KubeApiserver } from '../fixtures/kube-apiserver.ts';
import type { PodNetworks } from './container-runtime.ts';
import { NodeMachine } from './node-machine.ts';

export interface Installation {
  /** Folder of the agent's manifests. */
  readonly overlay: string;
  readonly featureGates?: readonly string[];
  readonly disabledFeatureGates?: readonly string[];
  readonly podNetworks?: PodNetworks;
  /** Of VMs; ours unless given. */
  readonly launcher?: 'ours' | 'upstream';
}

/** A cluster of one node that KubeVirt was installed in, with our agent. */
export class InstalledCluster {
  readonly machine: NodeMachine;
  readonly #authority: TestAuthority;

  private constructor(machine: NodeMachine, authority: TestAuthority) {
    this.machine = machine;
    this.#authority = authority;
  }

  static async start({ podNetworks, launcher, ...installation }: Installation): Promise<InstalledCluster> {
    const authority = await TestAuthority.make();
    try {
      const server = await authority.issue({ commonName: 'kubevirt.io:system:node:virt-handler', usage: 'serverAuth' });
      const pair = { ...server, ca: authority.pair.cert };
      const machine = await NodeMachine.start((api) => install(api, pair, installation), { podNetworks, launcher });
      return new InstalledCluster(machine, authority);
    } catch (error) {
      await authority.remove();
      throw error;
    }
  }

  /** Of the agent that is there at each call, as virt-api asks it. */
  consoles(): AgentConsole {
    return new AgentConsole(async () => {
      const { status } = await this.machine.agentPod();
      return { host: status.podIP, port: 8186, ca: this.#authority.pair.cert, ...(await this.#authority.issue()) };
    });
  }

  async stop(): Promise<void> {
    await this.machine.stop();
    await this.#authority.remove();
  }
}

interface ServerPair {
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

/** As an operator does: what virt-operator would bring, then the agent. */
function install(
  api: KubeApiserver,
  { cert, key, ca }: ServerPair,
  { overlay, ...gates }: Omit<Installation, 'podNetworks' | 'launcher'>,
): void {
  api.kubectl('create', '-k', 'daemonset/prerequisites');
  api.kubectl('wait', '--for=condition=Established', 'crd', '--all', '--timeout=30s');
  const inNamespace = (object: object, ...more: string[]) =>
    api.kubectlStdin(JSON.stringify(object), '-n', 'kubevirt', 'create', '-f', '-', ...more);
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'kubevirt-virt-handler-server-certs' } };
  inNamespace({ ...secret, type: 'kubernetes.io/tls', stringData: { 'tls.crt': cert, 'tls.key': key } });
  const bundle = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'kubevirt-ca' } };
  inNamespace({ ...bundle, data: { 'ca-bundle': ca } });
  const kubevirt = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { name: 'kubevirt' } };
  // Emulated, as a KVM device that can be opened need not work.
  const configuration = { developerConfiguration: { ...gates, useEmulation: true } };
  const made = JSON.parse(inNamespace({ ...kubevirt, spec: { configuration } }, '-o', 'json'));
  const status = `/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts/kubevirt/status`;
  api.kubectlStdin(JSON.stringify({ ...made, status: { phase: 'Deployed' } }), 'replace', '--raw', status, '-f', '-');
  api.kubectl('apply', '-k', overlay);
}
