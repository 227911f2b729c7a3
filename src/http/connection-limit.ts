import type { Socket } from 'node:net';

export interface ConnectionLimitOptions {
  /** Connections at once, streams included. */
  readonly max: number;
  /** For a log or a figure: one was ended, or not taken, to stay within the limit. */
  readonly onExceeded?: (peer: string | undefined) => void;
}

/**
 * The connections of one listening server. When there are too many, the oldest one whose client has shown no right yet ends:
 * whoever opens many and says nothing keeps nobody out, because an honest client shows its right as soon as it is connected.
 * Connections of known clients are never ended for a newcomer; where they fill the limit, the newcomer is.
 */
export class ConnectionLimit {
  readonly #options: ConnectionLimitOptions;
  /** Oldest first. Under TLS the socket of the handshake and that of the requests differ, hence by the addresses of both ends. */
  readonly #strangers = new Map<string, Socket>();
  readonly #known = new Map<string, Socket>();

  constructor(options: ConnectionLimitOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#strangers.size + this.#known.size;
  }

  /** For the `connection` event of a `net.Server`, and of an HTTPS server before its handshake. */
  add(socket: Socket): void {
    const key = keyOf(socket);
    if (key === undefined) {
      // Gone before it was looked at.
      socket.destroy();
      return;
    }
    if (this.size >= this.#options.max && !this.#makeRoom(socket)) return;
    this.#strangers.set(key, socket);
    socket.once('close', () => {
      for (const held of [this.#strangers, this.#known]) if (held.get(key) === socket) held.delete(key);
    });
  }

  /** The client of this connection has shown a right: with a certificate, a token. Again is no harm. */
  trust(socket: Socket): void {
    const key = keyOf(socket) ?? '';
    const connection = this.#strangers.get(key);
    if (!connection) return;
    this.#strangers.delete(key);
    this.#known.set(key, connection);
  }

  /** Ends all of them now. */
  destroyAll(): void {
    for (const held of [this.#strangers, this.#known]) for (const socket of held.values()) socket.destroy();
  }

  #makeRoom(newcomer: Socket): boolean {
    const [oldest] = this.#strangers;
    const leaving = oldest?.[1] ?? newcomer;
    this.#options.onExceeded?.(leaving.remoteAddress);
    if (oldest) this.#strangers.delete(oldest[0]);
    leaving.on('error', () => undefined);
    leaving.destroy();
    return leaving !== newcomer;
  }
}

function keyOf({ localAddress, localPort, remoteAddress, remotePort }: Socket): string | undefined {
  if (remoteAddress === undefined || remotePort === undefined) return undefined;
  return `${localAddress} ${localPort} ${remoteAddress} ${remotePort}`;
}
