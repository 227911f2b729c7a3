import type { Key, LauncherAddress, LauncherState, LauncherTarget } from '../api/index.ts';
import { type Clock, Listeners, type Logger, silentLogger, systemClock } from '../base/index.ts';
import type { Peer } from '../host/index.ts';
import { LauncherActor } from './actor.ts';
import type { LauncherSubscriber } from './actor-state.ts';
import { type ConnectionLimits, connectionLimits, type OpenConnection } from './connection.ts';
import { LauncherClientError } from './errors.ts';
import { type LauncherHost, thisMachine } from './launcher-host.ts';
import { emptyPods, judgeLiveness, type Liveness } from './liveness.ts';
import type { SearchOptions } from './search.ts';
import type { SocketOptions } from './sockets.ts';

export interface LauncherClientsOptions extends SocketOptions, Partial<Omit<SearchOptions, 'podsDir'>> {
  /** One connect() of a probe; 5 s upstream. */
  readonly probeTimeoutMs?: number;
  readonly limits?: ConnectionLimits;
}

export interface LauncherClientsDeps {
  /** This machine unless given. */
  readonly host?: LauncherHost;
  readonly clock?: Clock;
  readonly logger?: Logger;
}

const defaults = {
  initTimeoutMs: 180_000,
  probeTimeoutMs: 5_000,
  recheckMs: 50,
  refusedMs: 5_000,
  limits: connectionLimits,
};

/** A reconcile that waits for a socket asks about it far more often: after this the VMI has vanished. */
const unaskedMs = 300_000;
const sweepMs = 60_000;

/** The launchers of this node, by VMI UID: each has an actor of its own, so that one costs no other anything. */
export class LauncherClients {
  readonly #options: LauncherClientsOptions & typeof defaults;
  readonly #host: LauncherHost;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #actors = new Map<string, LauncherActor>();
  readonly #subscribers = new Set<LauncherSubscriber>();
  readonly #listeners = new Listeners<[key: Key]>();
  #isStopped = false;
  #sweptMs = Number.NEGATIVE_INFINITY;

  constructor(options: LauncherClientsOptions, deps: LauncherClientsDeps = {}) {
    this.#options = { ...defaults, ...options };
    this.#host = deps.host ?? thisMachine(this.#options);
    this.#clock = deps.clock ?? systemClock;
    this.#logger = deps.logger ?? silentLogger;
  }

