import type { Socket } from 'node:net';

export interface ConnectionLimitOptions {
  /** Connections at once, streams included. */
  readonly max: number;
  /**
   * The connection that goes when there is one too many. `oldest-unauthenticated`: for servers that clients without a right can
   * reach. `newcomer`: for a Unix socket, whose permissions have let in none but the right ones.
   */
  readonly ends: 'oldest-unauthenticated' | 'newcomer';
  /** For a log or a figure: one was ended, or not taken, to stay within the limit. */
  readonly onExceeded?: (peer: string | undefined) => void;
}

/**
 * The connections of one listening server, from their first byte on: Node.js knows neither those in a TLS handshake nor those
 * that became streams. When there are too many, the oldest one whose client has not authenticated ends: a client that opens
 * many and says nothing keeps no other out, because an honest one authenticates as soon as it is connected. Authenticated
 * connections are never ended for a newcomer; where they fill the limit, the newcomer is.
 */
export class ConnectionLimit {
  readonly #options: ConnectionLimitOptions;
  /** Oldest first. Under TLS the socket of the handshake and that of the requests differ, hence by the addresses of both ends. */
  readonly #unauthenticated = new Map<string | Socket, Socket>();
  readonly #authenticated = new Map<string | Socket, Socket>();

  constructor(options: ConnectionLimitOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#unauthenticated.size + this.#authenticated.size;
  }

  /** For the `connection` event of a `net.Server`, and of an HTTPS server before its handshake. */
  add(socket: Socket): void {
    const isLocal = this.#options.ends === 'newcomer';
    const key = isLocal ? socket : keyOf(socket);
    if (key === undefined) {
      // Gone before it was looked at.
      socket.destroy();
      return;
    }
    if (this.size >= this.#options.max && !this.#makeRoom(socket)) return;
    (isLocal ? this.#authenticated : this.#unauthenticated).set(key, socket);
    socket.once('close', () => {
      for (const held of [this.#unauthenticated, this.#authenticated]) if (held.get(key) === socket) held.delete(key);
    });
  }

  /** The client of this connection has authenticated: with a certificate, a token. Again is no harm. */
  authenticated(socket: Socket): void {
    const key = keyOf(socket) ?? '';
    const connection = this.#unauthenticated.get(key);
    if (!connection) return;
    this.#unauthenticated.delete(key);
    this.#authenticated.set(key, connection);
  }

  /** Ends all of them now. */
  destroyAll(): void {
    this.destroyUnauthenticated();
    for (const socket of this.#authenticated.values()) socket.destroy();
  }

  /** Ends those now whose client has not authenticated. */
  destroyUnauthenticated(): void {
    for (const socket of this.#unauthenticated.values()) socket.destroy();
  }

  #makeRoom(newcomer: Socket): boolean {
    const [oldest] = this.#unauthenticated;
    const leaving = oldest?.[1] ?? newcomer;
    this.#options.onExceeded?.(leaving.remoteAddress);
    if (oldest) this.#unauthenticated.delete(oldest[0]);
    leaving.on('error', () => undefined);
    leaving.destroy();
    return leaving !== newcomer;
  }
}

function keyOf({ localAddress, localPort, remoteAddress, remotePort }: Socket): string | undefined {
  if (remoteAddress === undefined || remotePort === undefined) return undefined;
  return `${localAddress} ${localPort} ${remoteAddress} ${remotePort}`;
}
