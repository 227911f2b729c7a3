import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from 'node:http';
import { createServer as createHttpsServer, type Server as HttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import {
  type BackoffOptions,
  backoffDelayMs,
  type Clock,
  type Component,
  errorCode,
  errorMessage,
  type Logger,
  sleep,
} from '../base/index.ts';
import { createTlsServer, type PeerRule, RefusalLog, type TlsContext } from '../tls/index.ts';
import { ConnectionLimit } from './connection-limit.ts';
import { closed, type ListenAddress, type ListeningServers, listenAt, shownAddress } from './listen.ts';

export interface HttpServerOptions {
  /** In logs, before "listens". */
  readonly name: string;
  readonly address: ListenAddress;
  readonly limits: HttpLimits;
  /** Undefined: plain HTTP. */
  readonly tls?: HttpTlsOptions;
  /** Undefined: `start` rejects when it cannot listen. Otherwise it is tried again, and `problem` says why meanwhile. */
  readonly retry?: BackoffOptions;
  /** What answers and streams have left after they were asked to end; those of clients that have not authenticated `headersTimeout` at most. */
  readonly drainMs: number;
}

/** What one client may cost. Answers have no time limit: some wait for guests. */
export interface HttpLimits
  extends Pick<
    ServerOptions,
    'maxHeaderSize' | 'headersTimeout' | 'requestTimeout' | 'keepAliveTimeout' | 'connectionsCheckingInterval'
  > {
  /** Connections at once, streams included. Beyond it the oldest one whose client has not authenticated ends. */
  readonly maxConnections: number;
  /**
   * Of plain HTTP: a connection on which no request has come by then ends. Node.js finds clients that are late by a look every
   * `connectionsCheckingInterval`, also while there is no client at all, which would wake an idle program.
   */
  readonly firstRequestMs?: number;
}

export interface HttpTlsOptions {
  readonly context: TlsContext;
  /** A certificate of theirs counts as authentication. */
  readonly clients: PeerRule | 'anyone' | 'anyone-asked';
  readonly handshakeTimeoutMs: number;
}

export interface HttpServerDeps {
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
  /** Without it a request to upgrade is a request as any other. */
  readonly upgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
  /** Takes connections of clients that speak HTTP/2 alone. Without it there are none. */
  readonly http2?: ((socket: TLSSocket) => void) | undefined;
  /** Asks open streams to end, so that their clients come back to a successor; Node.js no longer knows of them. */
  readonly endStreams?: () => void | Promise<void>;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface HttpServerState {
  /** `address:port`, or the file of a Unix socket. Undefined: it does not listen. */
  readonly listens: string | undefined;
  /** Why it does not listen. */
  readonly problem: string | undefined;
  /** Connections, upgraded ones included. */
  readonly connections: number;
  /** Handshakes that came to nothing, and connections ended to stay within the limit, since the start. */
  readonly refused: number;
}

type AnyServer = Server | HttpsServer;

/** A problem that stays is logged again after so many attempts. */
const attemptsPerWarning = 20;

/** The life of an HTTP or HTTPS server: it listens, holds its connections within limits, drains and stops. To be started once. */
export class HttpServer implements Component {
  readonly name: string;
  readonly #options: HttpServerOptions;
  readonly #deps: HttpServerDeps;
  readonly #connections: ConnectionLimit;
  readonly #refusals: RefusalLog;
  readonly #stopping = new AbortController();
  #listening: ListeningServers<AnyServer> | undefined;
  #problem: string | undefined;
  #opening: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: HttpServerOptions, deps: HttpServerDeps) {
    const { name, address, limits } = options;
    this.name = name;
    this.#options = options;
    this.#deps = deps;
    this.#refusals = new RefusalLog(deps);
    const max = limits.maxConnections;
    this.#connections = new ConnectionLimit({
      max,
      ends: address.kind === 'unix' ? 'newcomer' : 'oldest-unauthenticated',
      onExceeded: (peer) => this.#refusals.note('TOO_MANY', `${max} connections are open`, peer),
    });
  }

  get state(): HttpServerState {
    return {
      listens: this.#listening?.shown,
      problem: this.#problem,
      connections: this.#connections.size,
      refused: this.#refusals.total,
    };
  }

  /** 0 while it does not listen. */
  get port(): number {
    return this.#listening?.port ?? 0;
  }

  /** The client of this connection has shown a token or the like: its connection is not ended for others. */
  authenticated(socket: Socket): void {
    this.#connections.authenticated(socket);
  }

  /** Resolves after the first attempt. Rejects with ListenError or the system's error, unless it is tried again. */
  async start(): Promise<void> {
    const { retry } = this.#options;
    if (!retry) return this.#listen();
    if (await this.#try(1)) return;
    this.#opening = this.#keepTrying(retry);
  }

  /** No new client comes in, streams are asked to end, answers are finished, and what is left after `drainMs` is cut. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    this.#stopping.abort(new Error(`the ${this.name} stopped`));
    await this.#opening;
    const listening = this.#listening;
    this.#listening = undefined;
    await listening?.release();
    const allClosed = Promise.all((listening?.servers ?? []).map(closed));
    const late = this.#cutLate();
    const cancelSilent = this.#cutSilent();
    try {
      await Promise.race([this.#endStreams(), late.cut]);
    } finally {
      for (const server of listening?.servers ?? []) server.closeIdleConnections();
      await allClosed;
      cancelSilent();
      late.cancel();
    }
  }

  async #endStreams(): Promise<void> {
    await this.#deps.endStreams?.();
  }

  #cutLate(): { readonly cut: Promise<void>; readonly cancel: () => void } {
    const { drainMs } = this.#options;
    if (drainMs === 0) this.#connections.destroyAll();
    let cancel: () => void = () => undefined;
    const cut = new Promise<void>((resolve) => {
      cancel = this.#deps.clock.schedule(drainMs, () => {
        this.#connections.destroyAll();
        resolve();
      });
    });
    return { cut, cancel };
  }

  /** Node.js looks at its time limit for headers no more once a server is closed: a stranger who says nothing would hold it up until the deadline. */
  #cutSilent(): () => void {
    const { drainMs, limits } = this.#options;
    const { headersTimeout = drainMs } = limits;
    if (headersTimeout >= drainMs) return () => undefined;
    return this.#deps.clock.schedule(headersTimeout, () => this.#connections.destroyUnauthenticated());
  }

  async #keepTrying(retry: BackoffOptions): Promise<void> {
    const { signal } = this.#stopping;
    for (let failures = 1; !signal.aborted; failures++) {
      await sleep(backoffDelayMs(failures, retry), signal, this.#deps.clock).catch(() => undefined);
      if (signal.aborted || (await this.#try(failures + 1))) return;
    }
  }

  async #try(attempt: number): Promise<boolean> {
    try {
      await this.#listen();
      return true;
    } catch (error) {
      const reason = errorMessage(error);
      const isNew = reason !== this.#problem || attempt % attemptsPerWarning === 0;
      this.#problem = reason;
      const fields = { address: shownAddress(this.#options.address), code: errorCode(error), reason };
      this.#deps.log[isNew ? 'warn' : 'debug'](fields, `${this.name} cannot listen; tried again`);
      return false;
    }
  }

  async #listen(): Promise<void> {
    const { log } = this.#deps;
    const listening = await listenAt(() => this.#create(), this.#options.address);
    for (const server of listening.servers) {
      // No descriptor left, say: the server listens on and takes the next one.
      server.on('error', (error) =>
        log.warn({ code: errorCode(error) }, `the ${this.name} could not take a connection`),
      );
    }
    this.#listening = listening;
    this.#problem = undefined;
    log.info({ address: listening.shown }, `${this.name} listens`);
  }

  #create(): AnyServer {
    const { upgrade } = this.#deps;
    const server = this.#createForProtocol();
    server.on('connection', (socket: Socket) => this.#connections.add(socket));
    if (upgrade) server.on('upgrade', upgrade);
    const { firstRequestMs } = this.#options.limits;
    if (firstRequestMs !== undefined) endSilentClients(server, firstRequestMs, this.#deps.clock);
    // A connection that was kept alive is idle once its answer is out, and no request comes any more.
    server.on('request', (_request, response: ServerResponse) => {
      response.once('finish', () => {
        if (this.#stopping.signal.aborted) setImmediate(() => server.closeIdleConnections());
      });
    });
    return server;
  }

  #createForProtocol(): AnyServer {
    const { tls } = this.#options;
    const { maxConnections: _max, firstRequestMs: _first, ...limits } = this.#options.limits;
    const { handle, http2 } = this.#deps;
    if (!tls) return createServer(limits, handle);
    const { context, ...options } = tls;
    return createTlsServer(
      { ...options, protocols: http2 ? ['http/1.1', 'h2'] : ['http/1.1'] },
      {
        ...{ context, http2 },
        create: (tlsOptions) => createHttpsServer({ ...limits, ...tlsOptions }, handle),
        onAuthorized: (socket) => this.#connections.authenticated(socket),
        refusals: this.#refusals,
      },
    );
  }
}

function endSilentClients(server: AnyServer, afterMs: number, clock: Clock): void {
  const awaited = new WeakMap<Socket, () => void>();
  server.on('connection', (socket: Socket) => {
    const cancel = clock.schedule(afterMs, () => socket.destroy());
    awaited.set(socket, cancel);
    socket.once('close', cancel);
  });
  server.on('request', ({ socket }) => awaited.get(socket)?.());
}
