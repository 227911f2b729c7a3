import type { Socket } from 'node:net';
import {
  backoffDelayMs,
  type Clock,
  type Component,
  errorMessage,
  Listeners,
  type Logger,
  sameJson,
} from '../../base/index.ts';
import { isProcessAlive, peerOf } from '../../host/index.ts';
import { connectIn } from './connect-in.ts';
import type { ProxyTls } from './credentials.ts';
import { MigrationProxyError } from './errors.ts';
import { LineChannel } from './line-channel.ts';
import type { EndedStreams } from './ports.ts';
import type { KeptProxy, ProxyKeeper } from './proxy-keeper.ts';
import { type ProxyDuty, proxyId, type Side } from './proxy-record.ts';
import {
  isRelayState,
  type RelayAnswer,
  type RelayRequest,
  type RelayState,
  readRelayMessage,
  relaySocketName,
  relayVersion,
} from './relay-protocol.ts';

export interface RelayedOptions {
  /** Where the relay's socket is. */
  readonly directory: string;
  /** Said before the relay has said its own: nothing is open then. */
  readonly address: string;
  /** A start waits so long for the relay. */
  readonly startMs?: number;
  /** An answer that has not come by then does not come. */
  readonly answerMs?: number;
}

export interface RelayedDeps {
  readonly clock: Clock;
  readonly log: Logger;
}

interface Waiting {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const retry = { baseMs: 100, maxMs: 1_000 };
const helloMs = 5_000;

/**
 * The proxy processes that the relay of this node keeps, which goes on when this agent's container ends. What it keeps is remembered
 * while it does not answer, until a process of it has provably ended: streams that nobody has seen end are not over.
 */
export class RelayedProxies implements ProxyKeeper, Component {
  readonly name = 'migration relay';
  readonly outliveAgent = true;
  readonly #options: Required<RelayedOptions>;
  readonly #deps: RelayedDeps;
  readonly #listeners: Listeners<[string]>;
  readonly #answers = new Map<number, Waiting>();
  readonly #connected = new Listeners();
  #kept = new Map<string, KeptProxy>();
  #state: RelayState | undefined;
  #channel: LineChannel | undefined;
  #silence = 'it was not asked yet';
  #failures = 0;
  #nextId = 1;
  #cancelRetry: (() => void) | undefined;
  #isStopped = false;

