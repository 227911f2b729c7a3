import type { Socket } from 'node:net';
import { type Clock, deadline, systemClock } from '../base/index.ts';
import type { LibvirtCallOptions } from './calls/connection-calls.ts';
import { LibvirtCalls, type SubscribeOptions } from './calls/libvirt-calls.ts';
import { clientError, isLibvirtError } from './error.ts';
import { EventRouter } from './event-router.ts';
import type { EventCallback, EventKind } from './events.ts';
import type { KeepaliveOptions } from './keepalive.ts';
import { type Procedure, procedures } from './procedures.ts';
import { RpcConnection, type RpcLimits } from './rpc-connection.ts';
import type { RpcStream } from './stream.ts';
import { connectUnixSocket } from './unix-socket.ts';

export interface LibvirtConnectOptions {
  /** `/run/libvirt/virtqemud-sock`, `$XDG_RUNTIME_DIR/libvirt/libvirt-sock`, ... */
  readonly socketPath: string;
  /** `qemu:///system`, `qemu:///session`, `test:///default`. A transport (`qemu+unix`) and a query are cut off. */
  readonly uri: string;
  /** Deadline of calls that give none; 60 s unless given. libvirt itself waits up to 30 s for another job. */
  readonly callTimeoutMs?: number;
  /** Limit for the whole opening; 15 s unless given. */
  readonly connectTimeoutMs?: number;
  /** Finds a hung daemon; a dead one is seen without it. 5 s and 5 pings unless given. */
  readonly keepalive?: KeepaliveOptions | false;
  readonly limits?: Partial<RpcLimits>;
  /** Ends the opening; the open connection no longer depends on it. */
  readonly signal?: AbortSignal;
}

export interface LibvirtClientDeps {
  readonly clock?: Clock;
  readonly connectSocket?: (socketPath: string, signal: AbortSignal) => Promise<Socket>;
  /** An event subscriber threw; other subscribers and the connection are not affected. */
  readonly onCallbackError?: (kind: EventKind, error: unknown) => void;
  /** A packet was ignored (unknown or unreadable event, late reply); for logs and counters. */
  readonly onIgnored?: (reason: string, packet: { readonly procedure: number; readonly type: number }) => void;
}

const AuthType = { NONE: 0, POLKIT: 2 } as const;
/** VIR_DRV_FEATURE_PROGRAM_KEEPALIVE: asking for it also makes the daemon send pings. */
const featureKeepalive = 10;

/**
 * One open connection to libvirt. It does not come back after `closed`; see `LibvirtConnector`. At most four calls are
 * under way at a time: use a connection of its own for calls that take long (migration, core dump, agent commands).
 */
export class LibvirtClient extends LibvirtCalls {
  readonly #rpc: RpcConnection;
  readonly #events: EventRouter;

