import type { Server, TLSSocket, TlsOptions } from 'node:tls';
import { errorCode, errorMessage } from '../base/index.ts';
import { authorizeClient, type PeerRule } from './authorize-peer.ts';
import type { RefusalLog } from './refusal-log.ts';
import type { TlsContext } from './tls-context.ts';

export interface TlsServerOptions {
  /**
   * `anyone`: clients are not asked for a certificate; the context must not verify peers then. `anyone-asked`: they are, and are served whatever
   * they show: who needs one looks at `authorized` of the socket.
   */
  readonly clients: PeerRule | 'anyone' | 'anyone-asked';
  /** A handshake that takes longer is ended. */
  readonly handshakeTimeoutMs: number;
  /** Offered by ALPN, the preferred one first; none unless given, as between migration proxies. */
  readonly protocols?: readonly string[];
}

export interface TlsServerDeps<S extends Server> {
  readonly context: TlsContext;
  /** `tls.createServer` or `https.createServer`, together with what serves its connections. */
  readonly create: (options: TlsOptions) => S;
  /** Its certificate allows this client in; not called where `anyone` is. */
  readonly onAuthorized?: (socket: TLSSocket) => void;
  /** Takes connections on which HTTP/2 was agreed on. */
  readonly http2?: ((socket: TLSSocket) => void) | undefined;
  readonly refusals: RefusalLog;
}

const tcpKeepAliveMs = 15_000;

/**
 * A raw TLS server or an HTTPS server that follows a context until it is closed, and serves authorized clients only: what serves
 * its connections never meets another. Until its context is ready, handshakes fail. Listening and closing is up to the owner.
 */
export function createTlsServer<S extends Server>(options: TlsServerOptions, deps: TlsServerDeps<S>): S {
  const { context, refusals } = deps;
  const server = deps.create(serverOptions(options));
  // What serves a connection waits for the authorization; what Node.js itself refuses would be refused without a word.
  const serving = server.listeners('secureConnection');
  server.removeAllListeners('secureConnection');
  server.on('secureConnection', (socket: TLSSocket) => {
    if (!isAuthorized(socket, options, deps)) return;
    socket.setKeepAlive(true, tcpKeepAliveMs);
    if (deps.http2 && socket.alpnProtocol === 'h2') deps.http2(socket);
    else for (const serve of serving) serve.call(server, socket);
  });
  server.on('tlsClientError', (error, { remoteAddress }) => {
    const code = errorCode(error) ?? errorMessage(error);
    if (context.current) refusals.note(code, code, remoteAddress);
    else refusals.note('NOT_READY', `not yet ready: ${context.problem}`, remoteAddress);
  });
  const end = context.follow((material) => server.setSecureContext(material.options));
  server.once('close', end);
  return server;
}

function isAuthorized(
  socket: TLSSocket,
  { clients }: TlsServerOptions,
  { context, onAuthorized, refusals }: Pick<TlsServerDeps<Server>, 'context' | 'onAuthorized' | 'refusals'>,
): boolean {
  if (clients === 'anyone' || clients === 'anyone-asked') return true;
  const authorization = authorizeClient(socket, context.current?.authorities, clients);
  if (authorization.kind === 'authorized') {
    onAuthorized?.(socket);
    return true;
  }
  refusals.note(authorization.code, authorization.reason, socket.remoteAddress);
  socket.on('error', () => undefined);
  socket.destroy();
  return false;
}

function serverOptions({ clients, handshakeTimeoutMs: handshakeTimeout, protocols }: TlsServerOptions): TlsOptions {
  return {
    handshakeTimeout,
    requestCert: clients !== 'anyone',
    rejectUnauthorized: false,
    ...(protocols && { ALPNProtocols: [...protocols] }),
    // Without authorities Node.js would load all that browsers trust.
    ca: [],
  };
}
