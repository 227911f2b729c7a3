import {
  type ClientHttp2Session,
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { Clock, Logger } from '../base/index.ts';
import { keepAlive, openTunnel, tunnelSettings } from '../nbd-tunnel/index.ts';
import { ExportError } from './answer.ts';

export interface BackupTunnelsOptions {
  /** UID of the backup: the launcher that serves it has it in its certificate. */
  readonly backupUid: string;
}

export interface BackupTunnelsDeps {
  /** The client of this connection has shown who it is. */
  readonly authenticated: (socket: TLSSocket) => void;
  readonly log: Logger;
  readonly clock: Clock;
}

/**
 * Connections that speak HTTP/2, which only launchers do here, and the one tunnel that one of them opens by CONNECT
 * (pkg/storage/export/virt-exportserver/exportserver.go).
 */
export class BackupTunnels {
  readonly #options: BackupTunnelsOptions;
  readonly #deps: BackupTunnelsDeps;
  readonly #server: Http2Server;
  #session: ClientHttp2Session | undefined;

  constructor(options: BackupTunnelsOptions, deps: BackupTunnelsDeps) {
    this.#options = options;
    this.#deps = deps;
    const { settings, maxSessionMemory, connectionWindowBytes } = tunnelSettings;
    this.#server = createServer({ settings, maxSessionMemory });
    this.#server.on('session', (session) => session.setLocalWindowSize(connectionWindowBytes));
    this.#server.on('stream', (stream, headers) => this.#handle(stream, headers));
    this.#server.on('sessionError', (error: Error, session: ServerHttp2Session) => {
      deps.log.debug({ reason: error.message }, 'a connection of a launcher broke');
      session.destroy();
    });
  }

  /** What the launcher is asked on. Throws ExportError UNAVAILABLE while it is not connected. */
  current(): ClientHttp2Session {
    const session = this.#session;
    if (session && !session.closed && !session.destroyed) return session;
    throw new ExportError('UNAVAILABLE', 'the launcher that serves the backup is not connected (yet): try again soon');
  }

  /** Serves a connection whose handshake has ended with HTTP/2. */
  take(socket: TLSSocket): void {
    this.#server.emit('connection', socket);
  }

  close(): void {
    this.#session?.destroy();
    this.#server.close();
  }

  #handle(stream: ServerHttp2Stream, { ':method': method }: IncomingHttpHeaders): void {
    stream.on('error', () => undefined);
    // Asked and taken back in one piece: there is nobody to answer.
    if (stream.destroyed || stream.closed) return;
    // Anybody else is to ask by HTTP/1.1.
    if (method !== 'CONNECT') {
      stream.close(constants.NGHTTP2_HTTP_1_1_REQUIRED);
      return;
    }
    const status = this.#refusal(stream.session?.socket as TLSSocket | undefined);
    if (status !== undefined) {
      stream.respond({ ':status': status }, { endStream: true });
      return;
    }
    stream.respond({ ':status': 200 });
    this.#open(stream);
  }

  /** Undefined: it is the launcher, and the only one. */
  #refusal(socket: TLSSocket | undefined): number | undefined {
    const { log } = this.#deps;
    const shown = socket?.getPeerCertificate();
    // The certificate's owner had to be verified, whatever its name.
    if (!socket?.authorized || !shown?.subject) {
      log.warn({ reason: String(socket?.authorizationError ?? 'no certificate') }, 'a tunnel was refused');
      return 401;
    }
    const wanted = `kubevirt.io:system:client:${this.#options.backupUid}`;
    if (shown.subject.CN !== wanted) {
      log.warn({ name: shown.subject.CN, wanted }, 'a tunnel was refused: it is of another backup');
      return 403;
    }
    this.#deps.authenticated(socket);
    if (this.#session && !this.#session.destroyed) return 409;
    return undefined;
  }

  #open(stream: ServerHttp2Stream): void {
    const { log, clock } = this.#deps;
    const session = openTunnel(stream);
    this.#session = session;
    session.on('error', () => undefined);
    stream.once('close', () => session.destroy());
    session.once('close', () => {
      if (this.#session === session) this.#session = undefined;
      if (!stream.destroyed) stream.close();
      log.info('the launcher has gone');
    });
    keepAlive(session, clock);
    log.info('the launcher is connected: the backup can be read');
  }
}
