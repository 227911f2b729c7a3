import type { DomainReason, DomainStatus, Key, VirtualMachineInstance } from '../../../src/api/index.ts';
import { ends, isAlive, syncStep, transitionOf } from '../../fixtures/domain-rules.ts';
import type { Chance } from '../engine/chance.ts';
import { type Life, newLife, type Scheduler } from '../engine/scheduler.ts';
import { Notifier, type NotifyTrouble, noNotifyTrouble } from './notifier.ts';
import { domainJson, type GuestEnd, type SimDomain } from './sim-domain.ts';

/** What the guest does when it is asked to shut down. */
export type ShutdownHabit = 'obeys' | 'ignores' | 'hangs';

export interface LauncherOptions {
  readonly key: Key;
  readonly uid: string;
  readonly podUid: string;
  readonly nodeName: string;
  readonly pid: number;
  readonly graceSeconds: number;
  readonly habit: ShutdownHabit;
  readonly socketDelayMs: number;
  /** Its pod has the device of an SR-IOV interface. */
  readonly hasSriov: boolean;
}

export interface LauncherWorld {
  readonly scheduler: Scheduler;
  readonly chance: Chance;
  readonly wallNow: () => Date;
  readonly note: (text: string) => void;
  readonly onTaken: (launcher: SimLauncher, agent: Life, json: string) => void;
  /** Its socket appeared, or its process ended. */
  readonly onChange: (launcher: SimLauncher) => void;
}

export class Refusal extends Error {}

/** After its guest's end a launcher waits for the agent this long, then goes. */
const lingerMs = 45_000;

/** Upstream's launcher goes by the phase alone: an agent that syncs what has ended is found by the guest that starts again. */
const upstreamMemory = { hasRun: false, isPausedOnPurpose: true };

/** One virt-launcher process with its libvirt and its guest. */
export class SimLauncher {
  readonly options: LauncherOptions;
  readonly life: Life;
  readonly notifyTrouble: NotifyTrouble = noNotifyTrouble();
  readonly notifier: Notifier;
  domain: SimDomain | undefined;
  /** The first end of its guest. */
  ended: GuestEnd | undefined;
  endedMs = 0;
  /** The guest ran, or was asked to. */
  everStarted = false;
  marked = false;
  /** How often its guest got back its network device. */
  plugs = 0;
  /** How often somebody paused its guest. */
  pauses = 0;
  socketExists = false;
  /** Answers nothing, takes connections. */
  hungUntilMs = 0;
  slowMs = 0;
  /** Its daemon is away until then: QEMU runs on, and nobody can ask it for anything. */
  #libvirtAwayUntilMs = 0;
  /** Syncs fail this often. */
  refuseRate = 0;
  /** GetDomain answers nonsense this often. */
  garbageRate = 0;
  /** Migration that it waits for as a target. */
  preparedFor: string | undefined;
  /** Its definition was deleted under a running guest. */
  #isTransient = false;
  #isPlugging = false;
  readonly #world: LauncherWorld;

