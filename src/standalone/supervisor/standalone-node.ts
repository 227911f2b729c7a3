import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { type Component, errorCode, errorMessage, Lifecycle } from '../../base/index.ts';
import { ensureSigningAuthority } from '../../certificates/index.ts';
import { findSystemProgram, probeKvm } from '../../host/index.ts';
import { loopbackHosts } from '../../http/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere, writeFileAtomic } from '../files.ts';
import { forgetPage, NodePage } from '../page/index.ts';
import { memberName, memberPaths, nodeDirectories } from '../paths.ts';
import { PodNetwork } from '../pod-network/index.ts';
import { findCgroupRoot, HostDisks, ImageStore, pageImages, Sandboxes } from '../pod-runner/index.ts';
import { NodeServices } from '../services/index.ts';
import { portOwner } from '../socket-tables.ts';
import { ensureSshKey } from '../ssh-key.ts';
import { AgentCertificates } from './agent-certificates.ts';
import { Capabilities } from './capabilities.ts';
import { connectApi } from './connect-api.ts';
import { freePort } from './free-port.ts';
import { type AskHealth, askLivez } from './health-watch.ts';
import { findKvmSupport } from './kvm.ts';
import { machineFacts } from './machine-facts.ts';
import { dataVolumeComponents } from './node-data-volumes.ts';
import { lockNode } from './node-lock.ts';
import { NodeMember, type SharedParts } from './node-member.ts';
import { ensureNodeObjects } from './node-objects.ts';
import type { StandaloneNodeDeps, StandaloneNodeOptions } from './node-options.ts';
import { NodePrograms } from './node-programs.ts';
import { NodeStorage } from './node-storage.ts';
import { Program } from './program.ts';
import { removeMembers } from './removed-members.ts';
import { guestDialOf, sandboxesByNode } from './sandboxes-by-node.ts';
import { publishSshKey } from './ssh-secret.ts';

const noRoom: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EROFS']);
/** The longest grace period of a VM and then some. */
const endAloneMs = 300_000;

/** The whole KubeVirt of this machine: what all of its nodes share, and a member per node. Programs are child processes, pod runners are in this one. */
export class StandaloneNode {
  readonly #options: StandaloneNodeOptions;
  readonly #deps: StandaloneNodeDeps;
  readonly #progress: (step: string) => void;
  readonly #programs: NodePrograms;
  readonly #stopping = new AbortController();
  #release: () => Promise<void> = async () => undefined;
  #client: KubeClient | undefined;
  #lifecycle: Lifecycle | undefined;
  #page: NodePage | undefined;
  #members: readonly NodeMember[];
  #network: PodNetwork | undefined;
  #capabilities: Capabilities | undefined;

  constructor(options: StandaloneNodeOptions, deps: StandaloneNodeDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#progress = deps.progress ?? (() => undefined);
    this.#programs = new NodePrograms(options, deps);
    this.#members = this.#makeMembers(undefined);
  }

