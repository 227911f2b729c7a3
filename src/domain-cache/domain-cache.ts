import { setMaxListeners } from 'node:events';
import path from 'node:path';
import type { DomainView, Key, LauncherAddress, VmiEvent } from '../api/index.ts';
import { type Clock, type Logger, silentLogger, systemClock } from '../base/index.ts';
import type { RecordFiles } from '../host/index.ts';
import type { OpenConnection } from '../launcher-client/index.ts';
import { DomainStore } from './domain-store.ts';
import type { DomainCacheError } from './errors.ts';
import { type FollowerDeps, type FollowerOptions, LauncherFollower, type Launchers } from './follower.ts';
import { GhostRecords } from './ghost-records.ts';
import { type NotifyListeners, SocketListeners, type SocketListenersOptions } from './notify-listeners.ts';
import { RecordKeeper, rememberedAddress } from './record-keeper.ts';
import { forEachLimited, Rounds } from './rounds.ts';

export interface DomainCacheOptions extends SocketListenersOptions, Partial<FollowerOptions> {
  /** `--kubevirt-private-dir`: holds `ghost-records/`. */
  readonly privateDir: string;
  /** `--domain-resync-period-seconds`; 300 s upstream. */
  readonly resyncMs?: number;
  /** Between two looks at launchers without a connection; `--watchdog-timeout` / 3 + 1 = 11 s upstream. */
  readonly watchdogMs?: number;
  /** Launchers that are asked side by side. */
  readonly parallel?: number;
  /** A launcher that is silent for longer gives its worker slot to the next one. */
  readonly slotMs?: number;
}

export interface DomainCacheDeps {
  readonly launchers: Launchers;
  /** An event that a launcher wants on its VMI. */
  readonly onLauncherEvent?: (key: Key, uid: string, event: VmiEvent) => void;
  /** A problem of a VMI that an administrator should act on; undefined when it is over. */
  readonly onProblem?: (key: Key, uid: string, problem: DomainCacheError | undefined) => void;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly logger?: Logger;
  /** Sockets and files of this machine unless given. */
  readonly listeners?: NotifyListeners;
  readonly recordFiles?: RecordFiles;
}

const defaults = {
  resyncMs: 300_000,
  watchdogMs: 11_000,
  parallel: 32,
  slotMs: 500,
  recheckMs: 100,
};

/**
 * The domains of this node, in three values: present, gone (proven), unknown. Follows what the launcher clients publish: a
 * launcher gets its ghost record before it is dialled, its notify channel and its first question before its connection is
 * given out. Fed by launchers' events, by questions at start, after each connection and every five minutes, and by the watch
 * on their connections.
 */
export class DomainCache {
  readonly name = 'domain-cache';
  readonly ghostRecords: GhostRecords;
  readonly #options: DomainCacheOptions & typeof defaults;
  readonly #deps: DomainCacheDeps;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #launchers: Launchers;
  readonly #store: DomainStore;
  readonly #listeners: NotifyListeners;
  readonly #records: RecordKeeper;
  /** By VMI UID. */
  readonly #followers = new Map<string, LauncherFollower>();
  /** Released, and not closed yet. */
  readonly #lingering = new Set<LauncherFollower>();
  readonly #stopping = new AbortController();
  readonly #rounds: Rounds;
  #synced = false;

