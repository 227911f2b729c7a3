import type { Key } from '../api/index.ts';
import { type Clock, errorMessage, type Logger, silentLogger, systemClock } from '../base/index.ts';
import type { Peer } from '../host/index.ts';
import { type ConnectionLimits, type ConnectionTarget, connectionLimits, type OpenConnection } from './connection.ts';
import { LauncherError } from './errors.ts';
import { type LauncherHost, thisMachine } from './launcher-host.ts';
import { type LauncherState, stateOf, stateWithoutSocket } from './launcher-state.ts';
import type { Listening } from './probe.ts';
import { Sightings } from './sightings.ts';
import { type LauncherTarget, multipleSockets, noSocket, type SocketOptions } from './sockets.ts';
import { emptyPods, judgeLauncher, type KnownLauncher, type Verdict } from './verdict.ts';

export interface LauncherClientsOptions extends SocketOptions {
  /** How long a pod may be there without its socket; 3 min upstream. */
  readonly initTimeoutMs?: number;
  /** One connect() of a probe; 5 s upstream. */
  readonly probeTimeoutMs?: number;
  /** Between two refusals, of which several prove an end. */
  readonly recheckMs?: number;
  /** How long a socket that nobody listens on may be one that is just being made, when its process was never seen. */
  readonly refusedMs?: number;
  readonly limits?: ConnectionLimits;
}

/** What must happen around a connection; both are the domain cache's. */
export interface LauncherHooks {
  /** Before the dial: remember the launcher on disk; `peer` if it is known already. A rejection ends the attempt. */
  register(target: ConnectionTarget, peer?: Peer): Promise<void>;
  /** After it: notify pipe, first picture of the domain. A rejection closes the connection. */
  attached(connection: OpenConnection): Promise<void>;
  /** The VMI is cleaned up: forget all of it. */
  released(key: Key, uid: string): Promise<void>;
}

export interface LauncherClientsDeps {
  readonly hooks: LauncherHooks;
  /** This machine unless given. */
  readonly host?: LauncherHost;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

interface Entry {
  readonly key: Key;
  connection: OpenConnection | undefined;
  opening: Promise<OpenConnection> | undefined;
  firstLookMs: number | undefined;
  /** Since when nobody listens on the socket of a process that was never seen. */
  refusedSinceMs: number | undefined;
  /** While the socket is missing. */
  watch: { close(): void } | undefined;
  lookedMs: number;
  /** Callers that ask whether its connection can still be used: they must hear of a clean-up. */
  askers: number;
  /** The VMI was cleaned up: whoever waits here comes too late. */
  released: boolean;
}

/** Whoever waits for a socket asks about it far more often: after this nobody does. */
const unaskedMs = 300_000;
const sweepMs = 60_000;

/** One connection per VMI UID, made on demand; each costs its own key only. */
export class LauncherClients {
  readonly #options: Required<LauncherClientsOptions>;
  readonly #hooks: LauncherHooks;
  readonly #host: LauncherHost;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #entries = new Map<string, Entry>();
  readonly #sightings: Sightings;
  readonly #changed = new Set<(key: Key) => void>();
  readonly #down = new Set<(uid: string) => void>();
  readonly #stopping = new AbortController();
  #sweptMs = Number.NEGATIVE_INFINITY;

  constructor(options: LauncherClientsOptions, deps: LauncherClientsDeps) {
    this.#options = {
      initTimeoutMs: 180_000,
      probeTimeoutMs: 5_000,
      recheckMs: 50,
      refusedMs: 5_000,
      limits: connectionLimits,
      ...options,
    };
    this.#hooks = deps.hooks;
    this.#host = deps.host ?? thisMachine(this.#options);
    this.#clock = deps.clock ?? systemClock;
    this.#sightings = new Sightings(this.#clock);
    this.#logger = deps.logger ?? silentLogger;
  }

  /** A launcher of this key made its socket, was connected to, or its connection broke. */
  onChange(listener: (key: Key) => void): () => void {
    this.#changed.add(listener);
    return () => this.#changed.delete(listener);
  }

  /** The connection of this VMI UID broke: find out with `inspect` what that means. */
  onDown(listener: (uid: string) => void): () => void {
    this.#down.add(listener);
    return () => this.#down.delete(listener);
  }

