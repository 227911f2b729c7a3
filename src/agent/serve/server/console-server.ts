import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  backoffDelayMs,
  type Clock,
  type Component,
  errorCode,
  errorMessage,
  type Logger,
  sleep,
} from '../../../base/index.ts';
import { ConnectionLimit } from '../../../http/index.ts';
import {
  type Authorities,
  type ChangingValue,
  type ClientRule,
  FollowingTlsServer,
  type KeyPair,
  type TlsSettings,
  type TlsState,
} from '../../../tls/index.ts';

export interface ConsoleServerOptions {
  /** `--listen`: an IPv4 or IPv6 address, or a host name. */
  readonly address: string;
  /** `--console-server-port`; 0: any that is free. */
  readonly port: number;
  readonly clients: ClientRule | 'anyone';
  /** What it is called in logs; `console` unless given. */
  readonly server?: 'console' | 'metrics' | 'VM statistics';
  /**
   * Descriptors are left for the launchers. Beyond it the oldest connection without a verified certificate is ended: whoever
   * holds many open keeps neither virt-api nor a probe of the kubelet out. 4096 unless given.
   */
  readonly maxConnections?: number;
}

export interface ConsoleServerDeps {
  /** What is served (spec 30 §3). */
  readonly api: {
    handle(request: IncomingMessage, response: ServerResponse): void;
    upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  };
  /** Ends the open streams, so that their clients come back to this agent's successor. */
  readonly endStreams: () => void | Promise<void>;
  readonly keyPair: ChangingValue<KeyPair>;
  readonly authorities: ChangingValue<Authorities>;
  readonly settings: ChangingValue<TlsSettings>;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface ConsoleServerState {
  /** `address:port`. Undefined: it does not listen. */
  readonly listens: string | undefined;
  /** Why it does not listen. */
  readonly problem: string | undefined;
  readonly tls: TlsState;
  /** Connections, upgraded ones included. */
  readonly connections: number;
  /** Handshakes that came to nothing since the start. */
  readonly refused: number;
}

/** Spec 30 §1: keep-alive 60 s. Bodies are small and there is no limit on answers, which wait for guests. */
const http = { maxHeaderSize: 16 * 1024, headersTimeout: 20_000, requestTimeout: 60_000, keepAliveTimeout: 60_000 };
const handshakeTimeoutMs = 10_000;
const defaultMaxConnections = 4_096;
const retry = { baseMs: 1_000, maxMs: 30_000, jitter: 0.2 };
/** What streams and answers have left after they were told to end. */
const stopGraceMs = 2_000;

/**
 * One of the agent's three servers (spec 30 §1): of consoles and lifecycle calls unless told otherwise. The VM loop never depends on it: a port that is taken, or certificates that are
 * not there yet, are told and tried again.
 */
export class ConsoleServer implements Component {
  readonly name: string;
  readonly #options: ConsoleServerOptions;
  readonly #deps: ConsoleServerDeps;
  readonly #following: FollowingTlsServer;
  /** From the first byte on: Node.js knows neither those in a handshake nor those that became websockets. */
  readonly #connections: ConnectionLimit;
  readonly #stopping = new AbortController();
  #problem: string | undefined;
  #opening: Promise<void> | undefined;

  constructor(options: ConsoleServerOptions, deps: ConsoleServerDeps) {
    const { server = 'console' } = options;
    this.name = `${server} server`;
    this.#options = options;
    this.#deps = deps;
    const { keyPair, authorities, settings, clock } = deps;
    const log = deps.log.child({ server });
    const max = options.maxConnections ?? defaultMaxConnections;
    const connections = new ConnectionLimit({
      max,
      onExceeded: (peer) => this.#following.noteRefusal('TOO_MANY', `${max} connections are open`, peer),
    });
    this.#connections = connections;
    const handle = (request: IncomingMessage, response: ServerResponse) => deps.api.handle(request, response);
    const onVerified = (socket: Socket) => connections.trust(socket);
    this.#following = new FollowingTlsServer(
      { clients: options.clients, http, handshakeTimeoutMs },
      { keyPair, authorities, settings, clock, log, handle, onVerified },
    );
    this.#prepare();
  }

  get state(): ConsoleServerState {
    const { server, state, refused } = this.#following;
    const address = server.listening ? (server.address() as AddressInfo) : undefined;
    return {
      listens: address && shown(address.address, address.port),
      problem: this.#problem,
      tls: state,
      connections: this.#connections.size,
      refused,
    };
  }

  /** 0 while it does not listen. */
  get port(): number {
    const { server } = this.#following;
    return server.listening ? (server.address() as AddressInfo).port : 0;
  }

  /** Resolves after the first try, whatever came of it. */
  async start(): Promise<void> {
    if (await this.#try(1)) return;
    this.#opening = this.#keepTrying();
  }

  /** Nobody new comes in, streams are told to end, and what is left after a moment is cut. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error(`${this.name} stopped`));
    await this.#opening;
    const { server } = this.#following;
    this.#following.stopFollowing();
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    const cancel = this.#deps.clock.schedule(stopGraceMs, () => this.#connections.destroyAll());
    try {
      await this.#deps.endStreams();
      server.closeIdleConnections();
      await closed;
    } finally {
      cancel();
    }
  }

  #prepare(): void {
    const { server } = this.#following;
    const { api, log } = this.#deps;
    server.on('connection', (socket: Socket) => this.#connections.add(socket));
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) =>
      api.upgrade(request, socket, head),
    );
    // No descriptor left, say: the server listens on and takes the next one.
    server.on('error', (error) => {
      if (server.listening) log.warn({ code: errorCode(error) }, `the ${this.name} could not take a connection`);
    });
  }

  async #keepTrying(): Promise<void> {
    const { signal } = this.#stopping;
    for (let failures = 1; !signal.aborted; failures++) {
      await sleep(backoffDelayMs(failures, retry), signal, this.#deps.clock).catch(() => undefined);
      if (signal.aborted || (await this.#try(failures + 1))) return;
    }
  }

  async #try(attempt: number): Promise<boolean> {
    const { log } = this.#deps;
    const { address, port } = this.#options;
    try {
      await this.#listen();
      this.#problem = undefined;
      log.info({ address: this.state.listens }, `${this.name} listens`);
      return true;
    } catch (error) {
      const reason = errorMessage(error);
      const isNew = reason !== this.#problem || attempt % 20 === 0;
      this.#problem = reason;
      const fields = { address: shown(address, port), code: errorCode(error), reason };
      log[isNew ? 'warn' : 'debug'](fields, `${this.name} cannot listen; tried again`);
      return false;
    }
  }

  #listen(): Promise<void> {
    const { server } = this.#following;
    const { address: host, port } = this.#options;
    return new Promise((resolve, reject) => {
      const settle = (error?: Error) => {
        server.removeListener('error', settle);
        server.removeListener('listening', settle);
        if (error) reject(error);
        else resolve();
      };
      server.once('error', settle);
      server.once('listening', settle);
      server.listen({ host, port });
    });
  }
}

function shown(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
