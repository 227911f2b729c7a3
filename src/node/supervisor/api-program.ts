import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { ApiServer, directoryPodLogs, ensureCertificates, writeKubeconfig } from '../../apiserver/index.ts';
import type { Component, Logger } from '../../base/index.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import type { NodePaths } from '../paths.ts';

export interface ApiProgramOptions {
  readonly paths: NodePaths;
  readonly host: string;
  readonly port: number;
}

const user = 'virt-node-admin';

/** `virt-node apiserver`: the embedded API with the node's certificates, its token and a kubeconfig for both. */
export class ApiProgram implements Component {
  readonly name = 'apiserver';
  readonly #options: ApiProgramOptions;
  readonly #log: Logger;
  #server: ApiServer | undefined;

  constructor(options: ApiProgramOptions, deps: { readonly log: Logger }) {
    this.#options = options;
    this.#log = deps.log;
  }

  async start(): Promise<void> {
    const { paths, host, port } = this.#options;
    const certificates = await ensureCertificates(path.join(paths.apiDir, 'certificates'));
    const token = await ensureToken(path.join(paths.apiDir, 'token'));
    this.#server = new ApiServer(
      {
        dataDir: path.join(paths.apiDir, 'data'),
        host,
        port,
        tls: { key: certificates.key, cert: certificates.cert },
        tokens: [{ token, user, groups: ['system:masters'] }],
      },
      { log: this.#log, podLogs: directoryPodLogs(paths.podLogsDir) },
    );
    const bound = await this.#server.start();
    const server = `https://${host}:${bound.port}`;
    await writeKubeconfig(paths.kubeconfig, { server, ca: certificates.ca, user, token });
    this.#log.info({ server, kubeconfig: paths.kubeconfig }, 'Kubernetes API is up');
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
  }
}

/** Kept from start to start, so that a kubeconfig that somebody copied stays good. */
async function ensureToken(file: string): Promise<string> {
  const kept = (await readIfThere(file))?.trim();
  if (kept && kept.length >= 32) return kept;
  const token = randomBytes(24).toString('base64url');
  await writeFileAtomic(file, `${token}\n`, 0o600);
  return token;
}
