import { mkdir, readFile } from 'node:fs/promises';
import { cpus, release, totalmem } from 'node:os';
import path from 'node:path';
import { Lifecycle, type Logger, sleep } from '../../base/index.ts';
import type { KubevirtCertificates } from '../../certificates/index.ts';
import { type KvmProbeResult, probeKvm } from '../../host/index.ts';
import { loopbackHosts } from '../../http/index.ts';
import { EventRecorder, type KubeClient } from '../../kube/index.ts';
import { rememberAgentAddress } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import { forgetPage, NodePage } from '../page/index.ts';
import { type KubeconfigName, type NodePaths, nodeDirectories } from '../paths.ts';
import { PodNetwork } from '../pod-network/index.ts';
import {
  ClaimDirectories,
  findCgroupRoot,
  HostDisks,
  ImageStore,
  KubePods,
  PodRunner,
  Sandboxes,
  shareMounts,
  unshareMounts,
} from '../pod-runner/index.ts';
import { currentBootId } from '../process-identity.ts';
import { portOwner } from '../tcp-owner.ts';
import { AgentCertificates } from './agent-certificates.ts';
import { Capabilities } from './capabilities.ts';
import { connectApi } from './connect-api.ts';
import { freePort } from './free-port.ts';
import { askLivez, type HealthOptions } from './health-watch.ts';
import { findKvmSupport, type KvmSupport } from './kvm.ts';
import { lockNode } from './node-lock.ts';
import { ensureNodeObjects } from './node-objects.ts';
import { endLeftover, Program, type ProgramState } from './program.ts';

/** In attachment pods: their program needs no right at all. */
const asQemuUser = [
  'setpriv',
  '--reuid=107',
  '--regid=107',
  '--clear-groups',
  '--bounding-set=-all',
  '--inh-caps=-all',
];
const programNames = ['virt-controller', 'virt-handler', 'apiserver'] as const;
export type ProgramName = (typeof programNames)[number];

export interface StandaloneNodeOptions {
  readonly paths: NodePaths;
  readonly nodeName: string;
  /** Address of API server, agent and pods; a loopback one. */
  readonly hostIp: string;
  /** First port to try for the API when none was used before. */
  readonly apiPort: number;
  /** First port to try for the web page; 0: no page. */
  readonly webPort: number;
  /** The built page. */
  readonly pageDir: string;
  /** node and the script of each program, without arguments. */
  readonly programs: Readonly<Record<ProgramName | 'virt-launcher' | 'container-disk', readonly [string, ...string[]]>>;
  /** `auto`, `none` or the IPv4 range of pods. */
  readonly podNetwork: string;
  /** Directories whose files VMs may have as `hostDisk`, besides the node's own; absolute. */
  readonly hostDiskDirs: readonly string[];
  /** What pods may read of this installation besides `/usr`: the programs. */
  readonly podPrograms: readonly string[];
  /** Environment of the programs. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
  /** `-v` of the programs. */
  readonly verbosity: number;
}

export interface StandaloneNodeDeps {
  readonly log: Logger;
  /** For a person who waits: what has just been done. */
  readonly progress?: (step: string) => void;
  readonly probe?: () => Promise<KvmProbeResult>;
}

/** The whole one-node KubeVirt: programs as child processes, and the pod runner in this one. */
export class StandaloneNode {
  readonly #options: StandaloneNodeOptions;
  readonly #deps: StandaloneNodeDeps;
  readonly #programs = new Map<ProgramName, Program>();
  readonly #stopping = new AbortController();
  #release: () => Promise<void> = async () => undefined;
  readonly #clients = new Map<KubeconfigName, KubeClient>();
  #lifecycle: Lifecycle | undefined;
  #runner: PodRunner | undefined;
  #page: NodePage | undefined;
  #sandboxes: Sandboxes;
  #network: PodNetwork | undefined;

  constructor(options: StandaloneNodeOptions, deps: StandaloneNodeDeps) {
    this.#options = options;
    this.#deps = deps;
    const { podsDir, libvirtCacheDir } = options.paths;
    this.#sandboxes = new Sandboxes({ podsDir, libvirtCacheDir, cgroupRoot: undefined, programs: [] });
  }

