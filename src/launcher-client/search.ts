import type { LauncherState, LauncherTarget } from '../api/index.ts';
import { type Clock, errorMessage, unreachable } from '../base/index.ts';
import type { LauncherHost } from './launcher-host.ts';
import { judgeLiveness, stateOf, stateWithoutSocket } from './liveness.ts';
import type { Listening, ProbedSocket } from './probe.ts';
import { multipleSockets, noSocket } from './sockets.ts';

export interface SearchOptions {
  readonly podsDir: string;
  /** How long a pod may be there without its socket; 3 min upstream. */
  readonly initTimeoutMs: number;
  /** Between two refusals, of which several prove an end. */
  readonly recheckMs: number;
  /** How long a socket that nothing listens on may be one that is just being made, when its process was never seen. */
  readonly refusedMs: number;
}

export interface SearchDeps {
  readonly host: LauncherHost;
  readonly clock: Clock;
  /** Something appeared where the socket will be made. */
  readonly onAppeared: () => void;
  /** What a probe found was let go, for no connection followed. */
  readonly onExpired: () => void;
}

/** What is known of a socket that no connection is made to yet. */
type Found =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'no-socket'; readonly sinceMs: number; readonly watch: { close(): void } }
  /** The socket is there, and no process was seen to listen on it. */
  | { readonly kind: 'no-listener'; readonly sinceMs: number; readonly socketSinceMs: number }
  /** A launcher listens: the connect that follows as a rule takes this and need not probe again. */
  | { readonly kind: 'listener'; readonly probed: ProbedSocket; readonly cancelExpiry: () => void }
  | { readonly kind: 'ended' };

/** A connect that follows from a look at the launcher's state comes within the same reconcile. */
const keptMs = 100;

/** Looks for the socket of one launcher until it is connected to. */
export class SocketSearch {
  readonly #options: SearchOptions;
  readonly #deps: SearchDeps;
  #found: Found = { kind: 'nothing' };

  constructor(options: SearchOptions, deps: SearchDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** A probe found a listener that no connection was made to yet. */
  get holdsProbe(): boolean {
    return this.#found.kind === 'listener';
  }

  /** Nothing was found that has to be kept. */
  get isEmpty(): boolean {
    return this.#found.kind === 'nothing' || this.#found.kind === 'ended';
  }

  /** The launcher's state by what can be seen from outside. What it waited for is forgotten with any other answer. Never rejects. */
  async look(target: LauncherTarget): Promise<LauncherState> {
    const state = await this.#look(target).catch(
      (error: unknown): LauncherState => ({ kind: 'unclear', reason: errorMessage(error) }),
    );
    if (state.kind !== 'not-ready' && !this.holdsProbe) this.#enter({ kind: 'nothing' });
    return state;
  }

  /** What a probe found right before; it is the caller's to close from now on. */
  take(): ProbedSocket | undefined {
    if (this.#found.kind !== 'listener') return undefined;
    const { probed, cancelExpiry } = this.#found;
    cancelExpiry();
    this.#found = { kind: 'nothing' };
    return probed;
  }

  /** Rejects with LauncherClientError NO_SOCKET or MULTIPLE_SOCKETS. */
  async onlySocket(target: LauncherTarget): Promise<string> {
    const [socketFile, ...others] = await this.#listeningSockets(target);
    if (socketFile === undefined) throw noSocket(target);
    if (others.length > 0) throw multipleSockets(target);
    return socketFile;
  }

  /** Lets go of everything; what a look under way finds is let go, too. Safe to call twice. */
  end(): void {
    this.#enter({ kind: 'ended' });
  }

  /** The one gate of this state. */
  #enter(next: Found): void {
    const before = this.#found;
    if (before.kind === 'ended') {
      letGo(next);
      return;
    }
    this.#found = next;
    letGo(before);
  }

