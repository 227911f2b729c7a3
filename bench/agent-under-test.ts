import { type ChildProcess, spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { annotations, type KubeObject, resources } from '../src/api/index.ts';
import { sleep } from '../src/base/index.ts';
import { issue, makeAuthority } from '../src/certificates/index.ts';
import type { KubeClient } from '../src/kube/index.ts';
import { serverCommonName } from '../src/tls/index.ts';
import { monotonicMs } from '../test/fixtures/scripted-launcher-fleet.ts';
import { activity, residentMb } from './process-figures.ts';
import { registeringKubelet } from './registering-kubelet.ts';
import { endBy, waitFor } from './waiting.ts';

/** A program with virt-handler's flags, whoever made it. */
export interface AgentProgram {
  readonly name: string;
  /** Split at blanks; the flags follow. */
  readonly command: string;
}

export interface AgentPlace {
  readonly dir: string;
  readonly nodeName: string;
  readonly kubeconfig: string;
  /** What of `kubeconfig` a pod's service account has is put in its place, as in a cluster: no library for kubeconfigs is loaded. */
  readonly asServiceAccount?: boolean;
  readonly admin: KubeClient;
  /** Three ports from here on; 28185 unless given. */
  readonly firstPort?: number;
  /** PEM files of the agent's servers; a self-signed pair unless given. */
  readonly server?: KeyPairFiles;
  /** The same of what it shows to others, also in migrations. */
  readonly client?: KeyPairFiles;
}

interface KeyPairFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

const clockTicksPerSecond = 100;
const defaultFirstPort = 28185;
const portFlags = ['port', 'console-server-port', 'vmstats-server-port'] as const;

/**
 * Other agents have fixed places: `/pods`, `/var/lib/kubelet`, the labeller's capabilities. They get them in a mount namespace
 * of their own; so does ours, so that both run alike.
 */
const ownPlaces = `
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/kubelet /var/lib/kubevirt-node-labeller
mount --bind "$BENCH_DIR/labeller" /var/lib/kubevirt-node-labeller
mount --bind "$BENCH_DIR/kubelet" /var/lib/kubelet
mount --bind "$BENCH_DIR/pods" /pods
mount -t tmpfs tmpfs /run
mkdir /run/kubevirt
mount --bind "$BENCH_DIR/share" /run/kubevirt
if [ -d "$BENCH_DIR/serviceaccount" ]; then
  mkdir -p /run/secrets/kubernetes.io/serviceaccount
  mount --bind "$BENCH_DIR/serviceaccount" /run/secrets/kubernetes.io/serviceaccount
fi
exec "$@"
`;

const cpuMode = `<cpu><mode name="host-model" supported="yes"><model fallback="forbid">Skylake-Server</model><vendor>Intel</vendor>
</mode><mode name="custom" supported="yes"><model usable="yes">Penryn</model></mode></cpu>`;

/** What an init container leaves for the node labeller: the least that is read. */
const labellerFiles: Readonly<Record<string, string>> = {
  'capabilities.xml': `<capabilities><host><cpu><arch>x86_64</arch><counter name="tsc" frequency="2000000000" scaling="no"/></cpu>
<topology><cells num="1"><cell id="0"><memory unit="KiB">8388608</memory><cpus num="1"><cpu id="0" siblings="0"/></cpus></cell></cells></topology>
</host><guest><os_type>hvm</os_type><arch name="x86_64"><machine>q35</machine></arch></guest></capabilities>`,
  'supported_features.xml': '<cpu><feature policy="require" name="aes"/></cpu>',
  'virsh_domcapabilities.xml': `<domainCapabilities>${cpuMode}</domainCapabilities>`,
  'virsh_domcapabilities_x86_64.xml': `<domainCapabilities>${cpuMode}</domainCapabilities>`,
};

/** One run of an agent on one set of directories: start, stop, start again. */
export class AgentUnderTest {
  readonly program: AgentProgram;
  readonly podsDir: string;
  readonly privateDir: string;
  readonly #place: AgentPlace;
  readonly #logFile: string;
  #child: ChildProcess | undefined;
  #startedMs = 0;
  #stopKubelet: (() => Promise<void>) | undefined;

  constructor(program: AgentProgram, place: AgentPlace) {
    this.program = program;
    this.#place = place;
    this.podsDir = path.join(place.dir, 'pods');
    this.privateDir = path.join(place.dir, 'private');
    this.#logFile = path.join(place.dir, 'agent.log');
    for (const name of ['pods', 'share', 'private', 'certs', 'labeller', 'kubelet/device-plugins'])
      mkdirSync(path.join(place.dir, name), { recursive: true });
    prepareFiles(place.dir);
  }

  /** Monotonic. */
  get startedMs(): number {
    return this.#startedMs;
  }

  /** Until the first heartbeat; `ownHeartbeatMs` begins when the program itself does, after the shells that make its places. */
  async start(): Promise<{ readonly heartbeatMs: number; readonly ownHeartbeatMs: number }> {
    const { admin, nodeName, dir } = this.#place;
    await prepareCertificate(dir);
    this.#stopKubelet ??= await registeringKubelet(path.join(dir, 'kubelet'));
    await admin.patch(
      resources.nodes,
      { name: nodeName },
      { metadata: { annotations: { [annotations.heartbeat]: null } } },
      'merge',
    );
    const log = openSync(this.#logFile, 'a');
    const flags = flagsOf(this.#place);
    const argv = ['--mount', 'sh', '-ec', ownPlaces, 'sh', ...this.program.command.split(/\s+/), ...flags];
    this.#startedMs = monotonicMs();
    const account = this.#place.asServiceAccount ? writeServiceAccount(this.#place) : {};
    const env = { ...process.env, ...account, NODE_NAME: nodeName, BENCH_DIR: dir, KUBEVIRT_HOST_ROOT: '/' };
    const child = spawn('unshare', argv, { env, stdio: ['ignore', log, log] });
    this.#child = child;
    const executedMs = await this.#executed(child);
    await waitFor('the first heartbeat', 60_000, async () => {
      if (child.exitCode !== null)
        throw new Error(`${this.program.name} ended with ${child.exitCode}:\n${this.logTail()}`);
      const node = await admin.get<KubeObject>(resources.nodes, { name: nodeName });
      return node.metadata.annotations?.[annotations.heartbeat];
    });
    const nowMs = monotonicMs();
    return { heartbeatMs: nowMs - this.#startedMs, ownHeartbeatMs: nowMs - executedMs };
  }

  /** When the shells that make its places have become the program; to 2 ms. */
  async #executed(child: ChildProcess): Promise<number> {
    while (child.exitCode === null && shells.has(commandName(child.pid ?? 0))) await sleep(2);
    return monotonicMs();
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.#child) await endBy(this.#child, signal);
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name);
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Of metrics and health. */
  get metricsPort(): number {
    return (this.#place.firstPort ?? defaultFirstPort) + portFlags.indexOf('port');
  }

  /** Of its console server. */
  get consolePort(): number {
    return (this.#place.firstPort ?? defaultFirstPort) + portFlags.indexOf('console-server-port');
  }

  /** User and system time: of the process, and of all below it that has ended and was waited for. */
  cpu(): { readonly ownMs: number; readonly helpersMs: number } {
    const fields = statFields(this.pid);
    const msOf = (...places: readonly number[]) =>
      (places.reduce((sum, place) => sum + Number(fields[place]), 0) / clockTicksPerSecond) * 1000;
    return { ownMs: msOf(11, 12), helpersMs: msOf(13, 14) };
  }

  /** With helpers. */
  cpuMs(): number {
    const { ownMs, helpersMs } = this.cpu();
    return ownMs + helpersMs;
  }

  /** CPU time and wake-ups of all its threads that live, exactly: for spans in which it does hardly anything. */
  activity(): ReturnType<typeof activity> {
    return activity(this.pid);
  }

  residentMb(): number {
    return residentMb(this.pid);
  }

  logTail(lines = 20): string {
    return readFileSync(this.#logFile, 'utf8').split('\n').slice(-lines).join('\n');
  }

  saveLog(file: string): void {
    mkdirSync(path.dirname(file), { recursive: true });
    copyFileSync(this.#logFile, file);
  }

  async dispose(): Promise<void> {
    this.signal('SIGKILL');
    await this.#stopKubelet?.();
    rmSync(this.#place.dir, { recursive: true, force: true });
  }
}

/** As the kubelet would; gives the environment of such a pod. The test API server signs for itself. */
function writeServiceAccount({ dir, kubeconfig }: AgentPlace): Record<string, string> {
  const { clusters, users } = JSON.parse(readFileSync(kubeconfig, 'utf8'));
  const account = path.join(dir, 'serviceaccount');
  mkdirSync(account, { recursive: true });
  writeFileSync(path.join(account, 'token'), users[0].user.token);
  writeFileSync(path.join(account, 'namespace'), 'kubevirt');
  copyFileSync(path.join(path.dirname(kubeconfig), 'certs/apiserver.crt'), path.join(account, 'ca.crt'));
  const { hostname, port } = new URL(clusters[0].cluster.server);
  return { KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port };
}

function flagsOf(place: AgentPlace): string[] {
  const { dir, nodeName, kubeconfig, asServiceAccount, firstPort = defaultFirstPort, server, client } = place;
  const [key, cert] = [path.join(dir, 'certs/tls.key'), path.join(dir, 'certs/tls.crt')];
  const ofPair = (name: string, { certFile, keyFile }: KeyPairFiles) => [
    ...[`--${name}-cert-file`, certFile],
    ...[`--${name}-key-file`, keyFile],
  ];
  const own = { certFile: cert, keyFile: key };
  const pairs = { client, 'migration-client': client, tls: server, 'vsock-client': undefined };
  const identities = Object.entries(pairs).flatMap(([name, pair]) => ofPair(name, pair ?? own));
  return [
    ...(asServiceAccount ? [] : ['--kubeconfig', kubeconfig]),
    ...['--hostname-override', nodeName, '--pod-ip-address', '127.0.0.1'],
    ...['--kubevirt-share-dir', '/var/run/kubevirt', '--kubevirt-private-dir', path.join(dir, 'private')],
    ...portFlags.flatMap((name, index) => [`--${name}`, `${firstPort + index}`]),
    ...identities,
    ...['-v', '2'],
  ];
}

function prepareFiles(dir: string): void {
  if (!existsSync('/pods')) mkdirSync('/pods');
  for (const [name, text] of Object.entries(labellerFiles)) writeFileSync(path.join(dir, 'labeller', name), text);
}

async function prepareCertificate(dir: string): Promise<void> {
  const [certFile, keyFile] = ['certs/tls.crt', 'certs/tls.key'].map((name) => path.join(dir, name)) as [
    string,
    string,
  ];
  if (existsSync(certFile)) return;
  const authority = await makeAuthority({ commonName: 'kubevirt.io', days: 1 });
  const pair = await issue(authority, { commonName: serverCommonName, usage: 'serverAuth', days: 1 });
  writeFileSync(keyFile, pair.key, { mode: 0o600 });
  writeFileSync(certFile, pair.cert);
}

/** What runs in its place before it. */
const shells = new Set(['unshare', 'sh', 'bash', 'dash']);

/** Empty when it is gone. */
function commandName(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'latin1').trim();
  } catch {
    return '';
  }
}

/** After the name in parentheses, which may hold anything. */
function statFields(pid: number): string[] {
  return readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ');
}
