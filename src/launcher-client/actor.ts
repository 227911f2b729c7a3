import type { Key, LauncherAddress, LauncherState, LauncherTarget } from '../api/index.ts';
import { type Logger, unreachable } from '../base/index.ts';
import { type ActorState, closed, type In, type LauncherSubscriber, letGo } from './actor-state.ts';
import type { OpenConnection } from './connection.ts';
import { LauncherClientError } from './errors.ts';
import { judgeLiveness, type Liveness, type LivenessDeps, stateOf } from './liveness.ts';
import { type SearchOptions, SocketSearch } from './search.ts';

export interface ActorDeps extends Required<Omit<LivenessDeps, 'probe'>> {
  readonly logger: Logger;
  readonly subscriber: LauncherSubscriber;
  /** Its socket appeared, it was connected to, or its connection broke. */
  readonly onChange: () => void;
  /** Nothing is kept of it any more. */
  readonly onIdle: () => void;
}

/** What this agent does about the launcher of one VMI UID. */
export class LauncherActor {
  readonly key: Key;
  readonly uid: string;
  /** When its state was asked for last. */
  lookedMs: number;
  readonly #options: SearchOptions;
  readonly #deps: ActorDeps;
  #state: ActorState;
  /** Calls under way: they have to hear of a clean-up. */
  #callers = 0;

  constructor({ key, uid }: Pick<LauncherTarget, 'key' | 'uid'>, options: SearchOptions, deps: ActorDeps) {
    this.key = key;
    this.uid = uid;
    this.#options = options;
    this.#deps = deps;
    this.lookedMs = deps.clock.monotonicMs();
    this.#state = { kind: 'probing', search: this.#newSearch() };
  }

  /** The connection that all callers may use. */
  get connection(): OpenConnection | undefined {
    return this.#state.kind === 'attached' ? this.#state.connection : undefined;
  }

  /** Has, makes or is asked for a connection. */
  get isInUse(): boolean {
    return this.#state.kind !== 'probing' || this.#callers > 0;
  }

  /** Nothing is kept of it. */
  get isIdle(): boolean {
    return !this.isInUse && this.#state.kind === 'probing' && this.#state.search.isEmpty;
  }

  /** What a probe found a moment ago is all that is kept of it, and goes by itself. */
  get isPassing(): boolean {
    return !this.isInUse && this.#state.kind === 'probing' && this.#state.search.holdsProbe;
  }

  /** The open connection, or a new one; one attempt at a time, for all callers. */
  connect(target: LauncherTarget, signal?: AbortSignal): Promise<OpenConnection> {
    return this.#asCaller(() => this.#connect(target, signal));
  }

  /** Never rejects. */
  state(target: LauncherTarget): Promise<LauncherState> {
    this.lookedMs = this.#deps.clock.monotonicMs();
    return this.#asCaller(() => this.#look(target));
  }

  /** As LauncherClients.inspect. */
  async inspect(address: LauncherAddress): Promise<Liveness> {
    const liveness = await this.#judge(address, this.connection);
    const state = this.#state;
    if (liveness.kind !== 'dead' || state.kind !== 'attached') return liveness;
    if (state.connection.address.socketFile !== address.socketFile) return liveness;
    this.#lose(state);
    const listening = await this.#deps.host.probe(address.socketFile);
    if (listening === 'listening') {
      this.#deps.logger.warn({ vmi: this.key, uid: this.uid, ended: liveness.proof }, 'launcher was replaced');
      return { kind: 'alive' };
    }
    return listening === 'hung' ? { kind: 'unknown', reason: 'its socket is hung', listening } : liveness;
  }