  async #look(target: LauncherTarget): Promise<LauncherState> {
    const [socketFile, ...others] = await this.#findOrWatch(target);
    if (socketFile === undefined) return this.#stateWithoutSocket(target);
    const socketSinceMs = this.#enterNoListener();
    if (others.length > 0) return { kind: 'unclear', reason: multipleSockets(target).message };
    return await this.#stateOfSocket(target, socketFile, socketSinceMs);
  }

  /** Searches again once the watch has begun, so that a socket made meanwhile is not missed. Made anew each time: pods come and go. */
  async #findOrWatch(target: LauncherTarget): Promise<string[]> {
    const found = await this.#listeningSockets(target);
    if (found.length > 0) return found;
    const { host, clock, onAppeared } = this.#deps;
    const sinceMs = this.#waitsSinceMs ?? clock.monotonicMs();
    // The former watch ends before the next one begins.
    this.#enter({ kind: 'nothing' });
    this.#enter({ kind: 'no-socket', sinceMs, watch: host.watch(target, onAppeared) });
    return this.#listeningSockets(target);
  }

  /** With several sockets those that nothing listens on are leftovers of ended pods and do not count. */
  async #listeningSockets(target: LauncherTarget): Promise<string[]> {
    const { host } = this.#deps;
    const found = host.findSockets(target);
    if (found.length < 2) return found;
    const probed = await Promise.all(found.map((socketFile) => host.probe(socketFile)));
    const listening = found.filter((_, index) => probed[index] !== 'refused');
    return listening.length > 0 ? listening : found.slice(0, 1);
  }

  get #waitsSinceMs(): number | undefined {
    const found = this.#found;
    return found.kind === 'no-socket' || found.kind === 'no-listener' ? found.sinceMs : undefined;
  }

  #stateWithoutSocket(target: LauncherTarget): LauncherState {
    const { host, clock } = this.#deps;
    const nowMs = clock.monotonicMs();
    return stateWithoutSocket(target, nowMs - (this.#waitsSinceMs ?? nowMs), host, this.#options);
  }

  /** Gives since when the socket has been there without a listener. */
  #enterNoListener(): number {
    if (this.#found.kind === 'no-listener') return this.#found.socketSinceMs;
    const nowMs = this.#deps.clock.monotonicMs();
    this.#enter({ kind: 'no-listener', sinceMs: this.#waitsSinceMs ?? nowMs, socketSinceMs: nowMs });
    return nowMs;
  }

  async #stateOfSocket(target: LauncherTarget, socketFile: string, socketSinceMs: number): Promise<LauncherState> {
    const { host, clock } = this.#deps;
    const isRemembered = target.socketFile === socketFile;
    const address = { ...target, socketFile, process: isRemembered ? target.process : undefined };
    const probe = () => this.#probe(socketFile);
    const state = stateOf(await judgeLiveness(address, undefined, this.#options, { host, clock, probe }));
    if (state.kind !== 'dead' || isRemembered) return state;
    const forMs = clock.monotonicMs() - socketSinceMs;
    return forMs < this.#options.refusedMs ? { kind: 'not-ready', forMs } : state;
  }

  async #probe(socketFile: string): Promise<Listening> {
    const { listening, found } = await this.#deps.host.probeAndPin(socketFile);
    if (found) this.#enterListener(found);
    return listening;
  }

  #enterListener(probed: ProbedSocket): void {
    const cancelExpiry = this.#deps.clock.schedule(keptMs, () => {
      this.#enter({ kind: 'nothing' });
      this.#deps.onExpired();
    });
    this.#enter({ kind: 'listener', probed, cancelExpiry });
  }
}

function letGo(found: Found): void {
  switch (found.kind) {
    case 'nothing':
    case 'no-listener':
    case 'ended':
      return;
    case 'no-socket':
      found.watch.close();
      return;
    case 'listener':
      found.cancelExpiry();
      found.probed.socket.close();
      return;
    default:
      unreachable(found);
  }
}