  private constructor(options: LibvirtConnectOptions, socket: Socket, deps: LibvirtClientDeps) {
    super();
    const { onCallbackError = () => undefined, onIgnored = () => undefined } = deps;
    this.#rpc = new RpcConnection(
      { callTimeoutMs: options.callTimeoutMs ?? 60_000, ...(options.limits && { limits: options.limits }) },
      { socket, clock: deps.clock ?? systemClock, onMessage: (packet) => this.#events.receive(packet), onIgnored },
    );
    this.#events = new EventRouter({
      register: async (event, domain, callOptions) =>
        (await this.#rpc.call(procedures.registerEvent, { event, domain }, callOptions)).callbackId,
      deregister: (callbackId) => this.#deregister(callbackId),
      onCallbackError,
      onIgnored,
    });
  }

  /** Throws `LibvirtError`: `CONNECT_FAILED`, `AUTH_REFUSED`, or what the daemon says to the URI. */
  static async connect(options: LibvirtConnectOptions, deps: LibvirtClientDeps = {}): Promise<LibvirtClient> {
    const { socketPath, connectTimeoutMs = 15_000, signal } = options;
    const opening = deadline(connectTimeoutMs, signal);
    const socket = await (deps.connectSocket ?? connectUnixSocket)(socketPath, opening);
    const client = new LibvirtClient(options, socket, deps);
    try {
      await client.#open(options, { signal: opening, timeoutMs: connectTimeoutMs });
      return client;
    } catch (cause) {
      client.#rpc.close();
      if (!isLibvirtError(cause, 'CALL_ABORTED', 'CALL_TIMEOUT', 'CONNECTION_LOST', 'PROTOCOL_VIOLATION')) throw cause;
      throw clientError('CONNECT_FAILED', `cannot open ${options.uri} at ${socketPath}: ${cause.message}`, cause);
    }
  }

  /** Resolves when the connection has ended; `cause` is absent after `close()`. */
  get closed(): Promise<{ readonly cause?: Error }> {
    return this.#rpc.closed;
  }

  get isOpen(): boolean {
    return this.#rpc.isOpen;
  }

  /** Ends the connection; the daemon drops its events and streams. Domains are not affected. */
  async close(): Promise<void> {
    this.#rpc.close();
    await this.#rpc.closed;
  }

  invoke<Args, Reply>(procedure: Procedure<Args, Reply>, args: Args, options?: LibvirtCallOptions): Promise<Reply> {
    return this.#rpc.call(procedure, args, options);
  }

  openStream<Args, Reply>(
    procedure: Procedure<Args, Reply>,
    args: Args,
    options?: LibvirtCallOptions,
  ): Promise<{ readonly reply: Reply; readonly stream: RpcStream }> {
    return this.#rpc.openStream(procedure, args, options);
  }

  subscribe<Kind extends EventKind>(
    kind: Kind,
    callback: EventCallback<Kind>,
    options: SubscribeOptions = {},
  ): Promise<() => Promise<void>> {
    return this.#events.subscribe(kind, callback, options);
  }

  async #open(options: LibvirtConnectOptions, callOptions: LibvirtCallOptions): Promise<void> {
    const { types } = await this.#rpc.call(procedures.authList, undefined, callOptions);
    await this.#authenticate(types, callOptions);
    const { keepalive = { intervalMs: 5_000, count: 5 } } = options;
    if (keepalive) {
      const feature = { feature: featureKeepalive };
      const { value } = await this.#rpc.call(procedures.connectSupportsFeature, feature, callOptions);
      if (value === 1) this.#rpc.startKeepalive(keepalive);
    }
    await this.#rpc.call(procedures.connectOpen, { name: driverUri(options.uri), flags: 0 }, callOptions);
  }

  async #authenticate(types: readonly number[], callOptions: LibvirtCallOptions): Promise<void> {
    const type = types[0];
    if (type === undefined || type === AuthType.NONE) return;
    const advice = 'connect as root or set auth_unix_rw = "none" in the daemon\'s configuration';
    if (type !== AuthType.POLKIT) {
      throw clientError(
        'AUTH_REFUSED',
        `libvirt asks for authentication of type ${type}, which is not supported; ${advice}`,
      );
    }
    try {
      const { complete } = await this.#rpc.call(procedures.authPolkit, undefined, callOptions);
      if (complete === 1) return;
    } catch (cause) {
      if (!isLibvirtError(cause, 'AUTH_FAILED', 'AUTH_CANCELLED', 'AUTH_UNAVAILABLE', 'ACCESS_DENIED')) throw cause;
      throw clientError(
        'AUTH_REFUSED',
        `polkit refused the connection to libvirt (${cause.message}); ${advice}`,
        cause,
      );
    }
    throw clientError('AUTH_REFUSED', `polkit did not complete the authentication; ${advice}`);
  }

  /** Without a connection there is nothing to deregister. */
  async #deregister(callbackId: number): Promise<void> {
    try {
      await this.#rpc.call(procedures.deregisterEvent, { callbackId });
    } catch (error) {
      if (!isLibvirtError(error, 'CONNECTION_LOST')) throw error;
    }
  }
}

/** The name for the daemon: `qemu+unix:///session?socket=/x` becomes `qemu:///session` (remote_protocol.x of libvirt). */
export function driverUri(uri: string): string {
  const withoutQuery = uri.replace(/[?#].*$/s, '');
  return withoutQuery.replace(/^([a-z0-9.-]+)\+[a-z0-9]+:/i, '$1:');
}
