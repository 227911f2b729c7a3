import {
  type BackoffOptions,
  backoffDelayMs,
  type Clock,
  errorMessage,
  Listeners,
  sleep,
  systemClock,
} from '../base/index.ts';
import type { LibvirtCallOptions } from './calls/connection-calls.ts';
import { LibvirtCalls, type SubscribeOptions } from './calls/libvirt-calls.ts';
import { LibvirtClient, type LibvirtConnectOptions } from './client.ts';
import { clientError, isLibvirtError, type LibvirtError } from './error.ts';
import type { EventCallback, EventKind } from './events.ts';
import type { Procedure } from './procedures.ts';
import type { RpcStream } from './stream.ts';

export interface LibvirtConnectorOptions {
  readonly connect: LibvirtConnectOptions;
  /** Between tries to connect; 100 ms growing to 5 s unless given. */
  readonly backoff?: BackoffOptions;
  /** How long a call made during an outage waits for the connection; 0, fail at once, unless given. */
  readonly outageWaitMs?: number;
}

export interface LibvirtConnectorDeps {
  readonly clock?: Clock;
  /** `LibvirtClient.connect` with the caller's dependencies. */
  readonly connect?: (options: LibvirtConnectOptions) => Promise<LibvirtClient>;
  /** A try to connect failed. */
  readonly onConnectError?: (error: Error, failures: number, retryInMs: number) => void;
  /** A listener of `onConnected` or `onDisconnected` threw. */
  readonly onListenerError?: (error: unknown) => void;
  /** A subscription could not be registered on a new connection; it is tried again on the next one. */
  readonly onSubscribeError?: (kind: EventKind, error: unknown) => void;
}

interface Subscription {
  readonly kind: EventKind;
  readonly register: (client: LibvirtClient) => Promise<void>;
  unregister: () => Promise<void>;
}

/**
 * A connection that comes back: it connects with back-off, registers all subscriptions again before it is used, and then
 * says so (`onConnected`). Events of an outage are lost: re-read the domains in `onConnected`. Calls under way when the
 * connection ends fail with `CONNECTION_LOST`, and are not repeated, because whether they took effect is unknown.
 */
export class LibvirtConnector extends LibvirtCalls {
  readonly #options: LibvirtConnectorOptions;
  readonly #deps: LibvirtConnectorDeps;
  readonly #clock: Clock;
  readonly #subscriptions = new Set<Subscription>();
  readonly #connectedListeners: Listeners<[connections: number]>;
  readonly #disconnectedListeners: Listeners<[cause: Error | undefined]>;
  readonly #stopping = new AbortController();
  readonly #waiters = new Set<() => void>();
  #client: LibvirtClient | undefined;
  #connections = 0;
  #lastError: Error | undefined;
  #run: Promise<void> | undefined;

  constructor(options: LibvirtConnectorOptions, deps: LibvirtConnectorDeps = {}) {
    super();
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    const guard = { onError: (error: unknown) => deps.onListenerError?.(error) };
    this.#connectedListeners = new Listeners(guard);
    this.#disconnectedListeners = new Listeners(guard);
  }

  get isConnected(): boolean {
    return this.#client?.isOpen ?? false;
  }

  /** Why the last try to connect failed or the last connection ended. */
  get lastError(): Error | undefined {
    return this.#lastError;
  }

