import { type Clock, type Component, errorMessage, Listeners, type Logger } from '../../base/index.ts';
import { isProcessAlive, userOf } from '../../host/index.ts';
import type { ControlConnection } from './control-connection.ts';
import type { ProxyTls } from './credentials.ts';
import { MigrationProxyError } from './errors.ts';
import { configurationOf, type ProxyPlan, type UserIds } from './haproxy-config.ts';
import { findHaproxy, killProcess, makeEmptyRoot, OrderProbe } from './haproxy-process.ts';
import { HeldProxy } from './held-proxies.ts';
import { listenAnywhere, PodSockets, targetSocket } from './pod-sockets.ts';
import type { EndedStreams } from './ports.ts';
import type { KeptProxy, ProxyKeeper } from './proxy-keeper.ts';
import { controlName, gone, ProxyProcesses, socketNames } from './proxy-processes.ts';
import { isSameDuty, isUid, type ProxyDuty, proxyId, rolesOf, type Side } from './proxy-record.ts';
import { type StallTimes, stallTimes } from './stall.ts';

export interface HaproxyOptions {
  /** Records and control sockets; this program's alone. */
  readonly directory: string;
  /** Under which other nodes reach this one. */
  readonly address: string;
  /** Figures are read, and launchers that have ended are noticed, this often; and the machine is asked at most so often what it has. */
  readonly lookMs?: number | undefined;
  /** Longest time of dialling, and of a handshake. */
  readonly setUpSeconds?: number;
  /** A stream whose other end takes nothing for so long is ended, and so is a process that does not answer for so long. */
  readonly stallSeconds: number;
}

export interface HaproxyDeps {
  /** Why this machine takes no migrations, in words. */
  readonly objection?: () => string | undefined;
  /** Where HAProxy is; undefined: not installed. */
  readonly find?: () => string | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Why streams were ended is remembered of so many. */
const maxEnded = 100;
/**
 * The guest runs on the target before the source's libvirt has the answer that says so. Without that answer it takes the migration for
 * failed and lets the guest run on, on both nodes: on a busy node the answer may still be in the proxy when the migration is over here.
 */
const lastWordMs = 2_000;
/** Has no rights, and no files. */
const unprivileged: UserIds = { uid: 65_534, gid: 65_534 };
const notInstalled =
  'HAProxy is not installed on this node, which carries the streams of migrations: install the package haproxy';

/**
 * The streams of live migrations by HAProxy: one process per VMI and side, in a session of its own, which outlives this program and is
 * adopted by the next one. It reads its configuration, certificates and listeners from descriptors, and then is confined: on the
 * target to the file system of the launcher as the launcher's user, on the source to an empty directory as a user without rights.
 */
export class HaproxyProxies implements ProxyKeeper, Component {
  readonly name = 'migration proxies';
  readonly address: string;
  /** A container's end ends all processes in it. */
  readonly outliveAgent = false;
  readonly #options: HaproxyOptions & { readonly setUpSeconds: number };
  readonly #times: StallTimes;
  readonly #deps: HaproxyDeps;
  readonly #processes: ProxyProcesses;
  readonly #held = new Map<string, HeldProxy>();
  readonly #ended = new Map<string, EndedStreams>();
  /** One order after the other for each id. */
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #listeners: Listeners<[string]>;
  #found: { readonly atMs: number; readonly program: string | undefined } | undefined;
  #cancelLook: (() => void) | undefined;
  #isStopped = false;
  readonly #order = new OrderProbe();