  /** The administrator's client of the node's own API; only after `start`. */
  get client(): KubeClient {
    if (!this.#client) throw new NodeError('NOT_RUNNING', 'the node has not been started');
    return this.#client;
  }

  /** For a person: where the web page is, or why there is none. */
  get page(): string {
    return this.#page?.address ?? 'no web page (--web-port 0)';
  }

  /** For a person: what network VMs have, or why none of their own. */
  get network(): string {
    return this.#network?.summary ?? 'no pod network';
  }

  /** Its nodes, the first one first. */
  get members(): readonly Pick<NodeMember, 'nodeName' | 'paths' | 'sandboxes'>[] {
    return this.#members;
  }

  /** Starts everything, taking over from a supervisor that was killed. On failure what was started is stopped again. */
  async start(): Promise<void> {
    const { paths, pid, nodes } = this.#options;
    if (nodes > 1) requireHaproxy();
    await mkdir(paths.runDir, { recursive: true });
    this.#release = await lockNode(paths, pid);
    try {
      await this.#startAll();
    } catch (error) {
      await this.stop({ pods: 'keep' }).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Ends what a supervisor left that was killed. Nothing is started but what guests need to shut down: the API and the agents, and no
   * controller, which would start others.
   */
  async stopLeft({ pods }: { readonly pods: 'keep' | 'end' }): Promise<void> {
    const { paths, pid } = this.#options;
    let hasRoom = true;
    this.#release = await lockNode(paths, pid).catch((error: unknown) => {
      // To end what fills a disk it must not need room.
      if (!noRoom.has(errorCode(error) ?? '')) throw error;
      hasRoom = false;
      return async () => undefined;
    });
    try {
      await this.#programs.endLeftovers();
      this.#members = this.#makeMembers(await findCgroupRoot('virt-node'));
      if (pods === 'end' && (await this.#hasPods()))
        await (hasRoom ? this.#drainLeft() : this.#endAlone('the disk is full'));
      // Taken up to be taken away; of one that pods have nothing is.
      if (!this.#network && !(await this.#hasPods())) await this.#startNetwork();
    } finally {
      await this.stop({ pods });
    }
  }

  /** `keep` leaves virtual machines running for the next start; `end` shuts them down with their grace periods first. */
  async stop({ pods }: { readonly pods: 'keep' | 'end' }): Promise<void> {
    const errors: unknown[] = [];
    const attempt = (work: Promise<unknown> | undefined) => work?.catch((error: unknown) => errors.push(error));
    // First: it would start again what is being ended.
    await attempt(this.#programs.stop('virt-controller'));
    // The agent is needed: it is what presses the guest's power button.
    if (pods === 'end') await attempt(each(this.#members, (member) => member.drain(this.#stopping.signal)));
    this.#stopping.abort(new Error('the node is stopping'));
    await attempt(each(this.#members, (member) => member.stopAgent()));
    await attempt(this.#lifecycle?.stop());
    await attempt(this.#capabilities?.stop());
    for (const member of this.#members) member.disconnect();
    this.#client?.close();
    this.#client = undefined;
    await attempt(this.#network?.stop());
    await attempt(this.#programs.stop('apiserver'));
    await attempt(each(this.#members, (member) => member.unshareMounts()));
    await this.#release();
    if (errors.length > 0) throw new AggregateError(errors, 'the node did not stop cleanly');
  }

  /** Ends everything now, virtual machines too. */
  async kill(): Promise<void> {
    this.#stopping.abort(new Error('the node is killed'));
    this.#programs.kill();
    await each(this.#members, (member) => member.kill());
    // Pods' network goes after them.
    await this.#network?.stop().catch(() => undefined);
    await each(this.#members, (member) => member.unshareMounts()).catch(() => undefined);
    await this.#release();
  }

  async #hasPods(): Promise<boolean> {
    return (await each(this.#members, (member) => member.hasPods())).includes(true);
  }

  /** What does not start keeps no virtual machine running. */
  async #drainLeft(): Promise<void> {
    try {
      await this.#startApi();
      const networks = await this.#startNetwork();
      // No pod is started, and so no volume is made.
      const { claims } = new NodeStorage(this.#options.paths, { client: this.client, log: this.#deps.log });
      const members = await this.#startMembers({ networks, claims, kvm: 'fails', isDraining: true });
      this.#lifecycle = new Lifecycle(members);
      await this.#lifecycle.start(this.#stopping.signal);
      this.#progress('virtual machines shut down');
      await each(this.#members, (member) => member.drain(this.#stopping.signal));
    } catch (error) {
      await this.#endAlone(errorMessage(error));
    }
  }

  async #endAlone(reason: string): Promise<void> {
    this.#deps.log.warn({ reason }, 'virtual machines are ended without API and agent');
    this.#progress(`virtual machines end when their grace periods are over: ${reason}`);
    await each(this.#members, (member) => member.endAlone(endAloneMs));
  }

  #makeMembers(cgroupRoot: string | undefined): NodeMember[] {
    const { nodes, programs, podPrograms } = this.#options;
    return Array.from({ length: nodes }, (_, at) => {
      const index = at + 1;
      const paths = memberPaths(this.#options.paths, index);
      const { podsDir, libvirtCacheDir } = paths;
      const sandboxes = new Sandboxes({ podsDir, libvirtCacheDir, cgroupRoot, programs: podPrograms });
      const nodeName = memberName(this.#options.nodeName, index);
      const hostIp = memberAddress(this.#options.hostIp, index);
      const options = { index, nodeName, hostIp, paths, programs, canMigrate: nodes > 1 };
      return new NodeMember(options, { programs: this.#programs, sandboxes, log: this.#deps.log });
    });
  }

  async #startAll(): Promise<void> {
    const { paths } = this.#options;
    const { log } = this.#deps;
    await this.#programs.endLeftovers();
    const kvmSupport = findKvmSupport(paths, this.#deps.probe ?? probeKvm);
    const kvmAnswer = kvmSupport.then((answer) => answer.kvm);
    this.#capabilities = new Capabilities({ paths, kvm: kvmAnswer, arch: process.arch }, { log });
    await this.#capabilities.start();
    this.#members = this.#makeMembers(await findCgroupRoot('virt-node'));
    for (const member of this.#members) await member.shareMounts();
    await this.#startApi();
    this.#progress('Kubernetes API');
    const networks = await this.#startNetwork();
    const { kvm, reason } = await kvmSupport;
    log.info({ kvm, reason }, 'KVM probe');
    this.#progress(kvm === 'works' ? 'KVM works' : `software emulation (${reason})`);
    await removeMembers(this.client, this.#options);
    await ensureNodeObjects(this.client, { ...(await machineFacts()), kvm, nodes: this.#members }, new Date());
    await this.#publishSshKey();
    // There is one controller, which ends with its record: a lease that the API cannot store on a full disk must not end it.
    const single = ['--leader-elect=false', '--standalone-scheduler', '--port', '0'];
    const { exportCaDir, backupCaDir } = paths;
    await ensureSigningAuthority(exportCaDir, 'export.kubevirt.io');
    await ensureSigningAuthority(backupCaDir, 'backup.kubevirt.io');
    const authorities = ['--export-ca-dir', exportCaDir, '--backup-ca-dir', backupCaDir];
    const controllerFlags = [...single, '--explain-socket', paths.controllerSocket, ...authorities];
    await this.#startControl('virt-controller', controllerFlags);
    const storage = new NodeStorage(paths, { client: this.client, log });
    const members = await this.#startMembers({ networks, claims: storage.claims, kvm });
    this.#progress('virt-controller and virt-handler');
    const dial = guestDialOf(await sandboxesByNode(this.#options));
    const images = new ImageStore({ dir: paths.imagesDir });
    const dataVolumes = { paths, host: this.#options.hostIp, places: storage.places };
    this.#lifecycle = new Lifecycle([
      ...(await storage.components()),
      ...(await dataVolumeComponents(dataVolumes, { client: this.client, images, log })),
      ...members,
      new NodeServices({ client: this.client, network: networks, dial, log }),
      ...(await this.#makePage()),
    ]);
    await this.#lifecycle.start(this.#stopping.signal);
    this.#progress('pod runner');
  }

  /** What VMs may let in. A node without it works. */
  async #publishSshKey(): Promise<void> {
    const { paths, nodeName } = this.#options;
    const key = await ensureSshKey(paths, `virt-node@${nodeName}`).catch((error: unknown) => {
      this.#deps.log.warn({ err: errorMessage(error) }, 'the node has no key pair for guests');
      return undefined;
    });
    // On a full disk it stays as it is.
    await publishSshKey(this.client, key).catch((error: unknown) => {
      this.#deps.log.warn({ err: errorMessage(error) }, 'the key for guests could not be published');
    });
  }

  /** The agents run then; what else the members need is to be started. */
  async #startMembers(shared: Omit<SharedParts, 'images' | 'hostDisks'>): Promise<Component[]> {
    const { paths } = this.#options;
    const certificates = new AgentCertificates(paths.certificatesDir, { client: this.client, log: this.#deps.log });
    const keyPairs = await certificates.ensure();
    for (const member of this.#members) await member.startAgent(keyPairs);
    const parts = { images: new ImageStore({ dir: paths.imagesDir }), hostDisks: await this.#hostDisks(), ...shared };
    return [certificates, ...this.#members.flatMap((member) => member.components(parts))];
  }

  /** Of all nodes: a disk is at two of them while its VM moves. */
  async #hostDisks(): Promise<HostDisks> {
    const { paths, hostDiskDirs } = this.#options;
    const dirs = [paths.hostDisksDir, ...hostDiskDirs];
    const nodeDirs = [paths.stateDir, ...nodeDirectories(paths)];
    const hostDisks = new HostDisks({ dirs, ownersDir: paths.hostDiskOwnersDir, nodeDirs });
    const uids = await each(this.#members, ({ sandboxes }) => sandboxes.list());
    await hostDisks.keepOnly(new Set(uids.flat()));
    return hostDisks;
  }

  async #startNetwork(): Promise<PodNetwork> {
    const { paths, podNetwork: wish, env } = this.#options;
    const { log } = this.#deps;
    const [name, sharedDir] = ['dnsmasq', '/run/virt-node'];
    const files = this.#programs.filesOf(name);
    const network = new PodNetwork(
      { wish, stateDir: paths.stateDir, dir: paths.podNetworkDir, sharedDir },
      {
        dns: (argv) => new Program({ name, argv, env, ...files }, { log }),
        isRunning: async (uid) => (await each(this.#members, (member) => member.isPodUp(uid))).includes(true),
        log,
      },
    );
    this.#network = network;
    // Where it is started anew it ends the earlier one by itself.
    if (!(await this.#hasPods())) await this.#programs.endLeftover(name);
    await network.start();
    for (const line of [network.summary, ...(await network.warnings())]) this.#progress(line);
    return network;
  }

  /** Resolves when the API answers to everybody who has a kubeconfig. */
  async #startApi(): Promise<void> {
    const { paths, nodeName, nodes, hostIp, apiPort } = this.#options;
    const portFile = path.join(paths.apiDir, 'port');
    const usual = Number((await readIfThere(portFile)) ?? '') || apiPort;
    const port = await freePort([hostIp], usual);
    const where = ['--state-dir', paths.stateDir, '--node-name', nodeName, '--nodes', String(nodes)];
    const ask = askLivez({ host: hostIp, port });
    await this.#startControl('apiserver', [...where, '--host', hostIp, '--port', String(port)], ask);
    const server = `https://${hostIp}:${port}`;
    const { logFile } = this.#programs.filesOf('apiserver');
    const connect = (kubeconfig: string) =>
      connectApi({ kubeconfig, server, logFile }, this.#deps.log, this.#stopping.signal);
    this.#client = await connect(paths.kubeconfigs.admin);
    for (const member of this.#members) await member.connect(connect);
    // So that no program starts with a file that is not there yet, or from before.
    (await connect(paths.kubeconfigs['virt-controller'])).close();
    await writeFileAtomic(portFile, `${port}\n`);
  }

  #startControl(name: 'apiserver' | 'virt-controller', args: readonly string[], ask?: AskHealth): Promise<void> {
    const { nodeName, paths } = this.#options;
    return this.#programs.start({ name, index: 1, nodeName, paths }, args, ask && { ask });
  }

  async #makePage(): Promise<NodePage[]> {
    const { paths, nodeName, webPort, pageDir } = this.#options;
    if (webPort === 0) {
      await forgetPage(paths);
      return [];
    }
    const port = await freePort(loopbackHosts, webPort);
    if (port !== webPort) await this.#warnOfSquatter(webPort);
    const images = pageImages(new ImageStore({ dir: paths.imagesDir }));
    this.#page = new NodePage({ paths, nodeName, port, pageDir }, { client: this.client, images, log: this.#deps.log });
    return [this.#page];
  }

  /** A program that listens there is sent what a browser still asks this port for, and may look like the page. */
  async #warnOfSquatter(port: number): Promise<void> {
    const uid = await portOwner(port);
    this.#deps.log.warn({ port, uid }, 'the port of the web page is held by another program');
    const holder = uid === undefined ? 'another program' : `a program of the user with the number ${uid}`;
    this.#progress(
      `WARNING: port ${port} of the web page is held by ${holder}: do not use an address of before, nor give it a token`,
    );
  }
}

/** For all at once; every one is waited for, and the first that failed is the reason. */
async function each<T>(members: readonly NodeMember[], work: (member: NodeMember) => Promise<T>): Promise<T[]> {
  const done = await Promise.allSettled(members.map(work));
  const failed = done.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  return done.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

function requireHaproxy(): void {
  if (findSystemProgram('haproxy')) return;
  const text = '--nodes: guests move between nodes by haproxy, which is missing (apt-get install haproxy)';
  throw new NodeError('PROGRAM_MISSING', text);
}

/** 127.0.0.1, 127.0.0.2 and so on: on Linux all of them are this machine's. */
function memberAddress(first: string, index: number): string {
  const parts = first.split('.');
  return [...parts.slice(0, -1), Number(parts.at(-1)) + index - 1].join('.');
}