  constructor(options: LauncherOptions, world: LauncherWorld) {
    this.options = options;
    this.#world = world;
    this.life = newLife(`launcher ${options.uid}`);
    const { scheduler, chance } = world;
    this.notifier = new Notifier({
      scheduler,
      chance,
      life: this.life,
      trouble: this.notifyTrouble,
      isHung: () => this.isHung,
      onTaken: (agent, json) => world.onTaken(this, agent, json),
      onLastWord: () => this.#after(this.#world.chance.between(10, 500), 'exits', () => this.#exitWhenDone()),
    });
    this.#after(options.socketDelayMs, 'listens', () => {
      this.socketExists = true;
      world.onChange(this);
    });
  }

  get socketFile(): string {
    return `/pods/${this.options.podUid}/volumes/kubernetes.io~empty-dir/sockets/launcher-sock`;
  }

  get process() {
    return { pid: this.options.pid, startTime: `${this.options.pid}0`, uid: 0, gid: 0 };
  }

  get alive(): boolean {
    return !this.life.dead;
  }

  get isHung(): boolean {
    return this.#world.scheduler.nowMs < this.hungUntilMs;
  }

  get hasLibvirt(): boolean {
    return this.#world.scheduler.nowMs >= this.#libvirtAwayUntilMs;
  }

  /** How long until its daemon is back. */
  get libvirtBackInMs(): number {
    return Math.max(0, this.#libvirtAwayUntilMs - this.#world.scheduler.nowMs);
  }

  loseLibvirt(forMs: number): void {
    this.#libvirtAwayUntilMs = this.#world.scheduler.nowMs + forMs;
  }

  /** Handles a call when the process has time for it. */
  async serve<T>(act: () => T | Promise<T>): Promise<T> {
    const waitMs = Math.max(0, this.hungUntilMs - this.#world.scheduler.nowMs) + this.slowMs;
    if (waitMs > 0) await this.#pause(waitMs, 'has time again');
    return act();
  }

  /** SyncVirtualMachine. Throws Refusal. */
  async sync(vmi: VirtualMachineInstance): Promise<void> {
    const { chance } = this.#world;
    const step = syncStep(this.domain, upstreamMemory, vmi.status?.phase);
    if (step !== 'start' || this.marked) return;
    this.domain = {
      status: 'Shutoff',
      reason: 'Unknown',
      graceSeconds: this.options.graceSeconds,
      shutdownAt: null,
      migration: null,
      sriov: this.options.hasSriov,
    };
    this.publish('ADDED');
    await this.#pause(chance.between(1, 400), 'starts the guest');
    if (!this.domain) throw new Refusal('the domain was deleted');
    if (chance.happens(this.refuseRate)) {
      this.domain = undefined;
      this.publish('MODIFIED');
      throw new Refusal('QEMU does not start');
    }
    this.everStarted = true;
    const { domain } = this;
    if (chance.happens(0.5)) this.become('Paused', 'StartingUp');
    await this.#pause(chance.between(0, 50), 'guest runs');
    if (this.domain !== domain) return;
    // Some starts are answered with success and come to nothing.
    const isStarting = domain.reason === 'Unknown' && !chance.happens(0.02);
    if (isStarting || isAlive(domain)) this.become('Running', 'Unknown');
  }

  /** HotplugHostDevices: its answer comes before the device. Throws Refusal. */
  plugSriov(): void {
    const { chance } = this.#world;
    if (this.#isPlugging) throw new Refusal('hot-plug host-devices is in progress');
    this.#isPlugging = true;
    this.#after(chance.between(10, 5_000), 'plugs the network device', () => {
      this.#isPlugging = false;
      const { domain } = this;
      if (!isAlive(domain) || domain.sriov || chance.happens(0.3)) return;
      domain.sriov = this.options.hasSriov;
      this.plugs++;
      this.publish('MODIFIED');
    });
  }

  /** A guest that runs already when the world begins. */
  boot(): void {
    this.everStarted = true;
    this.socketExists = true;
    this.domain = {
      status: 'Running',
      reason: 'Unknown',
      graceSeconds: this.options.graceSeconds,
      shutdownAt: null,
      migration: null,
      sriov: this.options.hasSriov,
    };
  }

  shutdown(): void {
    const { domain } = this;
    if (!isAlive(domain)) return;
    if (domain.shutdownAt === null) {
      domain.shutdownAt = this.#world.wallNow().toISOString();
      this.publish('MODIFIED');
    }
    const { habit } = this.options;
    if (habit === 'ignores' || domain.status !== 'Running') return;
    this.become('ShuttingDown', 'User');
    if (habit === 'obeys')
      this.#after(this.#world.chance.between(10, 3_000), 'guest shuts down', () => this.end('shutdown'));
  }

  kill(): void {
    if (transitionOf('kill', this.domain).kind === 'becomes') this.end('killed');
  }

  /** DeleteVirtualMachine. */
  delete(): void {
    const { kind } = transitionOf('delete', this.domain);
    if (kind === 'outlives-definition') this.#isTransient = true;
    if (kind === 'gone') this.#vanish();
  }

  /** The guest's own end. */
  end(how: 'shutdown' | 'crashed' | 'killed'): void {
    if (!isAlive(this.domain)) return;
    this.#noteEnd(how);
    const { status, reason } = ends[how];
    if (this.#isTransient) this.#vanish();
    else this.become(status, reason);
    this.#after(lingerMs, 'gives up waiting', () => this.exit());
  }

  /** The guest goes on somewhere else: shut off here, and kept until it is deleted. */
  leave(): void {
    this.#noteEnd('migrated');
    this.become('Shutoff', 'Migrated');
    this.#after(lingerMs, 'gives up waiting', () => this.exit());
  }

  /** SignalTargetPodCleanup: nobody comes. */
  mayGo(): void {
    if (isAlive(this.domain)) return;
    this.marked = true;
    this.#after(this.#world.chance.between(10, 500), 'exits', () => this.#exitWhenDone());
  }

  /** SIGTERM to the pod: the agent is asked to end the guest; without a guest there is nothing to stay for. */
  terminate(): void {
    if (this.marked) return;
    this.marked = true;
    if (!this.domain) {
      this.#after(this.#world.chance.between(10, 1_000), 'exits', () => this.#exitWhenDone());
      return;
    }
    this.publish('MODIFIED');
    const killMs = (this.options.graceSeconds + 15) * 1_000;
    this.#after(killMs, 'ends the guest itself', () => this.kill());
  }

  /** The process ends, and the guest with it. */
  exit(): void {
    if (this.life.dead) return;
    if (isAlive(this.domain)) this.#noteEnd('launcher-died');
    this.domain = undefined;
    this.life.dead = true;
    this.#world.note(`launcher ${this.options.uid} has ended`);
    this.#world.onChange(this);
  }

  become(status: DomainStatus, reason: DomainReason): void {
    if (!this.domain) return;
    this.domain.status = status;
    this.domain.reason = reason;
    if (status === 'Paused' && reason === 'User') this.pauses++;
    this.#world.note(`${this.options.uid} is ${status}/${reason}`);
    this.publish('MODIFIED');
  }

  publish(type: 'ADDED' | 'MODIFIED'): void {
    const isLast = this.domain === undefined;
    this.notifier.send(type, this.json(), isLast);
  }

  /** What an event says now. */
  json(): string {
    const [namespace = '', name = ''] = this.options.key.split('/');
    const identity = { namespace, name, uid: this.options.uid, markedForShutdown: this.marked };
    return domainJson(this.domain, identity, this.#world.wallNow());
  }

  #vanish(): void {
    this.domain = undefined;
    this.publish('MODIFIED');
  }

  #exitWhenDone(): void {
    const isOver = this.ended !== undefined || this.marked;
    if (!this.domain && isOver) this.exit();
  }

  #noteEnd(how: GuestEnd): void {
    this.ended ??= how;
    this.endedMs ||= this.#world.scheduler.nowMs;
  }

  #pause(ms: number, label: string): Promise<void> {
    return new Promise((resolve) => this.#after(ms, label, resolve));
  }

  #after(ms: number, label: string, run: () => void): void {
    this.#world.scheduler.after(ms, label, this.life, run);
  }
}
