import { mkdir } from 'node:fs/promises';
import { type Component, type Logger, sleep } from '../../base/index.ts';
import type { KubevirtCertificates } from '../../certificates/index.ts';
import { EventRecorder, type KubeClient } from '../../kube/index.ts';
import { rememberAgentAddress } from '../agent-api/index.ts';
import { NodeError } from '../errors.ts';
import type { NodePaths } from '../paths.ts';
import {
  ClaimDirectories,
  type ClaimParts,
  type HostDisks,
  type ImageStore,
  KubePods,
  PodRunner,
  type PodRunnerDeps,
  type Sandboxes,
  shareMounts,
  unshareMounts,
  virtTail,
} from '../pod-runner/index.ts';
import { freePort } from './free-port.ts';
import { askLivez } from './health-watch.ts';
import type { KvmSupport } from './kvm.ts';
import type { StandaloneNodeOptions } from './node-options.ts';
import type { NodePrograms } from './node-programs.ts';

/** For programs that need no right at all: in attachment pods, and beside launchers. */
const asQemuUser = [
  'setpriv',
  '--reuid=107',
  '--regid=107',
  '--clear-groups',
  '--bounding-set=-all',
  '--inh-caps=-all',
];

export interface NodeMemberOptions {
  /** From 1. */
  readonly index: number;
  readonly nodeName: string;
  readonly hostIp: string;
  readonly paths: NodePaths;
  readonly programs: StandaloneNodeOptions['programs'];
  /** There is another node to move guests to. */
  readonly canMigrate: boolean;
}

export interface NodeMemberDeps {
  readonly programs: NodePrograms;
  readonly sandboxes: Sandboxes;
  readonly log: Logger;
}

/** What all nodes of this machine have together. */
export interface SharedParts {
  readonly images: ImageStore;
  readonly hostDisks: HostDisks;
  readonly networks: PodRunnerDeps['networks'];
  readonly claims: ClaimParts;
  readonly kvm: KvmSupport['kvm'];
  /** The pods that run are being ended, and none is started. */
  readonly isDraining?: boolean;
}

/** One node of this machine: its agent as a program, and its pod runner in this one. */
export class NodeMember {
  readonly #options: NodeMemberOptions;
  readonly #deps: NodeMemberDeps;
  #client: KubeClient | undefined;
  #runner: PodRunner | undefined;

  constructor(options: NodeMemberOptions, deps: NodeMemberDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  get index(): number {
    return this.#options.index;
  }

  get nodeName(): string {
    return this.#options.nodeName;
  }

  get hostIp(): string {
    return this.#options.hostIp;
  }

  get paths(): NodePaths {
    return this.#options.paths;
  }

  get sandboxes(): Sandboxes {
    return this.#deps.sandboxes;
  }

  /** Before pods run: what is mounted for them comes into them from now on. */
  shareMounts(): Promise<void> {
    return shareMounts(this.paths.podsDir);
  }

  /** Pods that run need it until they end. */
  async unshareMounts(): Promise<void> {
    if (!(await this.hasPods())) await unshareMounts(this.paths.podsDir);
  }

  async isPodUp(uid: string): Promise<boolean> {
    const { kind } = await this.sandboxes.inspect(uid);
    return kind === 'running' || kind === 'starting';
  }

  async hasPods(): Promise<boolean> {
    const states = await Promise.all((await this.sandboxes.list()).map((uid) => this.isPodUp(uid)));
    return states.includes(true);
  }

  /** Its agent. Resolves when the process exists. */
  async startAgent(certificates: KubevirtCertificates): Promise<void> {
    // Its socket for root, not a port, which every user of this machine could keep busy.
    const ask = askLivez({ socketPath: this.paths.agentSocket });
    const program = { ...this.#options, name: 'virt-handler' } as const;
    await this.#deps.programs.start(program, await this.#agentArguments(certificates), { ask });
  }

  stopAgent(): Promise<void> {
    return this.#deps.programs.stop('virt-handler', this.index);
  }

  /** Takes the rights of this node's kubelet, and waits until its agent has got its own. */
  async connect(connect: (kubeconfig: string) => Promise<KubeClient>): Promise<void> {
    const { node, 'virt-handler': agent } = this.paths.kubeconfigs;
    this.#client = await connect(node);
    // So that no program starts with a file that is not there yet, or from before.
    (await connect(agent)).close();
  }

  disconnect(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  /** Its pod runner and what that needs, to be started in this order; after `connect`. */
  components({ images, hostDisks, networks, claims: claimParts, kvm, isDraining = false }: SharedParts): Component[] {
    const { nodeName, hostIp, paths, programs } = this.#options;
    const { sandboxes, log } = this.#deps;
    const client = this.#client;
    if (!client) throw new NodeError('NOT_RUNNING', 'the node has not been started');
    const events = new EventRecorder({ component: 'virt-node', host: nodeName }, { client, log });
    const pods = new KubePods({ nodeName }, { client, events, log });
    const claims = new ClaimDirectories(claimParts, pods);
    this.#runner = new PodRunner(
      {
        hostIp,
        kvm,
        podLogsDir: paths.podLogsDir,
        programs: {
          '/usr/bin/virt-launcher-monitor': programs['virt-launcher'],
          'virt-probe': programs['virt-probe'],
          '/usr/bin/virt-tail': [...asQemuUser, ...virtTail],
          '/usr/bin/container-disk': [...asQemuUser, ...programs['container-disk']],
          // The user that its files and its disks are for.
          '/usr/bin/virt-exportserver': [...asQemuUser, ...programs['virt-exportserver']],
        },
        env: { VIRT_LAUNCHER_KVM: kvm },
        isDraining,
      },
      { pods, sandboxes, images, hostDisks, claims, networks, log },
    );
    const flush = { name: 'events', start: async () => undefined, stop: () => events.stop(2_000) };
    return [flush, pods, this.#runner];
  }

  /** Ends all pods with their grace periods. */
  async drain(signal: AbortSignal): Promise<void> {
    await this.#runner?.drain(signal);
  }

  /** Ends all pods without API and agent: a launcher that is asked to end ends its guest when its grace period is over. */
  async endAlone(timeoutMs: number): Promise<void> {
    for (const uid of await this.sandboxes.list()) await this.sandboxes.terminate(uid);
    const endMs = performance.now() + timeoutMs;
    while ((await this.hasPods()) && performance.now() < endMs) await sleep(100);
    await this.kill();
  }

  /** Ends all pods now. What was killed may take a moment. */
  async kill(): Promise<void> {
    for (const uid of await this.sandboxes.list()) await this.sandboxes.kill(uid);
    for (let tries = 0; tries < 100 && (await this.hasPods()); tries++) await sleep(20);
  }

  async #agentArguments({ server, client }: KubevirtCertificates): Promise<string[]> {
    const { paths, nodeName, hostIp, canMigrate } = this.#options;
    const metrics = await freePort([hostIp], 18443);
    const console = await freePort([hostIp], 18186);
    // The one before has no listener yet.
    const vmStats = await freePort([hostIp], console + 1);
    await rememberAgentAddress(paths, { host: hostIp, port: console, node: nodeName });
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
      ...['--kubelet-root', paths.kubeletDir],
      ...(canMigrate
        ? ['--live-migration', '--client-cert-file', client.certFile, '--client-key-file', client.keyFile]
        : ['--live-migration=false']),
    ];
  }
}
