import { constants } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server, type ServerOptions } from 'node:https';
import type { SecureContextOptions, TLSSocket } from 'node:tls';
import { type Clock, errorCode, errorMessage, type Logger } from '../base/index.ts';
import type { Authorities } from './authorities.ts';
import type { ChangingValue } from './changing-value.ts';
import { type ClientRule, judgeClient } from './judge-client.ts';
import type { KeyPair } from './key-pair.ts';
import { RefusalLog } from './refusal-log.ts';
import type { TlsSettings } from './tls-settings.ts';

export interface FollowingServerOptions {
  /** `anyone`: clients are not asked for a certificate, and no authorities are waited for. */
  readonly clients: ClientRule | 'anyone';
  /** Limits of the HTTP side. */
  readonly http: Pick<ServerOptions, 'maxHeaderSize' | 'headersTimeout' | 'requestTimeout' | 'keepAliveTimeout'>;
  /** A handshake that takes longer is ended. */
  readonly handshakeTimeoutMs: number;
}

export interface FollowingServerDeps {
  readonly keyPair: ChangingValue<KeyPair>;
  /** Not looked at for `anyone`. */
  readonly authorities: ChangingValue<Authorities>;
  readonly settings: ChangingValue<TlsSettings>;
  readonly handle: (request: IncomingMessage, response: ServerResponse) => void;
  /** Its certificate is one that is let in; not called where `anyone` is. */
  readonly onVerified?: (socket: TLSSocket) => void;
  readonly log: Logger;
  readonly clock: Clock;
}

/** Whether handshakes can succeed. */
export type TlsState =
  | { readonly kind: 'waiting'; readonly missing: readonly string[] }
  | { readonly kind: 'unusable'; readonly reason: string }
  | {
      readonly kind: 'ready';
      readonly commonName: string;
      readonly expiresAt: string;
      readonly authorities: number;
      readonly minVersion: string;
    };

/**
 * Sessions are never resumed: a ticket would let a client in whose certificate has expired or whose authority is gone.
 * Go's servers do not renegotiate either.
 */
const secureOptions = constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION;
const tcpKeepAliveMs = 15_000;
const nobody: Authorities = { pems: [], certificates: [] };

/**
 * An HTTPS server (HTTP/1.1 only) that lets verified clients in and follows its key pair, authorities and settings without
 * ending what is open: each change makes one new context for the handshakes to come. Until all are there, handshakes fail.
 */
export class FollowingTlsServer {
  readonly server: Server;
  readonly #options: FollowingServerOptions;
  readonly #deps: FollowingServerDeps;
  readonly #refusals: RefusalLog;
  readonly #ends: readonly (() => void)[];
  #state: TlsState | undefined;

  constructor(options: FollowingServerOptions, deps: FollowingServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#refusals = new RefusalLog(deps);
    this.server = this.#createServer();
    this.#follow();
    const values = [deps.keyPair, deps.settings, ...(options.clients === 'anyone' ? [] : [deps.authorities])];
    this.#ends = values.map((value) => value.onChange(() => this.#follow()));
  }

  get state(): TlsState {
    return this.#state ?? { kind: 'waiting', missing: [] };
  }

  /** Handshakes that came to nothing, of clients without a right to it and of those who spoke something else. */
  get refused(): number {
    return this.#refusals.total;
  }

  /** For refusals of the owner's own: told as seldom as the others. */
  noteRefusal(code: string, reason: string, peer: string | undefined): void {
    this.#refusals.note(code, reason, peer);
  }

  /** Closing `server` is up to its owner. */
  stopFollowing(): void {
    for (const end of this.#ends) end();
  }

  #createServer(): Server {
    const { http, handshakeTimeoutMs: handshakeTimeout, clients } = this.#options;
    // Without authorities Node.js would load all that browsers trust.
    const verify = {
      requestCert: clients !== 'anyone',
      rejectUnauthorized: false,
      ALPNProtocols: ['http/1.1'],
      ca: [],
    };
    const server = createServer({ ...http, ...verify, handshakeTimeout, secureOptions }, this.#deps.handle);
    // What serves a connection waits for the verdict; what Node.js itself refuses would be refused without a word.
    const serving = server.listeners('secureConnection');
    server.removeAllListeners('secureConnection');
    server.on('secureConnection', (socket: TLSSocket) => {
      if (!this.#isLetIn(socket)) return;
      socket.setKeepAlive(true, tcpKeepAliveMs);
      for (const serve of serving) serve.call(server, socket);
    });
    server.on('tlsClientError', (error, socket) => {
      const waiting = this.state.kind === 'ready' ? undefined : `not yet ready: ${describe(this.state)}`;
      this.#refusals.note(waiting ? 'NOT_READY' : codeOf(error), waiting ?? codeOf(error), socket.remoteAddress);
    });
    return server;
  }

  #isLetIn(socket: TLSSocket): boolean {
    const { clients } = this.#options;
    if (clients === 'anyone') return true;
    const verdict = judgeClient(socket, this.#deps.authorities.current, clients);
    if (verdict.kind === 'accepted') {
      this.#deps.onVerified?.(socket);
      return true;
    }
    this.#refusals.note(verdict.code, verdict.reason, socket.remoteAddress);
    socket.on('error', () => undefined);
    socket.destroy();
    return false;
  }

  #follow(): void {
    const { keyPair, authorities, settings } = this.#deps;
    const trusted = this.#options.clients === 'anyone' ? nobody : authorities.current;
    const parts = { pair: keyPair.current, trusted, accepted: settings.current };
    const missing = [
      ...(parts.pair ? [] : ['key pair']),
      ...(parts.trusted ? [] : ['bundle of authorities']),
      ...(parts.accepted ? [] : ['settings']),
    ];
    if (parts.pair && parts.trusted && parts.accepted) {
      this.#become(this.#use(parts.pair, parts.trusted, parts.accepted));
    } else {
      this.#become({ kind: 'waiting', missing });
    }
  }

  #use(pair: KeyPair, trusted: Authorities, { minVersion, ciphers }: TlsSettings): TlsState {
    // An option left out is dropped, not kept.
    const context: SecureContextOptions = {
      cert: pair.cert,
      key: pair.key,
      ca: [...trusted.pems],
      minVersion,
      ciphers,
    };
    try {
      this.server.setSecureContext({ ...context, secureOptions });
    } catch (error) {
      return { kind: 'unusable', reason: errorMessage(error) };
    }
    const { commonName, expiresAt } = pair;
    const count = trusted.certificates.length;
    return { kind: 'ready', commonName, expiresAt: expiresAt.toISOString(), authorities: count, minVersion };
  }

  #become(next: TlsState): void {
    const before = this.#state;
    this.#state = next;
    const { log } = this.#deps;
    switch (next.kind) {
      case 'waiting':
        if (describe(before) !== describe(next)) log.info({ missing: next.missing }, 'TLS is not ready yet');
        break;
      case 'unusable':
        log.error({ reason: next.reason }, 'TLS cannot use what it was given; it goes on as before');
        break;
      case 'ready': {
        const { kind: _kind, ...fields } = next;
        log.info(fields, before?.kind === 'ready' ? 'TLS was reloaded' : 'TLS is ready');
      }
    }
  }
}

function describe(state: TlsState | undefined): string {
  switch (state?.kind) {
    case 'waiting':
      return `no ${state.missing.join(', no ')}`;
    case 'unusable':
      return state.reason;
    default:
      return '';
  }
}

function codeOf(error: unknown): string {
  return errorCode(error) ?? errorMessage(error);
}
