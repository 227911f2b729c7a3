import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import type { Domain, DomainReason, DomainStatus } from '../../src/api/index.ts';
import { sleep } from '../../src/base/index.ts';
import type { CommandRpc } from '../../src/launcher-client/index.ts';
import { ScriptedLauncher, ScriptedNotifier, socketFileOf } from '../../test/fixtures/scripted-launcher.ts';
import { type Json, startedDomain } from './started-domain.ts';

const ok = { success: true, message: '' };
/** Spec 21 §2.1. */
const giveUpMs = 20_000;

/** A pod's places: /run, /dev and a network of its own, whose eth0 has an address as a CNI plugin would give it. */
const ownPlaces = `
mount -t tmpfs -o size=4g tmpfs /run
mkdir -p /run/kubevirt /run/kubevirt-private/vmi-disks
for volume in $PVCS; do mkdir /run/kubevirt-private/vmi-disks/$volume; done
for file in $FILES; do mkdir -p "$(dirname $file)"; truncate -s 4096 $file; done
mount -t tmpfs -o size=64k tmpfs /dev
mkdir /dev/net
mknod -m 600 /dev/kvm c 10 232
mknod -m 600 /dev/net/tun c 10 200
mknod -m 600 /dev/vhost-net c 10 238
mknod -m 600 /dev/sev c 10 124
mknod -m 666 /dev/null c 1 3
ip link set lo up
ip link add eth0 address 02:00:00:00:00:05 type veth peer name up0
ip addr add 10.0.2.5/24 dev eth0
ip link set eth0 up
ip link set up0 up
exec "$@"
`;

/** Questions: how often they are asked is an agent's own affair. */
const questions: readonly CommandRpc[] = ['ping', 'getDomain', 'getGuestInfo', 'getDomainStats', 'getQemuVersion'];

export interface PlayedCall {
  readonly rpc: CommandRpc;
  readonly request: unknown;
}

export interface PlayedLauncherOptions {
  readonly podUid: string;
  readonly podsDir: string;
  readonly workDir: string;
  /** Directories of volumes that exist in the pod. */
  readonly pvcs: readonly string[];
  /** Files of 4 KiB below /run. */
  readonly files: readonly string[];
}

/** One launcher of a scenario, which keeps what it was asked and does what the scenario says. */
export class PlayedLauncher {
  readonly podUid: string;
  /** Commands since they were last taken. */
  readonly #calls: PlayedCall[] = [];
  readonly #options: PlayedLauncherOptions;
  readonly #workDir: string;
  readonly #relay: ChildProcess;
  readonly #scripted: ScriptedLauncher;
  #notifier: ScriptedNotifier | undefined;
  #outbox: Promise<void> = Promise.resolve();
  #ended = false;
  #commands = 0;
  domain: Domain | undefined;
  /** What a shutdown does: the guest obeys or does not. */
  guestObeys = true;
  /** How the domain of a sync begins: defined first, or running when it is first told of. */
  definesFirst = false;
  /** Changes the domain that a sync makes. */
  shape: (domain: Domain) => void = () => undefined;

  private constructor(
    options: PlayedLauncherOptions,
    workDir: string,
    relay: ChildProcess,
    scripted: ScriptedLauncher,
  ) {
    this.podUid = options.podUid;
    this.#options = options;
    this.#workDir = workDir;
    this.#relay = relay;
    this.#scripted = scripted;
    this.#listen();
  }

  static async start(options: PlayedLauncherOptions): Promise<PlayedLauncher> {
    const { podUid, podsDir } = options;
    const workDir = path.join(options.workDir, podUid);
    const scripted = await ScriptedLauncher.start({ socketFile: `${workDir}/launcher-sock`, versions: [1] });
    const socketFile = socketFileOf(podsDir, podUid);
    mkdirSync(path.dirname(socketFile), { recursive: true });
    const relayFile = path.resolve('test/fixtures/scripted-launcher-relay.pl');
    const argv = [socketFile, scripted.socketFile, `${workDir}/events`, '/run/kubevirt/domain-notify-pipe.sock'];
    const own = ['--mount', '--net', 'sh', '-ec', ownPlaces, 'sh', 'perl', relayFile, ...argv];
    const relay = spawn('unshare', own, {
      cwd: options.workDir,
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, PVCS: options.pvcs.join(' '), FILES: options.files.join(' ') },
    });
    relay.stdin.on('error', () => undefined);
    const ended = once(relay, 'exit').then(() => {
      throw new Error(`the relay of ${podUid} ended at once`);
    });
    await Promise.race([once(relay.stdout, 'data'), ended]);
    ended.catch(() => undefined);
    return new PlayedLauncher(options, workDir, relay, scripted);
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Of commands so far. */
  get commands(): number {
    return this.#commands;
  }

  takeCalls(): PlayedCall[] {
    return this.#calls.splice(0);
  }