  /** Why nothing can be told of any launcher: the pods' directory is missing, say; undefined: it is there. */
  get podsProblem(): string | undefined {
    return this.#host.hasAnyPod() ? undefined : emptyPods(this.#options.podsDir);
  }

  /** The open connection of a VMI, if any. No I/O. */
  peek(uid: string): OpenConnection | undefined {
    return this.#entries.get(uid)?.connection;
  }

  /**
   * The VMI's connection: the one that is open, or a new one (single flight per UID): find the socket, remember it, dial,
   * agree on a version, notify pipe. Rejects with LauncherError: NO_SOCKET, MULTIPLE_SOCKETS, NOT_LISTENING, TIMEOUT,
   * UNAVAILABLE, INCOMPATIBLE, NO_PEER, ABORTED, CLOSED, or with a hook's error.
   */
  async connect(target: LauncherTarget, signal?: AbortSignal): Promise<OpenConnection> {
    if (this.#stopping.signal.aborted) throw new LauncherError('CLOSED', 'the launcher clients were stopped');
    const entry = this.#entry(target);
    const current = entry.connection;
    if (current && (await this.#isStillUsable(entry, current))) return current;
    if (entry.released) throw new LauncherError('CLOSED', 'the VMI was cleaned up');
    const isReplaced = this.#entries.get(target.uid) !== entry || (entry.connection && entry.connection !== current);
    if (isReplaced) return this.connect(target, signal);
    entry.opening ??= this.#open(entry, target).finally(() => {
      entry.opening = undefined;
    });
    return abortable(entry.opening, signal);
  }

  /** Like `connect`, and the launcher answers a Ping. */
  async connectVerified(target: LauncherTarget, signal?: AbortSignal): Promise<OpenConnection> {
    const connection = await this.connect(target, signal);
    await connection.ping(signal);
    return connection;
  }

  /**
   * For `/proc/<pid>`, which is another process's as soon as the launcher has ended: its children may hold its sockets, and with
   * them the connection, for longer. Rejects as `connect` does, then with NO_PEER.
   */
  async launcherPid(target: LauncherTarget, signal?: AbortSignal): Promise<number> {
    const { peer } = await this.connect(target, signal);
    if (this.#host.isProcessAlive(peer)) return peer.pid;
    throw new LauncherError('NO_PEER', `the launcher's process ${peer.pid} ended; others hold its connection`);
  }

  /** UIDs of which something is kept: a connection, or a socket that is waited for. */
  get size(): number {
    return this.#entries.size;
  }

  /** Nothing is kept of a launcher that was only looked at, unless its socket is waited for. Never rejects. */
  async state(target: LauncherTarget): Promise<LauncherState> {
    const entry = this.#entry(target);
    entry.lookedMs = this.#clock.monotonicMs();
    this.#sweep();
    const state = await this.#look(entry, target);
    if (state.kind !== 'not-ready' && !isInUse(entry)) this.#drop(target.uid, entry);
    return state;
  }

  /** VMIs that vanished while their socket was waited for: nobody says so. */
  #sweep(): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#sweptMs < sweepMs) return;
    this.#sweptMs = nowMs;
    for (const [uid, entry] of this.#entries) {
      if (!isInUse(entry) && nowMs - entry.lookedMs >= unaskedMs) this.#drop(uid, entry);
    }
  }

  #drop(uid: string, entry: Entry): void {
    if (this.#entries.get(uid) !== entry) return;
    entry.watch?.close();
    this.#entries.delete(uid);
  }

  async #look(entry: Entry, target: LauncherTarget): Promise<LauncherState> {
    const { connection } = entry;
    try {
      if (connection && !connection.closed) return await this.#stateOfConnection(connection);
      const [socketFile, ...others] = await this.#findOrWatch(entry, target);
      if (socketFile === undefined) return this.#stateWithoutSocket(entry, target);
      entry.watch?.close();
      entry.watch = undefined;
      if (others.length > 0) return { kind: 'unclear', reason: multipleSockets(target).message };
      return await this.#stateOfSocket(entry, target, socketFile);
    } catch (error) {
      return { kind: 'unclear', reason: errorMessage(error) };
    }
  }

