import { setMaxListeners } from 'node:events';
import path from 'node:path';
import { type Key, makeKey } from '../api/index.ts';
import {
  backoffDelayMs,
  type Clock,
  errorMessage,
  type Logger,
  silentLogger,
  sleep,
  systemClock,
} from '../base/index.ts';
import { DomainStore, type DomainView } from './domain-store.ts';
import { DomainCacheError } from './errors.ts';
import { type GhostRecord, GhostRecords } from './ghost-records.ts';
import { forEachLimited } from './limited.ts';
import { type ChannelLimits, NotifyChannel } from './notify-channel.ts';
import { ownDomain } from './notify-events.ts';
import { NotifyPipe, type PipePlace } from './pipe.ts';
import type { LauncherEvent, LauncherLink, LauncherLinks, LauncherPlace } from './ports.ts';
import { SharedSocket } from './shared-socket.ts';

export interface DomainCacheOptions {
  /** `--kubevirt-share-dir`: holds `domain-notify.sock`. */
  readonly shareDir: string;
  /** `--kubevirt-private-dir`: holds `ghost-records/`. */
  readonly privateDir: string;
  /** `--domain-resync-period-seconds`; 300 s upstream. */
  readonly resyncMs?: number;
  /** Between two looks at launchers without a connection; `--watchdog-timeout` / 3 + 1 = 11 s upstream. */
  readonly watchdogMs?: number;
  /** Launchers that are asked side by side. */
  readonly parallel?: number;
  /** Wait before the second question after an unexpected "no domain". */
  readonly recheckMs?: number;
  readonly channelLimits?: ChannelLimits;
  /** Where a launcher's pipe belongs; `/proc/<pid>/root` + `var/run/kubevirt` unless given. */
  readonly pipePlace?: (link: LauncherLink) => PipePlace;
}

export interface DomainCacheDeps {
  readonly links: LauncherLinks;
  /** An event that a launcher wants on its VMI. */
  readonly onLauncherEvent?: (key: Key, uid: string, event: LauncherEvent) => void;
  /** A problem of a VMI that somebody should do something about; undefined when it is over. */
  readonly onProblem?: (key: Key, uid: string, problem: DomainCacheError | undefined) => void;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

interface Launcher {
  readonly place: LauncherPlace;
  channel: NotifyChannel | undefined;
  pipe: NotifyPipe | undefined;
  checking: Promise<void> | undefined;
  failures: number;
  cancelRetry: (() => void) | undefined;
  refreshing: boolean;
  refreshAgain: boolean;
  dead: boolean;
}

const defaults = {
  resyncMs: 300_000,
  watchdogMs: 11_000,
  parallel: 32,
  recheckMs: 100,
};
const staleDelayMs = 1_000;
/** Upstream's launcher waits 15 s for its last event. */
const lingerMs = 20_000;
const lingerCheckMs = 200;
const retryBackoff = { baseMs: 500, maxMs: 15_000, jitter: 0.2 };

/**
 * The domains of this node, in three values: present, gone (proven), unknown. Fed by launchers' events, by questions at
 * start, after each connection and every five minutes, and by the watch on their connections.
 */
export class DomainCache {
  readonly name = 'domain-cache';
  readonly ghostRecords: GhostRecords;
  readonly #options: DomainCacheOptions & typeof defaults;
  readonly #deps: DomainCacheDeps;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #store: DomainStore;
  readonly #shared: SharedSocket;
  readonly #launchers = new Map<string, Launcher>();
  readonly #lingering = new Set<Launcher>();
  readonly #problems = new Map<string, DomainCacheError>();
  readonly #stopping = new AbortController();
  #synced = false;
  #ends: (() => void)[] = [];

  constructor(options: DomainCacheOptions, deps: DomainCacheDeps) {
    this.#options = { ...defaults, ...options };
    this.#deps = deps;
    // Every question to a launcher listens on it.
    setMaxListeners(0, this.#stopping.signal);
    this.#clock = deps.clock ?? systemClock;
    this.#logger = deps.logger ?? silentLogger;
    this.#store = new DomainStore(this.#clock);
    const logger = this.#logger;
    this.ghostRecords = new GhostRecords({ directory: path.join(options.privateDir, 'ghost-records') }, { logger });
    this.#shared = new SharedSocket(path.join(options.shareDir, 'domain-notify.sock'), {
      logger,
      accept: (peer, socket) => {
        const channel = [...this.#launchers.values()].find((launcher) => launcher.channel?.isFor(peer))?.channel;
        channel?.accept(socket);
        return channel !== undefined;
      },
    });
  }