  /** Begins connecting; resolves with the first connection. Rejects with `CONNECT_FAILED` when `signal` fires before. */
  async start(signal?: AbortSignal): Promise<void> {
    this.#run ??= this.#keepConnected();
    await this.#connected(signal).catch((cause) => {
      const reason = this.#lastError ? errorMessage(this.#lastError) : 'no try has ended yet';
      throw clientError('CONNECT_FAILED', `no connection to libvirt: ${reason}`, this.#lastError ?? cause);
    });
  }

  /** Ends the connection and all tries. Domains are not affected. */
  async stop(): Promise<void> {
    this.#stopping.abort(clientError('CONNECTION_LOST', 'the libvirt connector was stopped'));
    await this.#client?.close();
    await this.#run;
  }

  /** Calls back after each new connection, when subscriptions are in place; `connections` is 1 for the first. */
  onConnected(callback: (connections: number) => void): () => void {
    return this.#connectedListeners.add(callback);
  }

  onDisconnected(callback: (cause: Error | undefined) => void): () => void {
    return this.#disconnectedListeners.add(callback);
  }

  async invoke<Args, Reply>(
    procedure: Procedure<Args, Reply>,
    args: Args,
    options?: LibvirtCallOptions,
  ): Promise<Reply> {
    return (await this.#clientFor(options)).invoke(procedure, args, options);
  }

  async openStream<Args, Reply>(
    procedure: Procedure<Args, Reply>,
    args: Args,
    options?: LibvirtCallOptions,
  ): Promise<{ readonly reply: Reply; readonly stream: RpcStream }> {
    return (await this.#clientFor(options)).openStream(procedure, args, options);
  }

  /** Holds over all connections. During an outage it resolves at once and is registered with the next connection. */
  async subscribe<Kind extends EventKind>(
    kind: Kind,
    callback: EventCallback<Kind>,
    options: SubscribeOptions = {},
  ): Promise<() => Promise<void>> {
    const subscription: Subscription = {
      kind,
      register: async (client) => {
        subscription.unregister = await client.subscribe(kind, callback, options);
      },
      unregister: async () => undefined,
    };
    this.#subscriptions.add(subscription);
    if (this.#client) await this.#registerNow(this.#client, subscription);
    return async () => {
      this.#subscriptions.delete(subscription);
      await subscription.unregister();
    };
  }

  async #registerNow(client: LibvirtClient, subscription: Subscription): Promise<void> {
    try {
      await subscription.register(client);
    } catch (error) {
      if (isLibvirtError(error, 'CONNECTION_LOST')) return;
      this.#subscriptions.delete(subscription);
      throw error;
    }
  }

  async #keepConnected(): Promise<void> {
    const { signal } = this.#stopping;
    let failures = 0;
    while (!signal.aborted) {
      try {
        const client = await this.#connectOnce(signal);
        failures = 0;
        await this.#serve(client);
      } catch (error) {
        failures++;
        await this.#pause(error, failures);
      }
    }
  }

  async #connectOnce(signal: AbortSignal): Promise<LibvirtClient> {
    const connect = this.#deps.connect ?? LibvirtClient.connect;
    const client = await connect({ ...this.#options.connect, signal });
    // A live Set also gives those that are added meanwhile: no subscription falls between two connections.
    for (const subscription of this.#subscriptions) {
      try {
        await subscription.register(client);
      } catch (error) {
        if (!client.isOpen) throw error;
        this.#deps.onSubscribeError?.(subscription.kind, error);
      }
    }
    return client;
  }

  /** Until the connection ends. */
  async #serve(client: LibvirtClient): Promise<void> {
    if (this.#stopping.signal.aborted) {
      await client.close();
      return;
    }
    this.#client = client;
    this.#connections++;
    for (const wake of [...this.#waiters]) wake();
    this.#connectedListeners.notify(this.#connections);
    const { cause } = await client.closed;
    this.#client = undefined;
    this.#lastError = cause;
    this.#disconnectedListeners.notify(cause);
  }

  async #pause(error: unknown, failures: number): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    this.#lastError = error instanceof Error ? error : new Error(String(error));
    const delayMs = backoffDelayMs(failures, this.#options.backoff ?? { baseMs: 100, maxMs: 5_000, jitter: 0.1 });
    this.#deps.onConnectError?.(this.#lastError, failures, delayMs);
    await sleep(delayMs, this.#stopping.signal, this.#clock).catch(() => undefined);
  }

  async #clientFor({ signal }: LibvirtCallOptions = {}): Promise<LibvirtClient> {
    const { outageWaitMs = 0 } = this.#options;
    if (this.#client) return this.#client;
    if (outageWaitMs <= 0 || this.#stopping.signal.aborted) throw this.#outage();
    const giveUp = new AbortController();
    const cancel = this.#clock.schedule(outageWaitMs, () => giveUp.abort(this.#outage()));
    try {
      return await this.#connected(signal ? AbortSignal.any([signal, giveUp.signal]) : giveUp.signal);
    } catch (cause) {
      if (signal?.aborted) throw clientError('CALL_ABORTED', 'call to libvirt aborted by the caller', signal.reason);
      throw isLibvirtError(cause) ? cause : this.#outage();
    } finally {
      cancel();
    }
  }

  #outage(): LibvirtError {
    const why = this.#lastError ? `: ${errorMessage(this.#lastError)}` : '';
    return clientError('CONNECTION_LOST', `no connection to libvirt${why}`, this.#lastError);
  }

  /** The next connection; rejects with the reason of `signal` or of `stop`. */
  #connected(signal?: AbortSignal): Promise<LibvirtClient> {
    const ending = signal ? AbortSignal.any([signal, this.#stopping.signal]) : this.#stopping.signal;
    return new Promise((resolve, reject) => {
      const settle = () => {
        this.#waiters.delete(settle);
        ending.removeEventListener('abort', settle);
        if (this.#client) resolve(this.#client);
        else reject(ending.reason);
      };
      if (this.#client || ending.aborted) {
        settle();
        return;
      }
      this.#waiters.add(settle);
      ending.addEventListener('abort', settle, { once: true });
    });
  }
}
