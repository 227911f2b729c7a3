import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { kubeApiserverAssets } from '../scripts/kube-apiserver.mjs';
import { resources } from '../src/api/index.ts';
import { KubeClient, loadKubeAccess } from '../src/kube/index.ts';
import { nodePaths } from '../src/standalone/index.ts';
import { mutatingPolicies, startKubeApiserver } from '../test/fixtures/kube-apiserver.ts';
import { AuditLog, type RequestCounts } from './audit-log.ts';
import { ended, waitFor } from './waiting.ts';

export type ApiKind = 'cluster' | 'embedded';

/** An API server that an agent is measured against. */
export interface ApiUnderLoad {
  readonly kind: ApiKind;
  /** Below it; undefined: none that can be asked. */
  readonly etcdUrl: string | undefined;
  /** May write everything. */
  readonly admin: KubeClient;
  /** Of the agent. */
  readonly handlerKubeconfig: string;
  /** The agent's requests since the last call, watches not counted; undefined where the server does not tell. */
  requests(): RequestCounts | undefined;
  /** The same by service account, of agent and controller. */
  requestsByAccount(): ReadonlyMap<string, RequestCounts> | undefined;
  /** Of virt-controller: a kubeconfig with the rights that daemonset/controller gives. */
  controllerKubeconfig(): string;
  /** What daemonset/controller brings for ours besides, as a cluster's administrator has it. */
  installController(): void;
  stop(): Promise<void>;
}

async function clientOf(kubeconfig: string): Promise<KubeClient> {
  const access = await loadKubeAccess({ kubeconfig });
  return new KubeClient(
    { userAgent: 'bench', rateLimit: { qps: 100_000, burst: 100_000 }, retry: { attempts: 1 }, maxSockets: 32 },
    { access },
  );
}

/** A real etcd and kube-apiserver where there is one, else the embedded API; `asked` decides if given. */
export async function startApi(
  asked: ApiKind | undefined,
  dir: string,
  ...nodeNames: readonly string[]
): Promise<ApiUnderLoad> {
  const api = await (asked === 'embedded' ? embedded(dir) : cluster(dir, asked === 'cluster'));
  for (const name of nodeNames) {
    await api.admin.create(resources.nodes, { apiVersion: 'v1', kind: 'Node', metadata: { name } });
  }
  return api;
}

async function cluster(dir: string, isMust: boolean): Promise<ApiUnderLoad> {
  let assets: string;
  try {
    assets = kubeApiserverAssets();
  } catch (error) {
    if (isMust) throw error;
    return embedded(dir);
  }
  const auditFile = path.join(dir, 'audit.log');
  const server = await startKubeApiserver(assets, { auditFile, flags: mutatingPolicies });
  const admin = await clientOf(server.adminKubeconfig);
  const audit = new AuditLog(auditFile);
  return {
    kind: 'cluster',
    etcdUrl: server.etcdUrl,
    admin,
    handlerKubeconfig: server.handlerKubeconfig,
    requests: () => audit.read().get('kubevirt-handler') ?? {},
    requestsByAccount: () => audit.read(),
    controllerKubeconfig() {
      server.kubectl('apply', '-k', 'daemonset/controller');
      const token = server.kubectl('create', 'token', 'kubevirt-controller', '-n', 'kubevirt').trim();
      const file = path.join(dir, 'controller.kubeconfig');
      const config = JSON.parse(readFileSync(server.handlerKubeconfig, 'utf8'));
      writeFileSync(file, JSON.stringify({ ...config, users: [{ ...config.users[0], user: { token } }] }));
      return file;
    },
    installController() {
      const { status, text } = server.run('bash', 'daemonset/controller/install.sh', '--yes', '--no-wait');
      if (status !== 0) throw new Error(text);
    },
    async stop() {
      admin.close();
      await server.stop();
    },
  };
}

async function embedded(dir: string): Promise<ApiUnderLoad> {
  const stateDir = path.join(dir, 'api');
  const child = spawn(process.execPath, ['dist/bin/virt-node.js', 'apiserver', '--state-dir', stateDir], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const { kubeconfigs } = nodePaths(stateDir);
  await waitFor(
    'kubeconfig of the embedded API',
    30_000,
    async () => existsSync(kubeconfigs['virt-controller']) || undefined,
  );
  const admin = await clientOf(kubeconfigs['virt-controller']);
  return {
    kind: 'embedded',
    etcdUrl: undefined,
    admin,
    handlerKubeconfig: kubeconfigs['virt-handler'],
    requests: () => undefined,
    requestsByAccount: () => undefined,
    controllerKubeconfig: () => kubeconfigs['virt-controller'],
    installController: () => undefined,
    async stop() {
      admin.close();
      child.kill('SIGTERM');
      await ended(child);
    },
  };
}
