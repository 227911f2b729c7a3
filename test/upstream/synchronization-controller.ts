import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type KubeObject, resources } from '../../src/api/index.ts';
import { issue, makeAuthority } from '../../src/certificates/index.ts';
import { getIfThere, type KubeClient } from '../../src/kube/index.ts';
import { stopped } from '../fixtures/agent-process.ts';

/** Where it listens: the `connectURL` of migrations to another namespace of its cluster. */
export const synchronizationAddress = '127.0.0.1:9185';

/** It has no flags for its certificates: where they are in its pod, below a view of /etc of its own. */
const inPod = `
set -eu
mount -t tmpfs tmpfs /mnt
mkdir /mnt/changes /mnt/work
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/changes,workdir=/mnt/work overlay /etc
mkdir /etc/virt-sync-controller
cp -r "$CERTIFICATES"/* /etc/virt-sync-controller
exec "$@"
`;

/** Upstream's virt-synchronization-controller as a process of its own, with certificates as virt-operator makes them. */
export class SynchronizationController {
  readonly #child: ChildProcess;
  readonly #logFile: string;

  private constructor(child: ChildProcess, logFile: string) {
    this.#child = child;
    this.#logFile = logFile;
  }

  static async start(
    program: string,
    { dir, kubeconfig, admin }: { readonly dir: string; readonly kubeconfig: string; readonly admin: KubeClient },
  ): Promise<SynchronizationController> {
    const own = path.join(dir, 'synchronization');
    mkdirSync(own, { recursive: true });
    const now = new Date();
    const authority = await makeAuthority({ commonName: 'kubevirt.io', days: 2 }, now);
    const certificates = path.join(own, 'certificates');
    for (const [kind, folder, usage] of [
      ['node', 'servercertificates', 'serverAuth'],
      ['client', 'clientcertificates', 'clientAuth'],
    ] as const) {
      const commonName = `kubevirt.io:system:${kind}:virt-synchronization-controller`;
      const { cert, key } = await issue(authority, { commonName, usage, days: 1 }, now);
      mkdirSync(path.join(certificates, folder), { recursive: true });
      writeFileSync(path.join(certificates, folder, 'tls.crt'), cert);
      writeFileSync(path.join(certificates, folder, 'tls.key'), key, { mode: 0o600 });
    }
    await trust(admin, authority.cert);
    const logFile = path.join(own, 'log');
    const log = openSync(logFile, 'a');
    const flags = ['--kubeconfig', kubeconfig, '--listen', '127.0.0.1', '--port', '9185', '-v', '4'];
    const env = { ...process.env, MY_POD_IP: '127.0.0.1', CERTIFICATES: certificates };
    const command = ['--mount', '--propagation', 'private', 'sh', '-c', inPod, 'sh', program, ...flags];
    return new SynchronizationController(spawn('unshare', command, { env, stdio: ['ignore', log, log] }), logFile);
  }

  log(): string {
    return readFileSync(this.#logFile, 'utf8');
  }

  async stop(): Promise<void> {
    await stopped(this.#child, 'SIGKILL');
  }
}

/** Beside what the cluster trusts already: its agents have certificates of their own. */
async function trust(admin: KubeClient, certificate: string): Promise<void> {
  const target = { namespace: 'kubevirt', name: 'kubevirt-ca' };
  const there = await getIfThere<KubeObject & { data?: Record<string, string> }>(admin, resources.configMaps, target);
  const data = { 'ca-bundle': `${there?.data?.['ca-bundle'] ?? ''}${certificate}` };
  if (there) await admin.patch(resources.configMaps, target, { data }, 'merge');
  else
    await admin.create(resources.configMaps, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: target,
      data,
    } as KubeObject);
}