  fail(rpc: CommandRpc, message: string): void {
    this.#scripted.fail(rpc, message);
  }

  heal(rpc: CommandRpc): void {
    this.#scripted.heal(rpc);
  }

  /** What a connected guest agent is like. */
  guestInfo(info: Json): void {
    this.#scripted.on('getGuestInfo', () => ({ response: ok, guestInfoResponse: JSON.stringify(info) }));
  }

  become(status: DomainStatus, reason: DomainReason): void {
    this.change((domain) => {
      domain.Status.Status = status;
      domain.Status.Reason = reason;
    });
  }

  /** Something about the guest is different: told as the real launcher tells it. */
  change(edit: (domain: Domain) => void): void {
    if (!this.domain) throw new Error(`${this.podUid} has no domain`);
    const changed = structuredClone(this.domain);
    edit(changed);
    this.domain = changed;
    this.#tell('MODIFIED', changed);
  }

  async sendEvent(event: Json): Promise<void> {
    this.#notifier ??= new ScriptedNotifier(`${this.#workDir}/events`);
    await this.#notifier.kubernetesEvent(event);
  }

  /** kill -9; the socket file stays. */
  async kill(): Promise<void> {
    if (this.#ended) return;
    this.#ended = true;
    this.#notifier?.close();
    this.#relay.kill('SIGKILL');
    await this.#scripted.stop();
  }

  /** The pod is gone, as the kubelet leaves it. */
  async remove(): Promise<void> {
    await this.kill();
    rmSync(path.join(this.#options.podsDir, this.podUid), { recursive: true, force: true });
  }

  #listen(): void {
    this.#scripted.onCall = (rpc) => {
      const call = this.#scripted.calls.at(-1);
      this.#scripted.calls.length = 0;
      if (!call || questions.includes(rpc)) return;
      this.#commands++;
      this.#calls.push({ rpc, request: call.request });
    };
    const on = (rpc: CommandRpc, act: (request: unknown) => void) =>
      this.#scripted.on(rpc, (request) => {
        act(request);
        return ok as never;
      });
    this.#scripted.on('getDomain', () => ({ response: ok, domain: this.domain ? JSON.stringify(this.domain) : '' }));
    on('syncVirtualMachine', (request) => this.#sync(request));
    on('shutdownVirtualMachine', () => this.#shutdown());
    on('killVirtualMachine', () => this.domain && this.become('Shutoff', 'Destroyed'));
    on('deleteVirtualMachine', () => this.#delete());
    this.guestInfo({ guestAgentVersion: '' });
  }

  #sync(request: unknown): void {
    if (this.domain) return;
    const { vmi } = request as { vmi: { vmiJson: Buffer } };
    const domain = startedDomain(JSON.parse(vmi.vmiJson.toString()));
    this.shape(domain);
    this.domain = domain;
    if (!this.definesFirst) {
      this.#tell('ADDED', domain);
      return;
    }
    const defined = structuredClone(domain);
    Object.assign(defined.Status, { Status: 'Shutoff', Reason: 'Unknown' });
    this.#tell('ADDED', defined);
    this.#tell('MODIFIED', domain);
  }

  #shutdown(): void {
    const grace = this.domain?.Spec.Metadata.KubeVirt.GracePeriod;
    if (!this.domain) return;
    this.change((domain) => {
      const { KubeVirt } = domain.Spec.Metadata;
      KubeVirt.GracePeriod = {
        DeletionGracePeriodSeconds: grace?.DeletionGracePeriodSeconds ?? 30,
        MarkedForGracefulShutdown: grace?.MarkedForGracefulShutdown ?? null,
        DeletionTimestamp: grace?.DeletionTimestamp ?? new Date().toISOString().replace(/\.\d+Z$/, 'Z'),
      };
      if (this.guestObeys) Object.assign(domain.Status, { Status: 'Shutoff', Reason: 'Shutdown' });
    });
  }

  #delete(): void {
    if (!this.domain) return;
    const gone = structuredClone(this.domain);
    gone.ObjectMeta.deletionTimestamp = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
    Object.assign(gone.Status, { Status: 'NoState', Reason: 'NonExistent' });
    this.domain = undefined;
    this.#tell('MODIFIED', gone);
    void this.#outbox.then(() => sleep(200)).then(() => this.kill());
  }

  #tell(eventType: string, domain: Domain): void {
    this.#outbox = this.#outbox.then(() => this.#deliver(eventType, domain));
  }

  async #deliver(eventType: string, domain: Domain): Promise<void> {
    const end = performance.now() + giveUpMs;
    while (!this.#ended && performance.now() < end) {
      try {
        this.#notifier ??= new ScriptedNotifier(`${this.#workDir}/events`);
        await this.#notifier.domainEvent(eventType, domain);
        return;
      } catch {
        await sleep(200);
      }
    }
  }
}
