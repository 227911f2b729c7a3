import { type Clock, type Component, errorMessage, Listeners, type Logger } from '../../base/index.ts';
import { isProcessAlive, type ProcessId, processIdOf, userOf } from '../../host/index.ts';
import type { ControlConnection } from './control-connection.ts';
import type { ProxyCredentials } from './credentials.ts';
import { MigrationProxyError } from './errors.ts';
import { configurationOf, type ProxyPlan, type UserIds } from './haproxy-config.ts';
import { findHaproxy, makeEmptyRoot } from './haproxy-process.ts';
import { HeldProxy } from './held-proxies.ts';
import { listenAnywhere, PodSockets, targetSocket } from './pod-sockets.ts';
import type { MigrationProxies, ProxyFigures, ProxyPorts, SourceProxy, TargetProxy } from './ports.ts';
import { controlName, gone, ProxyProcesses, socketNames } from './proxy-processes.ts';
import { isSameDuty, isUid, type ProxyDuty, proxyId, type Side } from './proxy-record.ts';

export interface HaproxyOptions {
  /** Records and control sockets; the agent's alone. */
  readonly directory: string;
  /** Under which other nodes reach this one. */
  readonly address: string;
  /** Figures are read, and launchers that have ended are noticed, this often; and the machine is asked at most so often what it has. */
  readonly lookMs?: number;
  /** Longest time of dialling, and of a handshake. */
  readonly setUpSeconds?: number;
  /** A stream whose other end takes nothing for so long is ended. */
  readonly stallSeconds?: number;
  /** Streams that broke in post-copy are opened anew for so long. */
  readonly resumeMs?: number;
}

export interface HaproxyDeps {
  readonly credentials: Pick<
    ProxyCredentials,
    'problem' | 'settings' | 'clientNames' | 'serverName' | 'forServer' | 'forClient'
  >;
  /** The cluster wants what this adapter does not do, in words: migrations without TLS. */
  readonly objection?: () => string | undefined;
  /** Where HAProxy is; undefined: not installed. */
  readonly find?: () => string | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Has no rights, and no files. */
const unprivileged: UserIds = { uid: 65_534, gid: 65_534 };
const notInstalled =
  'HAProxy is not installed on this node, which carries the streams of migrations: install the package haproxy';

/**
 * The streams of live migrations by HAProxy: one process per VMI and side, in a session of its own, which outlives this agent and is
 * adopted by the next one. It reads its configuration, certificates and listeners from descriptors, and then is confined: on the
 * target to the file system of the launcher as the launcher's user, on the source to an empty directory as a user without rights.
 */
export class HaproxyProxies implements MigrationProxies, Component {
  readonly name = 'migration proxies';
  readonly address: string;
  readonly resumeMs: number;
  readonly #options: Required<HaproxyOptions>;
  readonly #deps: HaproxyDeps;
  readonly #processes: ProxyProcesses;
  readonly #held = new Map<string, HeldProxy>();
  /** One order after the other for each id. */
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #listeners: Listeners<[string]>;
  #refusal: string | undefined;
  #machine:
    | { readonly atMs: number; readonly program: string | undefined; readonly problem: string | undefined }
    | undefined;
  #cancelLook: (() => void) | undefined;
  #isStopped = false;