  /**
   * Whether a launcher that was seen before still runs. A refusal on its socket together with the end of its process is
   * the proof; upstream polls for more than 30 s. Drops the connection of a dead one. `alive` when another process has
   * taken its place at the same path: a launcher restarted in place may have the guest still. Never rejects.
   */
  async inspect(known: KnownLauncher): Promise<Verdict> {
    const verdict = await this.#judge(known);
    if (verdict.kind !== 'dead') return verdict;
    const connection = this.#entries.get(known.uid)?.connection;
    if (connection?.target.socketFile !== known.socketFile) return verdict;
    connection.close();
    const entry = this.#entries.get(known.uid);
    if (entry?.connection === connection) entry.connection = undefined;
    const listening = await this.#host.probe(known.socketFile);
    if (listening === 'listening') {
      this.#logger.warn({ vmi: connection.target.key, uid: known.uid, ended: verdict.proof }, 'launcher was replaced');
      return { kind: 'alive' };
    }
    return listening === 'hung' ? { kind: 'unknown', reason: 'its socket is hung', listening } : verdict;
  }

  /** Marks the socket for upstream's agent; a directory that is gone needs no mark. */
  markUnresponsive(socketFile: string): void {
    try {
      this.#host.markUnresponsive(socketFile);
    } catch (error) {
      this.#logger.debug({ socketFile, error }, 'launcher not marked unresponsive');
    }
  }

  /** Closes the connection and lets the hooks forget the VMI. For the end of a clean-up; safe when there is none. */
  async close(key: Key, uid: string): Promise<void> {
    const entry = this.#entries.get(uid);
    this.#entries.delete(uid);
    if (entry) entry.released = true;
    this.#sightings.drop(uid);
    entry?.watch?.close();
    entry?.connection?.close();
    await entry?.opening?.then(
      (connection) => connection.close(),
      () => undefined,
    );
    await this.#hooks.released(key, uid);
  }

  /** The agent leaves: connections end, launchers and all records stay. */
  stop(): void {
    this.#stopping.abort();
    for (const entry of this.#entries.values()) {
      entry.watch?.close();
      entry.connection?.close();
    }
    this.#entries.clear();
    this.#sightings.clear();
  }

  #entry({ key, uid }: LauncherTarget): Entry {
    let entry = this.#entries.get(uid);
    if (!entry) {
      const nothing = { connection: undefined, opening: undefined, watch: undefined, released: false, askers: 0 };
      entry = { key, ...nothing, ...notSeen, lookedMs: this.#clock.monotonicMs() };
      this.#entries.set(uid, entry);
    }
    return entry;
  }