  /** The administrator's client of the node's own API; only after `start`. */
  get client(): KubeClient {
    return this.#clientOf('admin');
  }

  /** For a person: where the web page is, or why there is none. */
  get page(): string {
    return this.#page?.address ?? 'no web page (--web-port 0)';
  }

  /** For a person: what network VMs have, or why none of their own. */
  get network(): string {
    return this.#network?.summary ?? 'no pod network';
  }

  get sandboxes(): Sandboxes {
    return this.#sandboxes;
  }

  programs(): ReadonlyMap<ProgramName, ProgramState> {
    return new Map([...this.#programs].map(([name, program]) => [name, program.state]));
  }

  /** Starts everything, taking over from a supervisor that was killed. On failure what was started is stopped again. */
  async start(): Promise<void> {
    const { paths, pid } = this.#options;
    await mkdir(paths.runDir, { recursive: true });
    this.#release = await lockNode(paths, pid);
    try {
      await this.#startAll();
    } catch (error) {
      await this.stop({ pods: 'keep' }).catch(() => undefined);
      throw error;
    }
  }

  /** `keep` leaves virtual machines running for the next start; `end` shuts them down with their grace periods first. */
  async stop({ pods }: { readonly pods: 'keep' | 'end' }): Promise<void> {
    const errors: unknown[] = [];
    const attempt = (work: Promise<unknown> | undefined) => work?.catch((error: unknown) => errors.push(error));
    // First: it would start again what is being ended.
    await attempt(this.#programs.get('virt-controller')?.stop());
    // The agent is needed: it is what presses the guest's power button.
    if (pods === 'end') await attempt(this.#runner?.drain(this.#stopping.signal));
    this.#stopping.abort(new Error('the node is stopping'));
    await attempt(this.#programs.get('virt-handler')?.stop());
    await attempt(this.#lifecycle?.stop());
    for (const client of this.#clients.values()) client.close();
    this.#clients.clear();
    await attempt(this.#network?.stop());
    await attempt(this.#programs.get('apiserver')?.stop());
    await attempt(this.#unshareMounts());
    await this.#release();
    if (errors.length > 0) throw new AggregateError(errors, 'the node did not stop cleanly');
  }

  /** Ends everything now, virtual machines too. */
  async kill(): Promise<void> {
    this.#stopping.abort(new Error('the node is killed'));
    for (const uid of await this.#sandboxes.list()) await this.#sandboxes.kill(uid);
    for (const program of this.#programs.values()) program.kill();
    await this.#untilPodsGone();
    await this.#network?.stop().catch(() => undefined);
    await this.#unshareMounts().catch(() => undefined);
    await this.#release();
  }

  /** Pods that run need it until they end. */
  async #unshareMounts(): Promise<void> {
    const states = await Promise.all((await this.#sandboxes.list()).map((uid) => this.#isPodUp(uid)));
    if (!states.includes(true)) await unshareMounts(this.#options.paths.podsDir);
  }

  /** What was killed may take a moment; its network goes after it. */
  async #untilPodsGone(): Promise<void> {
    for (let tries = 0; tries < 100; tries++) {
      const states = await Promise.all((await this.#sandboxes.list()).map((uid) => this.#isPodUp(uid)));
      if (!states.includes(true)) return;
      await sleep(20);
    }
  }

  async #startAll(): Promise<void> {
    const { paths, nodeName, hostIp } = this.#options;
    const { log, progress = () => undefined } = this.#deps;
    for (const name of programNames) await endLeftover(path.join(paths.runDir, `${name}.pid`), 5_000);
    const kvmSupport = findKvmSupport(paths, this.#deps.probe ?? probeKvm);
    const cgroupRoot = await findCgroupRoot('virt-node');
    this.#sandboxes = new Sandboxes({ ...paths, cgroupRoot, programs: this.#options.podPrograms });
    await shareMounts(paths.podsDir);
    await this.#startApi();
    progress('Kubernetes API');
    const networks = await this.#startNetwork();
    const { kvm, reason } = await kvmSupport;
    log.info({ kvm, reason }, 'KVM probe');
    progress(kvm === 'works' ? 'KVM works' : `software emulation (${reason})`);
    await ensureNodeObjects(this.client, await this.#facts(kvm), new Date());
    const controllerFlags = ['--standalone-scheduler', '--explain-socket', paths.controllerSocket];
    await this.#startProgram('virt-controller', controllerFlags);
    const certificates = new AgentCertificates(paths.certificatesDir, { client: this.client, log });
    // Its socket for root, not a port, which every user of this machine could keep busy.
    const ask = askLivez({ socketPath: paths.agentSocket });
    await this.#startProgram('virt-handler', await this.#handlerArguments(await certificates.ensure()), { ask });
    progress('virt-controller and virt-handler');
    const client = this.#clientOf('node');
    const events = new EventRecorder({ component: 'virt-node', host: nodeName }, { client, log });
    const pods = new KubePods({ nodeName }, { client, events, log });
    const images = new ImageStore({ dir: paths.imagesDir });
    const dirs = [paths.hostDisksDir, ...this.#options.hostDiskDirs];
    const nodeDirs = [paths.stateDir, ...nodeDirectories(paths)];
    const hostDisks = new HostDisks({ dirs, ownersDir: paths.hostDiskOwnersDir, nodeDirs });
    const claims = new ClaimDirectories({ dir: paths.claimsDir }, pods);
    this.#runner = new PodRunner(
      {
        hostIp,
        kvm,
        podLogsDir: paths.podLogsDir,
        programs: {
          '/usr/bin/virt-launcher-monitor': this.#options.programs['virt-launcher'],
          '/usr/bin/container-disk': [...asQemuUser, ...this.#options.programs['container-disk']],
        },
        env: { VIRT_LAUNCHER_KVM: kvm },
      },
      { pods, sandboxes: this.#sandboxes, images, hostDisks, claims, networks, log },
    );
    this.#lifecycle = new Lifecycle([
      { name: 'events', start: async () => undefined, stop: () => events.stop(2_000) },
      certificates,
      pods,
      this.#runner,
      new Capabilities({ paths, kvm, arch: process.arch }, { log }),
      ...(await this.#makePage()),
    ]);
    await this.#lifecycle.start(this.#stopping.signal);
    progress('pod runner');
  }

  async #startNetwork(): Promise<PodNetwork> {
    const { paths, podNetwork: wish, env } = this.#options;
    const { log, progress = () => undefined } = this.#deps;
    const [name, sharedDir] = ['dnsmasq', '/run/virt-node'];
    const files = { logFile: path.join(paths.logDir, `${name}.log`), pidFile: path.join(paths.runDir, `${name}.pid`) };
    const network = new PodNetwork(
      { wish, stateDir: paths.stateDir, dir: paths.podNetworkDir, sharedDir },
      {
        dns: (argv) => new Program({ name, argv, env, ...files }, { log }),
        isRunning: (uid) => this.#isPodUp(uid),
        log,
      },
    );
    this.#network = network;
    await network.start();
    for (const line of [network.summary, ...(await network.warnings())]) progress(line);
    return network;
  }

  async #isPodUp(uid: string): Promise<boolean> {
    const { kind } = await this.#sandboxes.inspect(uid);
    return kind === 'running' || kind === 'starting';
  }

  /** Resolves when the API answers to everybody who has a kubeconfig. */
  async #startApi(): Promise<void> {
    const { paths, nodeName, hostIp, apiPort } = this.#options;
    const portFile = path.join(paths.apiDir, 'port');
    const usual = Number((await readIfThere(portFile)) ?? '') || apiPort;
    const port = await freePort([hostIp], usual);
    const where = ['--state-dir', paths.stateDir, '--node-name', nodeName];
    const ask = askLivez({ host: hostIp, port });
    await this.#startProgram('apiserver', [...where, '--host', hostIp, '--port', String(port)], { ask });
    const server = `https://${hostIp}:${port}`;
    const logFile = path.join(paths.logDir, 'apiserver.log');
    const connect = (kubeconfig: string) =>
      connectApi({ kubeconfig, server, logFile }, this.#deps.log, this.#stopping.signal);
    for (const name of ['admin', 'node'] as const) this.#clients.set(name, await connect(paths.kubeconfigs[name]));
    // So that no program starts with a file that is not there yet, or from before.
    for (const name of ['virt-controller', 'virt-handler'] as const) (await connect(paths.kubeconfigs[name])).close();
    await writeFileAtomic(portFile, `${port}\n`);
  }

  async #makePage(): Promise<NodePage[]> {
    const { paths, nodeName, webPort, pageDir } = this.#options;
    if (webPort === 0) {
      await forgetPage(paths);
      return [];
    }
    const port = await freePort(loopbackHosts, webPort);
    if (port !== webPort) await this.#warnOfSquatter(webPort);
    this.#page = new NodePage({ paths, nodeName, port, pageDir }, { client: this.client, log: this.#deps.log });
    return [this.#page];
  }

  /** A program that listens there is sent what a browser still asks this port for, and may look like the page. */
  async #warnOfSquatter(port: number): Promise<void> {
    const { log, progress = () => undefined } = this.#deps;
    const uid = await portOwner(port);
    log.warn({ port, uid }, 'the port of the web page is held by another program');
    const holder = uid === undefined ? 'another program' : `a program of the user with the number ${uid}`;
    progress(
      `WARNING: port ${port} of the web page is held by ${holder}: do not use an address of before, nor give it a token`,
    );
  }

  #clientOf(name: KubeconfigName): KubeClient {
    const client = this.#clients.get(name);
    if (!client) throw new NodeError('NOT_RUNNING', 'the node has not been started');
    return client;
  }

  async #startProgram(name: ProgramName, args: readonly string[], health?: HealthOptions): Promise<void> {
    const { paths, programs, env, verbosity, nodeName } = this.#options;
    const [command, ...script] = programs[name];
    const access = name === 'apiserver' ? [] : ['--kubeconfig', paths.kubeconfigs[name]];
    const program = new Program(
      {
        name,
        argv: [command, ...script, ...access, ...args, '-v', String(verbosity)],
        env: {
          ...env,
          NODE_NAME: nodeName,
          KUBEVIRT_PODS_DIR: paths.podsDir,
          KUBEVIRT_HOST_ROOT: '/',
          KUBEVIRT_NODE_LABELLER_DIR: paths.labellerDir,
        },
        logFile: path.join(paths.logDir, `${name}.log`),
        pidFile: path.join(paths.runDir, `${name}.pid`),
        ...(health && { health }),
      },
      { log: this.#deps.log },
    );
    this.#programs.set(name, program);
    await program.start();
  }

  async #handlerArguments({ server }: KubevirtCertificates): Promise<string[]> {
    const { paths, nodeName, hostIp } = this.#options;
    const metrics = await freePort([hostIp], 18443);
    const console = await freePort([hostIp], 18186);
    // The one before has no listener yet.
    const vmStats = await freePort([hostIp], console + 1);
    await rememberAgentAddress(paths, { host: hostIp, port: console });
    await mkdir(paths.shareDir, { recursive: true });
    await mkdir(paths.privateDir, { recursive: true });
    return [
      ...['--hostname-override', nodeName],
      ...['--pod-ip-address', hostIp],
      ...['--listen', hostIp],
      ...['--port', String(metrics)],
      ...['--console-server-port', String(console)],
      ...['--vmstats-server-port', String(vmStats)],
      ...['--tls-cert-file', server.certFile],
      ...['--tls-key-file', server.keyFile],
      ...['--kubevirt-share-dir', paths.shareDir],
      ...['--kubevirt-private-dir', paths.privateDir],
      ...['--kubelet-pods-dir', paths.podsDir],
      ...['--kubelet-root', paths.stateDir],
    ];
  }

  async #facts(kvm: KvmSupport['kvm']) {
    const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
    const osRelease = await readFile('/etc/os-release', 'utf8').catch(() => '');
    return {
      nodeName: this.#options.nodeName,
      hostIp: this.#options.hostIp,
      cpus: cpus().length,
      memoryBytes: totalmem(),
      architecture: architectures[process.arch] ?? process.arch,
      kernelVersion: release(),
      osImage: /^PRETTY_NAME="?([^"\n]*)/m.exec(osRelease)?.[1] ?? 'Linux',
      bootId: await currentBootId(),
      kvm,
    };
  }
}