  /** True once every remembered launcher was asked once. Before, those not asked yet are `unknown`. */
  get synced(): boolean {
    return this.#synced;
  }

  /** With `uid`: that VMI's domain only, so that a predecessor of the same name never shows through. */
  view(key: Key, uid?: string): DomainView {
    return this.#store.view(key, uid);
  }

  /** UIDs other than `uid` still known under this key: leftovers of earlier VMIs of the name. */
  otherUids(key: Key, uid: string): string[] {
    return this.#store.otherUids(key, uid);
  }

  keys(): Iterable<Key> {
    return this.#store.keys();
  }

  /** Called with the key after each change of a view or a problem. */
  onChange(listener: (key: Key) => void): () => void {
    return this.#store.onChange(listener);
  }

  /** What the user should know about this VMI: a record that is not saved. */
  problemOf(uid: string): DomainCacheError | undefined {
    return this.#problems.get(uid);
  }

  /** Reads the ghost records, serves the notify socket, and begins to ask all remembered launchers. */
  async start(): Promise<void> {
    await this.ghostRecords.load();
    await this.#shared.start();
    this.#ends.push(this.#deps.links.onDown((uid) => void this.#check(uid)));
    for (const record of this.ghostRecords.all()) {
      const { place } = this.#launcher(placeOf(record));
      this.#store.unknown(place.key, place.uid, 'not asked yet since the agent started');
    }
    void this.#list();
    this.#every(this.#options.watchdogMs, () => this.#watchdog());
    this.#every(this.#options.resyncMs, () => this.#resync());
  }

  /** The agent leaves: sockets close, records stay, launchers are not touched. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('domain cache stopped'));
    for (const end of this.#ends.splice(0)) end();
    await this.#shared.stop();
    await Promise.all([...this.#launchers.values(), ...this.#lingering].map((launcher) => this.#detach(launcher)));
    await this.ghostRecords.saveUnsaved().catch(() => undefined);
  }

  /** Hook before a dial: remembers the launcher on disk. A full disk is a problem to show, no reason to lose the VM. */
  async register(place: LauncherPlace): Promise<void> {
    const { namespace, name } = splitKey(place.key);
    this.#launcher(place);
    const record: GhostRecord = { namespace, name, socketFile: place.socketFile, uid: place.uid };
    await this.#saving(place.key, place.uid, this.ghostRecords.add(record));
  }

  /** Hook after a dial: notify pipe first, then the first question, so that nothing falls between. */
  async attach(link: LauncherLink): Promise<void> {
    const launcher = this.#launcher(link.target);
    launcher.dead = false;
    if (!launcher.channel?.isFor(link.peer)) {
      await this.#detach(launcher);
      const channel = this.#createChannel(link);
      const place = this.#options.pipePlace?.(link) ?? {
        root: `/proc/${link.peer.pid}/root`,
        directory: 'var/run/kubevirt',
      };
      launcher.pipe = await NotifyPipe.open(place, channel, this.#logger);
      launcher.channel = channel;
    }
    await this.#ask(link);
  }

  /** Hook at the end of a clean-up: the ghost record goes, the pipe when the launcher has said its last word. */
  async released(key: Key, uid: string): Promise<void> {
    const launcher = this.#launchers.get(uid);
    this.#launchers.delete(uid);
    if (launcher) this.#linger(launcher);
    await this.#saving(key, uid, this.ghostRecords.remove(uid));
    this.#setProblem(key, uid, undefined);
  }

  /** Drops the picture itself; the last step of a clean-up. */
  forget(key: Key, uid: string): void {
    this.#store.forget(key, uid);
  }

  /** Asks the launcher and stores the answer. Never rejects: a failure becomes `unknown`, or `gone` if it is proven. */
  async refresh(key: Key, uid: string, signal?: AbortSignal): Promise<DomainView> {
    const link = this.#deps.links.peek(uid);
    if (link) await this.#ask(link, signal);
    if (!link?.connected) await this.#check(uid);
    return this.#store.view(key, uid);
  }