  /** Follows the launchers from now on, so that none is connected to without its record. */
  constructor(options: DomainCacheOptions, deps: DomainCacheDeps) {
    this.#options = { ...defaults, ...options };
    this.#deps = deps;
    // Every question to a launcher listens on it.
    setMaxListeners(0, this.#stopping.signal);
    this.#clock = deps.clock ?? systemClock;
    this.#logger = deps.logger ?? silentLogger;
    this.#launchers = deps.launchers;
    this.#rounds = new Rounds(this.#clock);
    this.#store = new DomainStore(this.#clock);
    this.ghostRecords = this.#makeRecords();
    this.#records = new RecordKeeper(this.ghostRecords, {
      logger: this.#logger,
      onProblem: (key, uid, problem) => {
        deps.onProblem?.(key, uid, problem);
        this.#store.touch(key);
      },
    });
    this.#listeners = deps.listeners ?? new SocketListeners(options, this.#logger);
    this.#launchers.subscribe({
      onConnecting: (address) => this.#onConnecting(address),
      onConnected: (connection) => this.#onConnected(connection),
      onBroken: ({ address }) => void this.#check(address.uid),
      onDraining: (key, uid) => this.#onDraining(key, uid),
    });
  }

  /** True once every remembered launcher was asked once. Before, those not asked yet are `unknown`. */
  get synced(): boolean {
    return this.#synced;
  }

  /** Why launchers cannot reach `domain-notify.sock`; undefined: they can. */
  get notifyProblem(): string | undefined {
    return this.#listeners.problem;
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
    return this.#records.problemOf(uid);
  }

  /** Reads the ghost records, serves the notify socket, and begins to ask all remembered launchers. */
  async start(): Promise<void> {
    await this.ghostRecords.load();
    await this.#listeners.start();
    for (const record of this.ghostRecords.all()) {
      const { address } = this.#follower(rememberedAddress(record));
      this.#store.unknown(address.key, address.uid, 'not asked yet since the agent started');
    }
    void this.#list();
    this.#rounds.every(this.#options.watchdogMs, () => this.#watchdog());
    this.#rounds.every(this.#options.resyncMs, () => this.#resync());
  }

  /** The agent leaves: sockets close, records stay, launchers are not touched. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error('domain cache stopped'));
    this.#rounds.stop();
    await this.#listeners.stop();
    await Promise.all([...this.#followers.values(), ...this.#lingering].map((follower) => follower.end()));
    await this.#records.saveUnsaved();
  }

  /** Drops the snapshot itself; the last step of a clean-up. */
  forget(key: Key, uid: string): void {
    this.#store.forget(key, uid);
  }

  /** Asks the launcher and stores the answer. Never rejects: a failure becomes `unknown`, or `gone` if it is proven. */
  async refresh(key: Key, uid: string, signal?: AbortSignal): Promise<DomainView> {
    const connection = this.#launchers.peek(uid);
    if (connection) await this.#followers.get(uid)?.ask(connection, signal);
    if (!connection?.connected) await this.#check(uid);
    return this.#store.view(key, uid);
  }

  /** Remembers the launcher on disk before it is dialled. A full disk is a problem to show, no reason to lose the VM. */
  async #onConnecting(address: LauncherAddress): Promise<void> {
    this.#follower(address);
    await this.#records.addBeforeDial(address);
  }

  async #onConnected(connection: OpenConnection): Promise<void> {
    const follower = this.#follower(connection.address);
    await this.#endLingering(connection.address.uid);
    await follower.attach(connection);
  }

  /** The ghost record goes; the notify channel goes when the launcher has sent its last event. */
  async #onDraining(key: Key, uid: string): Promise<void> {
    const follower = this.#followers.get(uid);
    this.#followers.delete(uid);
    if (follower) {
      this.#lingering.add(follower);
      follower.release(() => this.#lingering.delete(follower));
    }
    await this.#records.remove(key, uid);
  }

  /** The pipe of an earlier clean-up may be in the same place, and its end would remove the new one. */
  async #endLingering(uid: string): Promise<void> {
    for (const follower of this.#lingering) {
      if (follower.address.uid !== uid) continue;
      this.#lingering.delete(follower);
      await follower.end();
    }
  }

  #check(uid: string): Promise<void> {
    return this.#followers.get(uid)?.check() ?? Promise.resolve();
  }

  async #list(): Promise<void> {
    const remembered = [...this.#followers.values()];
    const checks: Promise<void>[] = [];
    await this.#forEach(remembered, (follower) => follower.hearRemembered());
    await this.#forEach(remembered, (follower) => {
      const check = this.#check(follower.address.uid);
      checks.push(check);
      return check;
    });
    await Promise.all(checks);
    this.#synced = true;
    for (const key of new Set(this.#store.keys())) this.#store.touch(key);
  }

  async #watchdog(): Promise<void> {
    const idle = [...this.#followers.values()].filter(
      ({ isDead, address }) => !isDead && !this.#launchers.peek(address.uid)?.connected,
    );
    await Promise.all([
      this.#listeners.ensure().catch((error: unknown) => this.#logger.error({ error }, 'notify socket was not made')),
      this.#records.saveUnsaved(),
      this.#forEach(idle, (follower) => this.#check(follower.address.uid)),
    ]);
  }

  async #resync(): Promise<void> {
    const connected = [...this.#followers.values()].flatMap((follower) => {
      const connection = this.#launchers.peek(follower.address.uid);
      return connection ? [{ follower, connection }] : [];
    });
    await this.#forEach(connected, ({ follower, connection }) => follower.ask(connection));
  }

  #forEach<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
    const { parallel: limit, slotMs } = this.#options;
    return forEachLimited(items, { limit, slotMs, clock: this.#clock }, work);
  }

  /** Another socket of the same UID is another launcher. */
  #follower(address: LauncherAddress): LauncherFollower {
    const known = this.#followers.get(address.uid);
    if (known?.address.socketFile === address.socketFile) return known;
    const follower = new LauncherFollower(address, this.#options, this.#followerDeps(address));
    void known?.end();
    this.#followers.set(address.uid, follower);
    return follower;
  }

  #followerDeps({ key, uid }: LauncherAddress): FollowerDeps {
    return {
      launchers: this.#launchers,
      store: this.#store,
      records: this.#records,
      listeners: this.#listeners,
      onEvent: (event) => this.#deps.onLauncherEvent?.(key, uid, event),
      stopping: this.#stopping.signal,
      clock: this.#clock,
      random: this.#deps.random ?? Math.random,
      logger: this.#logger,
    };
  }

  #makeRecords(): GhostRecords {
    const { recordFiles } = this.#deps;
    const directory = path.join(this.#options.privateDir, 'ghost-records');
    return new GhostRecords({ directory }, { logger: this.#logger, ...(recordFiles && { files: recordFiles }) });
  }
}