  constructor(options: RelayedOptions, deps: RelayedDeps) {
    this.#options = { startMs: 3_000, answerMs: 45_000, ...options };
    this.#deps = deps;
    this.#listeners = new Listeners({
      onError: (error) => deps.log.error({ reason: errorMessage(error) }, 'a listener of migration proxies failed'),
    });
  }

  get address(): string {
    return this.#state?.address ?? this.#options.address;
  }

  /** While the relay does not answer, nothing says that it could not. */
  get supported(): boolean {
    return this.#state?.supported ?? true;
  }

  get problem(): string | undefined {
    return this.unreachable ?? this.#state?.problem;
  }

  /** Why the relay cannot be reached, in words; undefined: it can. */
  get unreachable(): string | undefined {
    if (this.#channel) return undefined;
    return `the migration relay of this node does not answer (${this.#silence}): see to the DaemonSet virt-handler-migration-relay`;
  }

  kept(): readonly KeptProxy[] {
    return [...this.#kept.values()];
  }

  find(side: Side, uid: string): ProxyDuty | undefined {
    return this.#kept.get(proxyId(side, uid))?.duty;
  }

  ended(): readonly EndedStreams[] {
    return this.#state?.ended ?? [];
  }

  onChange(listener: (key: string) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Resolves when the relay has said what it keeps, or has not in time. Rejects never. */
  async start(): Promise<void> {
    const { clock, log } = this.#deps;
    await new Promise<void>((resolve) => {
      const cancel = clock.schedule(this.#options.startMs, resolve);
      this.#connected.add(() => {
        cancel();
        resolve();
      });
      void this.#connect();
    });
    this.#connected.clear();
    const { problem } = this;
    if (problem === undefined)
      log.info({ address: this.address }, 'live migrations are carried by the migration relay');
    else log.warn({ reason: problem }, 'live migrations are refused');
  }

  /** The relay and its processes go on. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancelRetry?.();
    this.#channel?.end('the agent leaves');
  }

  async open(duty: ProxyDuty, tls: ProxyTls, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const id = this.#nextId++;
    const cancel = () => this.#channel?.send({ id, call: 'cancel' });
    signal.addEventListener('abort', cancel, { once: true });
    try {
      await this.#ask({ id, call: 'open', duty, tls });
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      signal.removeEventListener('abort', cancel);
    }
  }

  async close(side: Side, uid: string): Promise<void> {
    if (!this.#channel && !this.find(side, uid)) return;
    await this.#ask({ id: this.#nextId++, call: 'close', side, uid });
  }

  #ask(request: RelayRequest): Promise<void> {
    const { problem } = this;
    const channel = this.#channel;
    // A relay that leaves still ends what is open.
    if (!channel) return Promise.reject(new MigrationProxyError('UNAVAILABLE', problem ?? 'no migration relay'));
    const { id } = request;
    return new Promise<void>((resolve, reject) => {
      const cancel = this.#deps.clock.schedule(this.#options.answerMs, () => {
        channel.end('it does not answer a request');
      });
      this.#answers.set(id, {
        resolve: () => {
          cancel();
          resolve();
        },
        reject: (error) => {
          cancel();
          reject(error);
        },
      });
      channel.send(request);
    });
  }

  async #connect(): Promise<void> {
    const { clock } = this.#deps;
    let socket: Socket | undefined;
    try {
      socket = await connectIn(this.#options.directory, relaySocketName);
      socket.on('error', () => undefined);
      const { uid, pid } = await peerOf(socket);
      // It is sent private keys.
      if (uid !== process.geteuid?.()) throw new Error(`process ${pid} at its socket is user ${uid}`);
      if (this.#isStopped) throw new Error('the agent leaves');
      if (socket.destroyed) throw new Error('it has ended the connection');
    } catch (error) {
      socket?.destroy();
      this.#lost(errorMessage(error));
      return;
    }
    const cancelHello = clock.schedule(helloMs, () => channel.end('it says nothing'));
    const channel: LineChannel = new LineChannel(socket, {
      clock,
      onLine: (line) => {
        cancelHello();
        this.#take(line, channel);
      },
      onEnd: (reason) => {
        cancelHello();
        this.#lost(reason ?? 'it has ended the connection');
      },
    });
  }

  #take(line: string, channel: LineChannel): void {
    const message = readRelayMessage(line);
    if (!message) channel.end('what it says is not known here');
    else if (!isRelayState(message)) this.#answer(message);
    else if (message.version !== relayVersion) {
      channel.end(
        `it speaks version ${message.version}, this agent version ${relayVersion}: delete its pod when no migration runs`,
      );
    } else this.#follow(message, channel);
  }

  #answer({ id, failure }: RelayAnswer): void {
    const waiting = this.#answers.get(id);
    this.#answers.delete(id);
    if (failure) waiting?.reject(new MigrationProxyError(failure.code, failure.message));
    else waiting?.resolve();
  }

  #follow(state: RelayState, channel: LineChannel): void {
    this.#state = state;
    this.#replace(new Map(state.kept.map((each) => [proxyId(each.duty.side, each.duty.uid), each])));
    if (this.#channel === channel) return;
    this.#channel = channel;
    this.#failures = 0;
    this.#deps.log.info({ address: state.address, open: state.kept.length }, 'the migration relay answers');
    this.#connected.notify();
  }

  #lost(reason: string): void {
    if (this.#channel) this.#deps.log.warn({ reason }, 'the migration relay does not answer any more');
    this.#channel = undefined;
    this.#silence = reason;
    const waiting = [...this.#answers.values()];
    this.#answers.clear();
    const words = `the migration relay was lost before it answered: ${reason}`;
    for (const { reject } of waiting) reject(new MigrationProxyError('NO_ANSWER', words));
    if (this.#isStopped) return;
    // Its processes may have ended with it; those that have not are its successor's.
    this.#replace(new Map([...this.#kept].filter(([, each]) => isProcessAlive(each.process))));
    this.#failures++;
    this.#cancelRetry = this.#deps.clock.schedule(backoffDelayMs(this.#failures, retry), () => void this.#connect());
  }

  #replace(kept: Map<string, KeptProxy>): void {
    const before = this.#kept;
    this.#kept = kept;
    const changed = new Set<string>();
    for (const id of new Set([...before.keys(), ...kept.keys()])) {
      const [old, now] = [before.get(id), kept.get(id)];
      if (old && now && isUnchanged(old, now)) continue;
      for (const each of [old, now]) if (each) changed.add(each.duty.key);
    }
    for (const key of changed) this.#listeners.notify(key);
  }
}

/** As `ProxyKeeper.onChange` has it: figures change all the time. */
function isUnchanged(old: KeptProxy, now: KeptProxy): boolean {
  const isStalled = ({ figures }: KeptProxy) => figures.stalledSeconds > 0;
  return sameJson(old.duty, now.duty) && sameJson(old.process, now.process) && isStalled(old) === isStalled(now);
}