  async #isStillUsable(entry: Entry, connection: OpenConnection): Promise<boolean> {
    entry.askers++;
    try {
      return await this.#isUsable(connection);
    } finally {
      entry.askers--;
    }
  }

  /** A connection that broke is kept as long as its launcher may still be there: gRPC dials it again by itself. */
  async #isUsable(connection: OpenConnection): Promise<boolean> {
    if (connection.closed) return false;
    if (connection.connected) return true;
    const verdict = await this.inspect(knownOf(connection));
    return verdict.kind !== 'dead' && !connection.closed;
  }

  async #open(entry: Entry, target: LauncherTarget): Promise<OpenConnection> {
    const sighting = this.#sightings.take(target.uid);
    const { key, uid, nonRoot } = target;
    const place: ConnectionTarget = {
      key,
      uid,
      nonRoot,
      socketFile: sighting?.socketFile ?? (await this.#onlySocket(target)),
    };
    try {
      await this.#hooks.register(place, sighting?.peer);
    } catch (error) {
      sighting?.socket.close();
      throw error;
    }
    const connection = await this.#host.open(place, this.#connectionDeps, sighting);
    try {
      await this.#hooks.attached(connection);
    } catch (error) {
      connection.close();
      throw error;
    }
    entry.connection = connection;
    Object.assign(entry, notSeen);
    if (this.#stopping.signal.aborted) connection.close();
    this.#tellChanged(key);
    return connection;
  }

  get #connectionDeps() {
    return {
      onDown: (connection: OpenConnection) => {
        for (const listener of this.#down) listener(connection.target.uid);
        this.#tellChanged(connection.target.key);
      },
      hasEnded: async (connection: OpenConnection) =>
        (await this.#judge(knownOf(connection), connection)).kind === 'dead',
    };
  }

  async #onlySocket(target: LauncherTarget): Promise<string> {
    const [socketFile, ...others] = await this.#listeningSockets(target);
    if (socketFile === undefined) throw noSocket(target);
    if (others.length > 0) throw multipleSockets(target);
    return socketFile;
  }

  /** With several sockets those that nobody listens on are leftovers of ended pods and do not count. */
  async #listeningSockets(target: LauncherTarget): Promise<string[]> {
    const found = this.#host.findSockets(target);
    if (found.length < 2) return found;
    const probed = await Promise.all(found.map((socketFile) => this.#host.probe(socketFile)));
    const listening = found.filter((_, index) => probed[index] !== 'refused');
    return listening.length > 0 ? listening : found.slice(0, 1);
  }

  async #stateOfConnection(connection: OpenConnection): Promise<LauncherState> {
    if (connection.connected) return { kind: 'ready', connected: true };
    return stateOf(await this.inspect(knownOf(connection)));
  }

  async #stateOfSocket(entry: Entry, target: LauncherTarget, socketFile: string): Promise<LauncherState> {
    const isRemembered = target.socketFile === socketFile;
    const process = isRemembered ? target.process : undefined;
    const probe = () => this.#meet(target.uid, socketFile);
    const state = stateOf(await this.#judge({ uid: target.uid, socketFile, process }, undefined, probe));
    if (state.kind !== 'dead' || isRemembered) {
      entry.refusedSinceMs = undefined;
      return state;
    }
    const now = this.#clock.monotonicMs();
    entry.refusedSinceMs ??= now;
    const forMs = now - entry.refusedSinceMs;
    return forMs < this.#options.refusedMs ? { kind: 'not-ready', forMs } : state;
  }

  /** Looks again once the watch has begun, so that a socket made meanwhile is not missed. Made anew each time: pods come and go. */
  async #findOrWatch(entry: Entry, target: LauncherTarget): Promise<string[]> {
    const found = await this.#listeningSockets(target);
    if (found.length > 0) return found;
    entry.watch?.close();
    entry.watch = this.#host.watch(target, () => this.#tellChanged(entry.key));
    if (this.#stopping.signal.aborted) entry.watch.close();
    return this.#listeningSockets(target);
  }

  #stateWithoutSocket(entry: Entry, target: LauncherTarget): LauncherState {
    const nowMs = this.#clock.monotonicMs();
    entry.firstLookMs ??= nowMs;
    return stateWithoutSocket(target, nowMs - entry.firstLookMs, this.#host, this.#options);
  }

  async #meet(uid: string, socketFile: string): Promise<Listening> {
    const { listening, sighting } = await this.#host.meet(socketFile);
    if (!sighting) return listening;
    if (this.#stopping.signal.aborted) sighting.socket.close();
    else this.#sightings.keep(uid, sighting);
    return listening;
  }

  #judge(known: KnownLauncher, connection = this.peek(known.uid), probe?: LauncherHost['probe']): Promise<Verdict> {
    const own = connection?.target.socketFile === known.socketFile && !connection.closed ? connection : undefined;
    const { podsDir, recheckMs } = this.#options;
    const options = { host: this.#host, podsDir, recheckMs, clock: this.#clock, ...(probe && { probe }) };
    return judgeLauncher(known, own, options);
  }

  #tellChanged(key: Key): void {
    for (const listener of this.#changed) listener(key);
  }
}

function isInUse({ connection, opening, askers }: Entry): boolean {
  return connection !== undefined || opening !== undefined || askers > 0;
}

const notSeen = { firstLookMs: undefined, refusedSinceMs: undefined };

function knownOf({ target, peer }: OpenConnection): KnownLauncher {
  return { uid: target.uid, socketFile: target.socketFile, process: peer };
}

/** Lets a caller go when its signal fires; what it waited for goes on. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(new LauncherError('ABORTED', 'the connection was given up', { cause: signal.reason }));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