  constructor(options: HaproxyOptions, deps: HaproxyDeps) {
    this.#options = { lookMs: 5_000, setUpSeconds: 10, stallSeconds: 60, resumeMs: 300_000, ...options };
    this.#deps = deps;
    this.address = options.address;
    this.resumeMs = this.#options.resumeMs;
    this.#processes = new ProxyProcesses(options.directory, deps);
    this.#listeners = new Listeners({
      onError: (error) => deps.log.error({ reason: errorMessage(error) }, 'a listener of migration proxies failed'),
    });
  }

  get supported(): boolean {
    return this.#look().program !== undefined;
  }

  get unavailable(): string | undefined {
    const { program, problem } = this.#look();
    return this.#refusal ?? (program === undefined ? notInstalled : (this.#deps.objection?.() ?? problem));
  }

  get open(): number {
    return new Set([...this.#held.values()].map(({ duty }) => duty.uid)).size;
  }

  figures(): readonly ProxyFigures[] {
    return [...this.#held.values()].map(({ figures }) => figures);
  }

  targetPorts(uid: string): ProxyPorts | undefined {
    return this.#held.get(proxyId('target', uid))?.duty.ports;
  }

  hasSource(uid: string): boolean {
    return this.#held.has(proxyId('source', uid));
  }

  migrationOf(side: Side, uid: string): string | undefined {
    return this.#held.get(proxyId(side, uid))?.duty.migrationUid;
  }

  refuse(reason: string): void {
    this.#refusal = reason;
  }

  onChange(listener: (key: string) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Adopts what a former agent left. A process whose launcher has ended, or that does not answer, is ended. Rejects never. */
  async start(): Promise<void> {
    const { address } = this;
    if (this.supported) this.#deps.log.info({ address }, 'live migrations are carried by HAProxy');
    else this.#deps.log.warn({ reason: notInstalled }, 'live migrations are refused');
    try {
      makeEmptyRoot(this.#options.directory);
      for (const { duty, control } of await this.#processes.takeUp()) this.#keep(duty, control);
    } catch (error) {
      this.#deps.log.error({ reason: errorMessage(error) }, 'the records of migration proxies cannot be read');
    }
  }

  /** The agent leaves; its processes go on. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelLook?.();
    await Promise.allSettled(this.#turns.values());
    for (const { control } of this.#held.values()) control.close();
    this.#held.clear();
  }

  openTarget(proxy: TargetProxy, signal: AbortSignal): Promise<void> {
    return this.#inTurn('target', proxy.uid, async () => {
      const { key, uid, migrationUid, roles } = proxy;
      const [launcher, user] = launcherOf(proxy.launcherPid);
      const wanted = Object.fromEntries(roles.map((role, at) => [String(at), role]));
      if (!(await this.#isNew({ side: 'target', key, uid, migrationUid, launcher, ports: wanted }))) return;
      const { credentials } = this.#deps;
      const secrets = await credentials.forServer();
      const listeners: Awaited<ReturnType<typeof listenAnywhere>>[] = [];
      try {
        for (const _ of roles) listeners.push(await listenAnywhere());
        const ports = Object.fromEntries(roles.map((role, at) => [String(listeners[at]?.port), role]));
        const duty: ProxyDuty = { side: 'target', key, uid, migrationUid, launcher, ports };
        const plan: ProxyPlan = {
          ...{ side: 'target', user, chroot: `/proc/${launcher.pid}/root`, controlName: controlName(duty) },
          streams: roles.map((role) => ({ role, socket: targetSocket(uid, role) })),
          ...this.#limits,
          ...{ commonNames: credentials.clientNames, settings: credentials.settings },
        };
        const descriptors = listeners.map(({ descriptor }) => descriptor);
        const start = { program: this.#program, plan, ...secrets, listeners: descriptors };
        this.#keep(duty, await this.#processes.start(duty, start, signal));
      } finally {
        await Promise.all(listeners.map((listener) => listener.close()));
      }
    });
  }

  openSource(proxy: SourceProxy, signal: AbortSignal): Promise<void> {
    return this.#inTurn('source', proxy.uid, async () => {
      const { key, uid, migrationUid, address, ports } = proxy;
      const [launcher, user] = launcherOf(proxy.launcherPid);
      const duty: ProxyDuty = { side: 'source', key, uid, migrationUid, launcher, address, ports };
      if (!(await this.#isNew(duty))) return;
      const { credentials } = this.#deps;
      const secrets = await credentials.forClient();
      const plan: ProxyPlan = {
        ...{
          side: 'source',
          user: unprivileged,
          chroot: makeEmptyRoot(this.#options.directory),
          controlName: controlName(duty),
        },
        ...{ address, commonName: credentials.serverName },
        ...this.#limits,
        streams: Object.entries(ports).map(([port, role]) => ({ port: Number(port), role })),
      };
      // What may not be written is refused before anything is made.
      configurationOf(plan);
      const sockets = await PodSockets.make(launcher.pid, user, socketNames(duty));
      try {
        const start = { program: this.#program, plan, ...secrets, listeners: sockets.descriptors };
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
    });
  }

  closeTarget(uid: string): Promise<void> {
    return this.#close('target', uid);
  }

  closeSource(uid: string): Promise<void> {
    return this.#close('source', uid);
  }

  get #program(): string {
    return this.#look().program ?? 'haproxy';
  }

  get #limits(): { readonly setUpSeconds: number; readonly stallSeconds: number } {
    const { setUpSeconds, stallSeconds } = this.#options;
    return { setUpSeconds, stallSeconds };
  }

  /** False: it is there already. What is there for another end is ended. */
  async #isNew(duty: ProxyDuty): Promise<boolean> {
    const held = this.#held.get(proxyId(duty.side, duty.uid));
    if (held && isSameDuty(held.duty, duty)) return false;
    const { unavailable } = this;
    if (unavailable !== undefined) throw new MigrationProxyError('UNAVAILABLE', unavailable);
    if (held) await this.#end(held);
    return true;
  }

  #keep(duty: ProxyDuty, control: ControlConnection): void {
    const held = new HeldProxy(duty, control);
    this.#held.set(held.id, held);
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

  #close(side: Side, uid: string): Promise<void> {
    return this.#inTurn(side, uid, async () => {
      const held = this.#held.get(proxyId(side, uid));
      if (held) await this.#end(held);
    });
  }

  async #end(held: HeldProxy): Promise<void> {
    this.#held.delete(held.id);
    held.control.close();
    await this.#processes.discard(held.duty, held.control.process);
    const { key, side, uid } = held.duty;
    this.#deps.log.info({ vmi: key, uid, side }, 'a migration proxy was closed');
    this.#listeners.notify(key);
  }

  #inTurn<T>(side: Side, uid: string, work: () => Promise<T>): Promise<T> {
    if (!isUid(uid)) return Promise.reject(new MigrationProxyError('BAD_REQUEST', 'that is no UID of a VMI'));
    const id = proxyId(side, uid);
    const before = this.#turns.get(id) ?? Promise.resolve();
    const done = before.then(() => {
      if (this.#isStopped) throw new MigrationProxyError('UNAVAILABLE', 'this node agent has left');
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

  #look(): { readonly program: string | undefined; readonly problem: string | undefined } {
    const { clock, credentials, find = findHaproxy } = this.#deps;
    const nowMs = clock.monotonicMs();
    if (this.#machine === undefined || nowMs - this.#machine.atMs >= this.#options.lookMs) {
      this.#machine = { atMs: nowMs, program: find(), problem: credentials.problem };
    }
    return this.#machine;
  }

  #lookLater(): void {
    if (this.#isStopped || this.#held.size === 0) return;
    this.#cancelLook ??= this.#deps.clock.schedule(this.#options.lookMs, () => {
      this.#cancelLook = undefined;
      void this.#lookAtAll().finally(() => this.#lookLater());
    });
  }

  /** Streams of a launcher that has ended lead nowhere, and its VMI may be gone from the API: no rule would close them. */
  async #lookAtAll(): Promise<void> {
    await Promise.allSettled(
      [...this.#held.values()].map(async (held) => {
        const { side, uid, launcher } = held.duty;
        if (!isProcessAlive(launcher)) await this.#close(side, uid);
        else await held.refresh(this.#deps.clock);
      }),
    );
  }
}

function launcherOf(pid: number): [ProcessId, UserIds] {
  const [launcher, user] = [processIdOf(pid), userOf(pid)];
  if (!launcher || !user) throw gone(pid);
  return [launcher, user];
}
