import path from 'node:path';
import { ApiServer, directoryPodLogs, ensureCertificates } from '../../apiserver/index.ts';
import type { Component, Logger } from '../../base/index.ts';
import { UploadTokenKey } from '../data-volumes/index.ts';
import { memberPaths, type NodePaths } from '../paths.ts';
import { loadIdentities, writeKubeconfigs } from './identities.ts';
import { PodExecs } from './pod-exec.ts';
import { PodPorts } from './pod-ports.ts';
import { guestDialOf, sandboxesByNode } from './sandboxes-by-node.ts';
import { ProcUsage } from './usage.ts';
import { followAccounts } from './user-accounts.ts';
import { vmSubresourcesOf } from './vm-subresources.ts';

export interface ApiProgramOptions {
  readonly paths: NodePaths;
  readonly host: string;
  readonly port: number;
  /** The pod runner is the user `system:node:<name>`; of further nodes by their names. */
  readonly nodeName: string;
  readonly nodes: number;
}

function podsDirs(paths: NodePaths, nodes: number): string[] {
  return Array.from({ length: nodes }, (_, index) => memberPaths(paths, index + 1).podsDir);
}

/** `virt-node apiserver`: the embedded API with the node's certificates, and a kubeconfig for each of its users. */
export class ApiProgram implements Component {
  readonly name = 'apiserver';
  readonly #options: ApiProgramOptions;
  readonly #log: Logger;
  #server: ApiServer | undefined;
  #endAccounts: (() => void) | undefined;

  constructor(options: ApiProgramOptions, deps: { readonly log: Logger }) {
    this.#options = options;
    this.#log = deps.log;
  }

  async start(): Promise<void> {
    const { paths, host, port, nodeName, nodes } = this.#options;
    const certificates = await ensureCertificates(path.join(paths.apiDir, 'certificates'));
    const identities = await loadIdentities(paths, nodeName, nodes);
    const sandboxesOf = await sandboxesByNode(this.#options);
    const dial = guestDialOf(sandboxesOf);
    const api = new ApiServer(
      {
        dataDir: path.join(paths.apiDir, 'data'),
        host,
        port,
        tls: { key: certificates.key, cert: certificates.cert },
        tokens: identities,
        // The pod runner has launchers run as root, whatever the gates of the KubeVirt object are.
        launcherUser: 0,
      },
      {
        log: this.#log,
        podLogs: directoryPodLogs(paths.podLogsDir),
        uploadTokens: new UploadTokenKey(paths.uploadTokenKey),
        usage: new ProcUsage(podsDirs(paths, nodes)),
        podExec: new PodExecs({ sandboxesOf, log: this.#log }),
        vmSubresources: vmSubresourcesOf(paths, dial, this.#log),
        podStreams: new PodPorts({ dial, log: this.#log }),
      },
    );
    this.#server = api;
    this.#endAccounts = await followAccounts(paths.usersDir, (accounts) => api.setAccounts(accounts), this.#log);
    const bound = await api.start();
    const server = `https://${host}:${bound.port}`;
    await writeKubeconfigs(identities, { server, ca: certificates.ca });
    this.#log.info({ server, kubeconfig: paths.kubeconfig }, 'Kubernetes API is up');
  }

  async stop(): Promise<void> {
    this.#endAccounts?.();
    await this.#server?.stop();
  }
}