  /** Follows all launchers from now on: who must not miss one subscribes before the first `connect`. */
  subscribe(subscriber: LauncherSubscriber): () => void {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  /** A launcher of this key made its socket, was connected to, or its connection broke. */
  onChange(listener: (key: Key) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Why nothing is known of any launcher: the pods' directory is missing, say; undefined: it is there. */
  get podsProblem(): string | undefined {
    return this.#host.hasAnyPod() ? undefined : emptyPods(this.#options.podsDir);
  }

  /** The open connection of a VMI, if any. No I/O. */
  peek(uid: string): OpenConnection | undefined {
    return this.#actors.get(uid)?.connection;
  }

  /**
   * The VMI's connection: the one that is open, or a new one (one attempt at a time per UID): find the socket, let
   * subscribers prepare, dial, agree on a version, let subscribers use it first. Rejects with LauncherClientError: NO_SOCKET,
   * MULTIPLE_SOCKETS, NOT_LISTENING, TIMEOUT, UNAVAILABLE, INCOMPATIBLE, NO_PEER, ABORTED, CLOSED, or with a subscriber's error.
   */
  async connect(target: LauncherTarget, signal?: AbortSignal): Promise<OpenConnection> {
    if (this.#isStopped) throw new LauncherClientError('CLOSED', 'the launcher clients were stopped');
    return this.#actorOf(target).connect(target, signal);
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
    throw new LauncherClientError('NO_PEER', `the launcher's process ${peer.pid} ended; others hold its connection`);
  }

  /** UIDs of which something is kept: a connection, or a socket that is waited for. */
  get size(): number {
    return [...this.#actors.values()].filter(({ isPassing }) => !isPassing).length;
  }

  /** Nothing is kept of a launcher that was only looked at, unless its socket is waited for. Never rejects. */
  async state(target: LauncherTarget): Promise<LauncherState> {
    if (this.#isStopped) return { kind: 'unclear', reason: 'the launcher clients were stopped' };
    const actor = this.#actorOf(target);
    const looking = actor.state(target);
    this.#sweep();
    return looking;
  }

  /**
   * Whether a launcher that was seen before still runs. A refusal on its socket together with the end of its process is
   * the proof; upstream polls for more than 30 s. Drops the connection of a dead one. `alive` when another process has
   * taken its place at the same path: a launcher restarted in place may have the guest still. Never rejects.
   */
  inspect(address: LauncherAddress): Promise<Liveness> {
    const actor = this.#actors.get(address.uid);
    if (actor) return actor.inspect(address);
    return judgeLiveness(address, undefined, this.#options, { host: this.#host, clock: this.#clock });
  }

  /** The process that listens on a launcher's socket, of which nothing is kept; undefined when there is none, or it is not known which. Never rejects. */
  async listenerOf({ socketFile }: LauncherAddress): Promise<Peer | undefined> {
    const { found } = await this.#host.probeAndPin(socketFile);
    found?.socket.close();
    return found?.peer;
  }

  /** Marks the socket for upstream's agent; a directory that is gone needs no mark. */
  markUnresponsive(socketFile: string): void {
    try {
      this.#host.markUnresponsive(socketFile);
    } catch (error) {
      this.#logger.debug({ socketFile, error }, 'launcher not marked unresponsive');
    }
  }

  /**
   * Closes the connection and lets subscribers forget the VMI. For the end of a clean-up; safe when there is none. Until it
   * resolves nothing connects to this UID.
   */
  async close(key: Key, uid: string): Promise<void> {
    const actor = this.#actorOf({ key, uid });
    try {
      await actor.drain();
    } finally {
      this.#drop(actor);
    }
  }

  /** The agent leaves: connections end, launchers and all records stay. */
  stop(): void {
    this.#isStopped = true;
    for (const actor of this.#actors.values()) actor.leave();
    this.#actors.clear();
  }

  #actorOf(target: Pick<LauncherTarget, 'key' | 'uid'>): LauncherActor {
    const known = this.#actors.get(target.uid);
    if (known) return known;
    const actor: LauncherActor = new LauncherActor(target, this.#options, {
      host: this.#host,
      clock: this.#clock,
      logger: this.#logger,
      subscriber: this.#published,
      onChange: () => {
        this.#listeners.notify(target.key);
      },
      onIdle: () => this.#drop(actor),
    });
    this.#actors.set(target.uid, actor);
    return actor;
  }

  #drop(actor: LauncherActor): void {
    if (this.#actors.get(actor.uid) === actor) this.#actors.delete(actor.uid);
  }

  /** Ends the wait for sockets of VMIs that vanished: nothing reports that. */
  #sweep(): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#sweptMs < sweepMs) return;
    this.#sweptMs = nowMs;
    for (const actor of this.#actors.values()) {
      if (actor.isInUse || nowMs - actor.lookedMs < unaskedMs) continue;
      actor.leave();
      this.#drop(actor);
    }
  }

  readonly #published: LauncherSubscriber = {
    onConnecting: (address) => this.#publish((subscriber) => subscriber.onConnecting(address)),
    onConnected: (connection) => this.#publish((subscriber) => subscriber.onConnected(connection)),
    onBroken: (connection) => {
      for (const subscriber of this.#subscribers) subscriber.onBroken(connection);
    },
    onDraining: (key, uid) => this.#publish((subscriber) => subscriber.onDraining(key, uid)),
  };

  /** Resolves when all have answered; one that rejects keeps none from being asked. */
  async #publish(ask: (subscriber: LauncherSubscriber) => Promise<void>): Promise<void> {
    const answers = await Promise.allSettled([...this.#subscribers].map(ask));
    for (const answer of answers) if (answer.status === 'rejected') throw answer.reason;
  }
}