  async #list(): Promise<void> {
    await forEachLimited([...this.#launchers.keys()], this.#options.parallel, (uid) => this.#check(uid));
    this.#synced = true;
    for (const key of new Set(this.#store.keys())) this.#store.touch(key);
  }

  async #watchdog(): Promise<void> {
    const idle = [...this.#launchers.values()].filter(
      ({ dead, place }) => !dead && !this.#deps.links.peek(place.uid)?.connected,
    );
    await Promise.all([
      this.#shared.ensure().catch((error: unknown) => this.#logger.error({ error }, 'notify socket was not made')),
      this.#saveUnsaved(),
      forEachLimited(idle, this.#options.parallel, ({ place }) => this.#check(place.uid)),
    ]);
  }

  async #resync(): Promise<void> {
    const links = [...this.#launchers.keys()].flatMap((uid) => this.#deps.links.peek(uid) ?? []);
    await forEachLimited(links, this.#options.parallel, (link) => this.#ask(link));
  }

  /** Finds out about one launcher: dead, alive (then connected and asked), or unknown (then again after a while). */
  #check(uid: string): Promise<void> {
    const launcher = this.#launchers.get(uid);
    if (!launcher || this.#stopping.signal.aborted) return Promise.resolve();
    launcher.checking ??= this.#checkNow(launcher).finally(() => {
      launcher.checking = undefined;
    });
    return launcher.checking;
  }

  async #checkNow(launcher: Launcher): Promise<void> {
    const { key, uid, socketFile } = launcher.place;
    const { links } = this.#deps;
    const asked = this.#store.ask();
    const process = launcher.channel?.process ?? links.peek(uid)?.peer;
    const verdict = await links.inspect({ uid, socketFile, process });
    if (this.#launchers.get(uid) !== launcher || this.#stopping.signal.aborted) return;
    if (verdict.kind === 'dead') return this.#died(launcher, verdict.proof);
    if (verdict.kind === 'unknown') return this.#notKnown(launcher, verdict.reason, asked);
    try {
      const wasLinked = links.peek(uid) !== undefined;
      const link = await links.connect({ key, uid, socketFile, activePods: {}, nonRoot: false }, this.#stopping.signal);
      link.reconnect();
      if (wasLinked) await this.#ask(link);
    } catch (error) {
      this.#notKnown(launcher, errorMessage(error), asked);
    }
  }

  async #died(launcher: Launcher, proof: string): Promise<void> {
    const { key, uid, socketFile } = launcher.place;
    launcher.dead = true;
    this.#settled(launcher);
    this.#logger.info({ vmi: key, uid, proof }, 'launcher ended');
    await this.#detach(launcher);
    this.#deps.links.markUnresponsive(socketFile);
    this.#store.dead(key, uid, proof);
  }

  #notKnown(launcher: Launcher, reason: string, asked: { seq: number; seenMs: number }): void {
    const { key, uid } = launcher.place;
    this.#store.unknown(key, uid, reason, asked);
    launcher.failures++;
    launcher.cancelRetry?.();
    launcher.cancelRetry = this.#clock.schedule(backoffDelayMs(launcher.failures, retryBackoff), () => {
      launcher.cancelRetry = undefined;
      void this.#check(uid);
    });
  }