  constructor(options: HaproxyOptions, deps: HaproxyDeps) {
    this.#options = { setUpSeconds: 10, ...options };
    this.#times = stallTimes(options.stallSeconds, options.lookMs);
    this.#deps = deps;
    this.address = options.address;
    this.#processes = new ProxyProcesses(options.directory, deps);
    this.#listeners = new Listeners({
      onError: (error) => deps.log.error({ reason: errorMessage(error) }, 'a listener of migration proxies failed'),
    });
  }

  get supported(): boolean {
    return this.#program() !== undefined;
  }

  get problem(): string | undefined {
    return this.supported ? this.#deps.objection?.() : notInstalled;
  }

  kept(): readonly KeptProxy[] {
    return [...this.#held.values()];
  }

  find(side: Side, uid: string): ProxyDuty | undefined {
    return this.#held.get(proxyId(side, uid))?.duty;
  }

  ended(): readonly EndedStreams[] {
    return [...this.#ended.values()];
  }

  onChange(listener: (key: string) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Adopts what a former program left. A process whose launcher has ended, or that does not answer, is ended. Rejects never. */
  async start(): Promise<void> {
    await this.#sayWhatCarries();
    try {
      makeEmptyRoot(this.#options.directory);
      for (const { duty, control } of await this.#processes.takeUp()) this.#keep(duty, control);
    } catch (error) {
      this.#deps.log.error({ reason: errorMessage(error) }, 'the records of migration proxies cannot be read');
    }
  }

  /** This program leaves; its processes go on. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelLook?.();
    await Promise.allSettled(this.#turns.values());
    for (const { control } of this.#held.values()) control.close();
    this.#held.clear();
  }

  open(duty: ProxyDuty, tls: ProxyTls, signal: AbortSignal): Promise<void> {
    return this.#inTurn(duty.side, duty.uid, async () => {
      const held = this.#held.get(proxyId(duty.side, duty.uid));
      if (held && isSameDuty(held.duty, duty)) return;
      const program = this.#program();
      const { problem } = this;
      if (program === undefined || problem !== undefined) {
        throw new MigrationProxyError('UNAVAILABLE', problem ?? notInstalled);
      }
      signal.throwIfAborted();
      const inOrder = await this.#keepsOrder(program, signal);
      if (held) await this.#end(held);
      if (duty.side === 'target') await this.#openTarget({ duty, tls, program, inOrder, signal });
      else await this.#openSource({ duty, tls, program, inOrder, signal });
    });
  }

  close(side: Side, uid: string): Promise<void> {
    return this.#inTurn(side, uid, async () => {
      const held = this.#held.get(proxyId(side, uid));
      if (held) await this.#end(held, { drainMs: side === 'target' ? lastWordMs : 0 });
    });
  }

  async #openTarget({ duty: wanted, tls, program, inOrder, signal }: Opening<'target'>): Promise<void> {
    const { uid, streamUid = uid, launcher } = wanted;
    if (!isUid(streamUid)) throw new MigrationProxyError('BAD_REQUEST', 'the guest comes from what is no UID of a VMI');
    const user = userOfLauncher(wanted);
    const roles = rolesOf(wanted);
    const listeners: Awaited<ReturnType<typeof listenAnywhere>>[] = [];
    try {
      for (const _ of roles) listeners.push(await listenAnywhere());
      const ports = Object.fromEntries(roles.map((role, at) => [String(listeners[at]?.port), role]));
      const duty: ProxyDuty = { ...wanted, ports };
      const plan: ProxyPlan = {
        ...{ side: 'target', user, chroot: `/proc/${launcher.pid}/root`, controlName: controlName(duty) },
        streams: roles.map((role) => ({ role, socket: targetSocket(streamUid, role) })),
        ...this.#limits,
        ...{ inOrder, commonNames: tls.peers, settings: tls.settings },
      };
      const descriptors = listeners.map(({ descriptor }) => descriptor);
      const { keyPair, authorities } = tls;
      const start = { program, plan, keyPair, authorities, listeners: descriptors };
      this.#keep(duty, await this.#processes.start(duty, start, signal));
    } finally {
      await Promise.all(listeners.map((listener) => listener.close()));
    }
  }

  async #openSource({ duty, tls, program, inOrder, signal }: Opening<'source'>): Promise<void> {
    const { address, launcher, ports } = duty;
    const user = userOfLauncher(duty);
    const { keyPair, authorities, peers } = tls;
    const plan: ProxyPlan = {
      ...{ side: 'source', user: unprivileged, controlName: controlName(duty) },
      chroot: makeEmptyRoot(this.#options.directory),
      ...{ inOrder, address, commonName: peers === 'any' ? peers : (peers[0] ?? '') },
      ...this.#limits,
      streams: Object.entries(ports).map(([port, role]) => ({ port: Number(port), role })),
    };
    // What may not be written is refused before anything is made.
    configurationOf(plan);
    const sockets = await PodSockets.make(launcher.pid, user, socketNames(duty));
    try {
      const start = { program, plan, keyPair, authorities, listeners: sockets.descriptors };
      const control = await this.#processes.start(duty, start, signal);
      await sockets.publish(launcher.pid).catch(async (error: unknown) => {
        await this.#processes.discard(duty, control.process);
        control.close();
        throw error;
      });
      this.#keep(duty, control);
    } finally {
      await sockets.close();
    }
  }

  async #sayWhatCarries(): Promise<void> {
    const { address } = this;
    const { log } = this.#deps;
    const program = this.#program();
    if (program === undefined) log.warn({ reason: notInstalled }, 'live migrations are refused');
    else log.info({ address }, 'live migrations are carried by HAProxy');
    if (program !== undefined) await this.#keepsOrder(program);
  }

  /** Rejects with the signal's reason. */
  async #keepsOrder(program: string, signal?: AbortSignal): Promise<boolean> {
    const reason = await this.#order.objection(program, signal);
    if (reason === undefined) return true;
    this.#deps.log.warn({ program, reason }, 'streams of a migration that begin at once arrive in any order');
    return false;
  }

  get #limits(): { readonly setUpSeconds: number; readonly stallSeconds: number } {
    const { setUpSeconds, stallSeconds } = this.#options;
    return { setUpSeconds, stallSeconds };
  }

  #keep(duty: ProxyDuty, control: ControlConnection): void {
    const held = new HeldProxy(duty, control, this.#times);
    this.#held.set(held.id, held);
    if (this.#ended.get(held.id)?.migrationUid !== duty.migrationUid) this.#ended.delete(held.id);
    control.onEnd(() => this.#lost(held));
    this.#lookLater();
    const { key, side, uid, ports } = duty;
    this.#deps.log.info({ vmi: key, uid, side, ports, pid: control.process.pid }, 'a migration proxy serves');
    this.#listeners.notify(key);
  }

  /** Its end is not asked for: it was killed, or the machine had no memory left. */
  #lost(held: HeldProxy): void {
    const { key, uid, side } = held.duty;
    if (this.#isStopped || this.#held.get(held.id) !== held) return;
    this.#held.delete(held.id);
    this.#deps.log.warn({ vmi: key, uid, side, pid: held.control.process.pid }, 'a migration proxy has ended');
    void this.#inTurn(side, uid, async () => {
      if (!this.#held.has(held.id)) await this.#processes.discard(held.duty, held.control.process);
    }).catch(() => undefined);
    this.#listeners.notify(key);
  }

  async #end(held: HeldProxy, { drainMs = 0 } = {}): Promise<void> {
    this.#held.delete(held.id);
    held.control.close();
    await this.#processes.discard(held.duty, held.control.process, { drainMs });
    const { key, side, uid } = held.duty;
    this.#deps.log.info({ vmi: key, uid, side }, 'a migration proxy was closed');
    this.#listeners.notify(key);
  }

  #inTurn<T>(side: Side, uid: string, work: () => Promise<T>): Promise<T> {
    if (!isUid(uid)) return Promise.reject(new MigrationProxyError('BAD_REQUEST', 'that is no UID of a VMI'));
    const id = proxyId(side, uid);
    const before = this.#turns.get(id) ?? Promise.resolve();
    const done = before.then(() => {
      if (this.#isStopped)
        throw new MigrationProxyError('UNAVAILABLE', 'the migration proxies of this node have been left');
      return work();
    });
    const turn = done
      .catch(() => undefined)
      .then(() => {
        if (this.#turns.get(id) === turn) this.#turns.delete(id);
      });
    this.#turns.set(id, turn);
    return done;
  }

  /** The machine is asked at most so often. */
  #program(): string | undefined {
    const { clock, find = findHaproxy } = this.#deps;
    const nowMs = clock.monotonicMs();
    if (this.#found === undefined || nowMs - this.#found.atMs >= this.#times.lookMs) {
      this.#found = { atMs: nowMs, program: find() };
    }
    return this.#found.program;
  }

  #lookLater(): void {
    if (this.#isStopped || this.#held.size === 0) return;
    this.#cancelLook ??= this.#deps.clock.schedule(this.#times.lookMs, () => {
      this.#cancelLook = undefined;
      for (const held of this.#held.values()) void this.#look(held);
      this.#lookLater();
    });
  }

  /** Never rejects. A process that keeps its answer holds up none of the others. */
  async #look(held: HeldProxy): Promise<void> {
    const { key, side, uid, launcher } = held.duty;
    if (this.#isStopped) return;
    try {
      // Its streams lead nowhere, and its VMI may be gone from the API: no rule would close them.
      if (!isProcessAlive(launcher)) return await this.close(side, uid);
      const wasStalled = held.figures.stalledSeconds > 0;
      await held.refresh(this.#deps.clock);
      if (wasStalled !== held.figures.stalledSeconds > 0) this.#listeners.notify(key);
    } catch (error) {
      if (error instanceof MigrationProxyError && error.code === 'NO_ANSWER') await this.#endFrozen(held);
      else
        this.#deps.log.warn({ vmi: key, uid, side, reason: errorMessage(error) }, 'a migration proxy has no figures');
    }
  }

  /** Its streams hang at both ends, and neither libvirt nor QEMU would notice it of memory: with the process they break. */
  async #endFrozen(held: HeldProxy): Promise<void> {
    const { key, side, uid, migrationUid } = held.duty;
    if (this.#isStopped || this.#held.get(held.id) !== held || !held.control.isOpen) return;
    const reason = `stream frozen: the ${side}'s migration proxy did not answer for ${this.#options.stallSeconds} s`;
    this.#remember(held.id, { side, uid, ...(migrationUid !== undefined && { migrationUid }), reason });
    this.#deps.log.error({ vmi: key, uid, side, pid: held.process.pid, reason }, 'a migration proxy is killed');
    await killProcess(held.process);
    this.#lost(held);
    held.control.close();
  }

  #remember(id: string, ended: EndedStreams): void {
    this.#ended.delete(id);
    this.#ended.set(id, ended);
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > maxEnded && oldest !== undefined) this.#ended.delete(oldest);
  }
}

interface Opening<S extends Side> {
  readonly duty: Extract<ProxyDuty, { readonly side: S }>;
  readonly tls: ProxyTls;
  readonly program: string;
  readonly inOrder: boolean;
  readonly signal: AbortSignal;
}

function userOfLauncher({ launcher }: ProxyDuty): UserIds {
  const user = isProcessAlive(launcher) ? userOf(launcher.pid) : undefined;
  if (!user) throw gone(launcher.pid);
  return user;
}
