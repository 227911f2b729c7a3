import { rmSync } from 'node:fs';
import path from 'node:path';
import type { Domain, DomainReason, DomainStatus } from '../../src/api/index.ts';
import { sleep } from '../../src/base/index.ts';
import type { CommandRpc } from '../../src/launcher-client/index.ts';
import type { ScriptedLauncher } from '../../test/fixtures/scripted-launcher.ts';
import { ScriptedPod } from '../../test/fixtures/scripted-launcher-pod.ts';
import { type Json, shapeStarted } from './started-domain.ts';

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

/** From the last event to the end of the process. */
const lastAnswerMs = 200;

/** One launcher of a scenario, which keeps what it was asked and does what the scenario says. */
export class PlayedLauncher {
  readonly podUid: string;
  /** Commands since they were last taken. */
  readonly #calls: PlayedCall[] = [];
  readonly #options: PlayedLauncherOptions;
  #pod: ScriptedPod | undefined;
  #commands = 0;
  /** Changes the domain that a sync makes. */
  shape: (domain: Domain) => void = () => undefined;

  private constructor(options: PlayedLauncherOptions) {
    this.podUid = options.podUid;
    this.#options = options;
  }

  static async start(options: PlayedLauncherOptions): Promise<PlayedLauncher> {
    const played = new PlayedLauncher(options);
    const { podUid, podsDir, workDir, pvcs, files } = options;
    const relay = path.resolve('test/fixtures/scripted-launcher-relay.pl');
    const env = { PVCS: pvcs.join(' '), FILES: files.join(' ') };
    played.#pod = await ScriptedPod.start(
      { podUid, podsDir, workDir, relay, ownPlaces, ownNetwork: true, env },
      { stepMs: 0, order: 'define-merged' },
      {
        shape: (domain, vmi) => played.#shape(domain, vmi),
        prepare: (launcher) => played.#keepCalls(launcher),
        onGone: () => void sleep(lastAnswerMs).then(() => played.kill()),
      },
    );
    played.guestInfo({ guestAgentVersion: '' });
    return played;
  }

  get ended(): boolean {
    return this.#running.ended;
  }

  /** Of commands so far. */
  get commands(): number {
    return this.#commands;
  }

  /** What a shutdown does: the guest obeys or does not. */
  set guestObeys(obeys: boolean) {
    this.#running.guest.isDeaf = !obeys;
  }

  /** How the domain of a sync begins: defined first, or running when it is first told of. */
  set definesFirst(first: boolean) {
    this.#running.guest.order = first ? 'define-first' : 'define-merged';
  }

  takeCalls(): PlayedCall[] {
    return this.#calls.splice(0);
  }

  fail(rpc: CommandRpc, message: string): void {
    this.#running.launcher.fail(rpc, message);
  }

  heal(rpc: CommandRpc): void {
    this.#running.launcher.heal(rpc);
  }

  /** What a connected guest agent is like. */
  guestInfo(info: Json): void {
    this.#running.guest.guestInfo(info);
  }

  become(status: DomainStatus, reason: DomainReason): void {
    this.change((domain) => {
      domain.Status = { ...domain.Status, Status: status, Reason: reason };
    });
  }

  /** Something about the guest is different: told as the real launcher tells it. */
  change(edit: (domain: Domain) => void): void {
    if (!this.#running.guest.domain) throw new Error(`${this.podUid} has no domain`);
    this.#running.guest.change(edit);
  }

  async sendEvent(event: Json): Promise<void> {
    await this.#running.guest.kubernetesEvent(event);
  }

  /** kill -9; the socket file stays. */
  async kill(): Promise<void> {
    await this.#running.end();
  }

  /** The pod is gone, as the kubelet leaves it. */
  async remove(): Promise<void> {
    await this.kill();
    rmSync(path.join(this.#options.podsDir, this.podUid), { recursive: true, force: true });
  }

  get #running(): ScriptedPod {
    if (!this.#pod) throw new Error(`${this.podUid} has not started`);
    return this.#pod;
  }

  #shape(domain: Domain, vmi: Json): void {
    shapeStarted(domain, vmi);
    this.shape(domain);
  }

  #keepCalls(launcher: ScriptedLauncher): void {
    launcher.onCall = (rpc) => {
      const call = launcher.calls.at(-1);
      launcher.calls.length = 0;
      if (!call || questions.includes(rpc)) return;
      this.#commands++;
      this.#calls.push({ rpc, request: call.request });
    };
  }
}
