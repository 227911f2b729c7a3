import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock, Component, Logger } from '../base/index.ts';
import { HttpServer, type HttpServerState } from '../http/index.ts';
import { type PeerRule, TlsContext, type TlsContextDeps, type TlsState } from '../tls/index.ts';

export interface SecureServerOptions {
  /** `--listen`: an IPv4 or IPv6 address, or a host name. */
  readonly address: string;
  /** `--console-server-port`, `--port` or `--vmstats-server-port`; 0: any that is free. */
  readonly port: number;
  readonly clients: PeerRule | 'anyone';
  /** What it is called in logs; `console` unless given. */
  readonly server?: 'console' | 'metrics' | 'VM statistics';
  /** Descriptors are left for the launchers. 4096 unless given. */
  readonly maxConnections?: number;
}

/** What the agent's servers follow. */
export type FollowedTls = Pick<TlsContextDeps, 'keyPair' | 'authorities' | 'settings'>;

export interface SecureServerDeps extends FollowedTls {
  readonly api: {
    handle(request: IncomingMessage, response: ServerResponse): void;
    upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  };
  /** Ends the open streams, so that their clients come back to this agent's successor. */
  readonly endStreams: () => void | Promise<void>;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface SecureServerState extends HttpServerState {
  readonly tls: TlsState;
}

/** Keep-alive as upstream's servers have it (cmd/virt-handler/virt-handler.go). Bodies are small; answers wait for guests. */
const limits = { maxHeaderSize: 16 * 1024, headersTimeout: 20_000, requestTimeout: 60_000, keepAliveTimeout: 60_000 };
const handshakeTimeoutMs = 10_000;
const defaultMaxConnections = 4_096;
const retry = { baseMs: 1_000, maxMs: 30_000, jitter: 0.2 };
const drainMs = 2_000;

/**
 * One of virt-handler's three servers over TLS: for streams and lifecycle calls, for metrics and health, for VM statistics. The VM
 * loop never depends on it: a port that is taken, or certificates that are not there yet, are logged and tried again.
 */
export class SecureServer implements Component {
  readonly name: string;
  readonly #tls: TlsContext;
  readonly #http: HttpServer;

  constructor(options: SecureServerOptions, deps: SecureServerDeps) {
    const { server = 'console', address: host, port, clients, maxConnections = defaultMaxConnections } = options;
    const { api, endStreams, clock, keyPair, authorities, settings } = deps;
    const log = deps.log.child({ server });
    this.name = `${server} server`;
    const verify = clients === 'anyone' ? 'none' : 'peers';
    this.#tls = new TlsContext({ verify }, { keyPair, authorities, settings, log });
    this.#http = new HttpServer(
      {
        ...{ name: this.name, retry, drainMs },
        address: { kind: 'tcp', host, port },
        limits: { ...limits, maxConnections },
        tls: { context: this.#tls, clients, handshakeTimeoutMs },
      },
      {
        handle: (request, response) => api.handle(request, response),
        upgrade: (request, socket, head) => api.upgrade(request, socket, head),
        ...{ endStreams, clock, log },
      },
    );
  }

  get state(): SecureServerState {
    return { ...this.#http.state, tls: this.#tls.state };
  }

  /** 0 while it does not listen. */
  get port(): number {
    return this.#http.port;
  }

  /** Resolves after the first attempt to listen, whatever came of it. */
  start(): Promise<void> {
    return this.#http.start();
  }

  async stop(): Promise<void> {
    await this.#http.stop();
    this.#tls.stop();
  }
}