  #settled(launcher: Launcher): void {
    launcher.failures = 0;
    launcher.cancelRetry?.();
    launcher.cancelRetry = undefined;
  }

  /** One question to a launcher. "No domain" where there was one is asked twice. Never rejects. */
  async #ask(link: LauncherLink, signal: AbortSignal = this.#stopping.signal): Promise<void> {
    const { key, uid } = link.target;
    const launcher = this.#launchers.get(uid);
    if (!launcher) return;
    let asked = this.#store.ask();
    try {
      let domain = await link.getDomain(signal);
      if (!domain && this.#store.view(key, uid).kind === 'present') {
        await sleep(this.#options.recheckMs, signal, this.#clock);
        asked = this.#store.ask();
        domain = await link.getDomain(signal);
      }
      if (this.#launchers.get(uid) !== launcher || launcher.dead) return;
      this.#store.answer(key, uid, domain && ownDomain(domain, link.target), asked);
      this.#settled(launcher);
    } catch (error) {
      if (this.#launchers.get(uid) !== launcher || signal.aborted) return;
      this.#notKnown(launcher, errorMessage(error), asked);
    }
  }

  /** Asks once, soon, however often it is called: for floods and for events that say nothing. */
  #refreshSoon(launcher: Launcher): void {
    if (launcher.refreshing) {
      launcher.refreshAgain = true;
      return;
    }
    launcher.refreshing = true;
    const cancel = this.#clock.schedule(staleDelayMs, () => {
      this.#ends = this.#ends.filter((end) => end !== cancel);
      const link = this.#deps.links.peek(launcher.place.uid);
      void (link ? this.#ask(link) : Promise.resolve()).then(() => {
        launcher.refreshing = false;
        if (!launcher.refreshAgain) return;
        launcher.refreshAgain = false;
        this.#refreshSoon(launcher);
      });
    });
    this.#ends.push(cancel);
  }

  #createChannel({ target, peer }: LauncherLink): NotifyChannel {
    const { key, uid } = target;
    const launcher = this.#launcher(target);
    return new NotifyChannel({ key, uid }, peer, {
      clock: this.#clock,
      logger: this.#logger,
      ...(this.#options.channelLimits && { limits: this.#options.channelLimits }),
      handlers: {
        domain: (domain) => {
          if (this.#launchers.get(uid) !== launcher || launcher.dead) return;
          this.#settled(launcher);
          this.#store.event(key, uid, domain);
        },
        stale: () => this.#refreshSoon(launcher),
        kubernetesEvent: (event) => this.#deps.onLauncherEvent?.(key, uid, event),
      },
    });
  }

  /** A launcher stays until its DELETED event was taken, else for 45 s (spec 70 §9): its pipe outlives the clean-up. */
  #linger(launcher: Launcher): void {
    const endMs = this.#clock.monotonicMs() + lingerMs;
    launcher.cancelRetry?.();
    this.#lingering.add(launcher);
    const check = () => {
      const { channel } = launcher;
      const isOver = !channel || channel.hasEnded || this.#clock.monotonicMs() >= endMs || !channel.isProcessAlive();
      if (!isOver) {
        launcher.cancelRetry = this.#clock.schedule(lingerCheckMs, check);
        return;
      }
      this.#lingering.delete(launcher);
      void this.#detach(launcher);
    };
    // Not at once: the answer to the last event may be on its way.
    launcher.cancelRetry = this.#clock.schedule(lingerCheckMs, check);
  }

  #launcher(place: LauncherPlace): Launcher {
    const known = this.#launchers.get(place.uid);
    if (known && known.place.socketFile === place.socketFile) return known;
    const launcher: Launcher = {
      place: { key: place.key, uid: place.uid, socketFile: place.socketFile },
      channel: undefined,
      pipe: undefined,
      checking: undefined,
      failures: 0,
      cancelRetry: undefined,
      refreshing: false,
      refreshAgain: false,
      dead: false,
    };
    if (known) void this.#detach(known);
    this.#launchers.set(place.uid, launcher);
    return launcher;
  }

  async #detach(launcher: Launcher): Promise<void> {
    const { channel, pipe } = launcher;
    launcher.channel = undefined;
    launcher.pipe = undefined;
    launcher.cancelRetry?.();
    launcher.cancelRetry = undefined;
    channel?.close();
    await pipe?.close();
  }

  async #saveUnsaved(): Promise<void> {
    for (const uid of this.ghostRecords.unsaved()) {
      const record = this.ghostRecords.byUid(uid);
      if (record) await this.#saving(makeKey(record.namespace, record.name), uid, this.ghostRecords.add(record));
      else await this.ghostRecords.remove(uid).catch(() => undefined);
    }
  }

  async #saving(key: Key, uid: string, saved: Promise<void>): Promise<void> {
    try {
      await saved;
      this.#setProblem(key, uid, undefined);
    } catch (error) {
      if (!(error instanceof DomainCacheError) || error.code === 'RECORD_INVALID') throw error;
      this.#setProblem(key, uid, error);
    }
  }

  #setProblem(key: Key, uid: string, problem: DomainCacheError | undefined): void {
    if (this.#problems.get(uid)?.message === problem?.message) return;
    if (problem) {
      this.#problems.set(uid, problem);
      this.#logger.error({ vmi: key, uid, code: problem.code, reason: problem.message }, 'ghost record not saved');
    } else this.#problems.delete(uid);
    this.#deps.onProblem?.(key, uid, problem);
    this.#store.touch(key);
  }

  /** Runs `work` again and again, `ms` after it ended. `work` must not reject. */
  #every(ms: number, work: () => Promise<void>): void {
    let cancel = () => {};
    const again = () => {
      if (this.#stopping.signal.aborted) return;
      cancel = this.#clock.schedule(ms, () => void work().finally(again));
    };
    again();
    this.#ends.push(() => cancel());
  }
}

function placeOf({ namespace, name, uid, socketFile }: GhostRecord): LauncherPlace {
  return { key: makeKey(namespace, name), uid, socketFile };
}

function splitKey(key: Key): { namespace: string; name: string } {
  const at = key.indexOf('/');
  return { namespace: key.slice(0, at), name: key.slice(at + 1) };
}