  async #asCaller<T>(call: () => Promise<T>): Promise<T> {
    this.#callers++;
    try {
      return await call();
    } finally {
      this.#callers--;
      if (this.isIdle) this.#deps.onIdle();
    }
  }

  async #connect(target: LauncherTarget, signal: AbortSignal | undefined): Promise<OpenConnection> {
    const state = this.#state;
    switch (state.kind) {
      case 'probing':
        return abortable(this.#beginConnecting(state, target), signal);
      case 'connecting':
      case 'connected':
        return abortable(state.attempt, signal);
      case 'attached':
        if (await this.#isUsable(state.connection)) return state.connection;
        if (this.#state === state) this.#lose(state);
        return this.#connect(target, signal);
      case 'draining':
      case 'left':
        throw closed(state);
      default:
        return unreachable(state);
    }
  }

  async #look(target: LauncherTarget): Promise<LauncherState> {
    const state = this.#state;
    switch (state.kind) {
      case 'probing':
      case 'connecting':
      case 'connected':
        return state.search.look(target);
      case 'attached':
        if (state.connection.connected) return { kind: 'ready', connected: true };
        if (!state.connection.closed) return stateOf(await this.inspect(addressOf(state.connection)));
        this.#lose(state);
        return this.#look(target);
      case 'draining':
      case 'left':
        return { kind: 'unclear', reason: closed(state).message };
      default:
        return unreachable(state);
    }
  }

  async #isUsable(connection: OpenConnection): Promise<boolean> {
    if (connection.closed) return false;
    if (connection.connected) return true;
    const liveness = await this.inspect(addressOf(connection));
    return liveness.kind !== 'dead' && !connection.closed;
  }

  // probing → connecting
  #beginConnecting({ search }: In<'probing'>, target: LauncherTarget): Promise<OpenConnection> {
    const attempt = this.#attempt(search, target);
    this.#state = { kind: 'connecting', search, attempt };
    return attempt;
  }

  /** From `connecting` to `attached`, or back to `probing` with the reason. */
  async #attempt(search: SocketSearch, target: LauncherTarget): Promise<OpenConnection> {
    // The state `connecting` is entered first.
    await Promise.resolve();
    try {
      const connection = await this.#dial(search, target);
      this.#enterConnected(connection);
      try {
        await this.#deps.subscriber.onConnected(connection);
        this.#enterAttached(connection);
      } catch (error) {
        connection.close();
        throw error;
      }
      return connection;
    } catch (error) {
      this.#giveUpAttempt();
      throw error;
    }
  }

  async #dial(search: SocketSearch, target: LauncherTarget): Promise<OpenConnection> {
    const { subscriber, host } = this.#deps;
    const probed = search.take();
    const { key, uid } = this;
    let address: LauncherAddress;
    try {
      const socketFile = probed?.socketFile ?? (await search.onlySocket(target));
      const process = probed && { pid: probed.peer.pid, startTime: probed.peer.startTime };
      address = { key, uid, socketFile, ...(process && { process }) };
      await subscriber.onConnecting(address);
      this.#connectingState();
    } catch (error) {
      probed?.socket.close();
      throw error;
    }
    return host.open(address, this.#connectionDeps, probed);
  }

  // connecting → connected
  #enterConnected(connection: OpenConnection): void {
    try {
      this.#state = { ...this.#connectingState(), kind: 'connected', connection };
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  // connected → attached
  #enterAttached(connection: OpenConnection): void {
    const state = this.#state;
    if (state.kind !== 'connected') throw closed(state);
    state.search.end();
    this.#state = { kind: 'attached', connection };
    this.#deps.onChange();
  }

  // connecting | connected → probing
  #giveUpAttempt(): void {
    const state = this.#state;
    if (state.kind !== 'connecting' && state.kind !== 'connected') return;
    this.#state = { kind: 'probing', search: state.search };
    // All callers may have been let go by their signals.
    if (this.isIdle) this.#deps.onIdle();
  }

  // attached → probing: its launcher is proven to have ended
  #lose({ connection }: In<'attached'>): void {
    connection.close();
    this.#state = { kind: 'probing', search: this.#newSearch() };
  }

  /** Any state → draining. Resolves when all subscribers have let go; safe to call twice. */
  drain(): Promise<void> {
    const before = this.#state;
    if (before.kind === 'draining') return before.drained;
    letGo(before);
    const drained = this.#publishDraining(before);
    this.#state = { kind: 'draining', drained };
    return drained;
  }

  async #publishDraining(before: ActorState): Promise<void> {
    // The state `draining` is entered first.
    await Promise.resolve();
    // A subscriber that still prepares would keep what it is about to let go of.
    if (before.kind === 'connecting' || before.kind === 'connected') await before.attempt.catch(() => undefined);
    await this.#deps.subscriber.onDraining(this.key, this.uid);
  }

  /** Any state → left. */
  leave(): void {
    letGo(this.#state);
    this.#state = { kind: 'left' };
  }

  /** Throws when the VMI was cleaned up, or the agent left, while the attempt was under way. */
  #connectingState(): In<'connecting'> {
    if (this.#state.kind !== 'connecting') throw closed(this.#state);
    return this.#state;
  }

  get #connectionDeps() {
    return {
      onDown: (connection: OpenConnection) => {
        this.#deps.subscriber.onBroken(connection);
        this.#deps.onChange();
      },
      hasEnded: async (connection: OpenConnection) =>
        (await this.#judge(addressOf(connection), connection)).kind === 'dead',
    };
  }

  #judge(address: LauncherAddress, connection: OpenConnection | undefined): Promise<Liveness> {
    const isOwn = connection?.address.socketFile === address.socketFile && !connection.closed;
    return judgeLiveness(address, isOwn ? connection : undefined, this.#options, this.#deps);
  }

  #newSearch(): SocketSearch {
    const { host, clock, onChange, onIdle } = this.#deps;
    const onExpired = () => {
      if (this.isIdle) onIdle();
    };
    return new SocketSearch(this.#options, { host, clock, onAppeared: onChange, onExpired });
  }
}

export function addressOf({ address, peer }: Pick<OpenConnection, 'address' | 'peer'>): LauncherAddress {
  return { ...address, process: { pid: peer.pid, startTime: peer.startTime } };
}

/** Lets a caller go when its signal fires; what it waited for goes on. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = () =>
      reject(new LauncherClientError('ABORTED', 'the connection was given up', { cause: signal.reason }));
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
