import { lstatSync, mkdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import path from 'node:path';
import { CodedError, errorCode } from '../base/index.ts';

class PresenceSocketError extends CodedError<'PATH_TOO_LONG'> {}

/** Of a path that a socket can have, without the byte that ends it. */
const longestPath = 107;
const lookEveryMs = 1_000;

/**
 * The socket by which a node agent finds a container: it asks the kernel who listens, and goes on by that process's root
 * directory. What connects is let go at once. It ends when the socket is removed, for that is how an agent ends it. Without the
 * library of gRPC that other sockets here need: these containers have 40 MB.
 */
export class PresenceSocket {
  readonly #server: Server;
  readonly #path: string;
  #timer: NodeJS.Timeout | undefined;
  /** Resolves when the socket is gone. */
  readonly removed: Promise<void>;
  #onRemoved: () => void = () => {};

  constructor(socketPath: string) {
    this.#path = socketPath;
    this.#server = createServer((socket) => socket.destroy());
    this.removed = new Promise((resolve) => {
      this.#onRemoved = resolve;
    });
  }

  /** Replaces a socket that nobody listens on any more. Rejects with PATH_TOO_LONG or the system's error. */
  async start(): Promise<void> {
    const length = Buffer.byteLength(this.#path);
    if (length > longestPath) {
      const problem = `${this.#path} has ${length} bytes, more than the ${longestPath} of a socket's path`;
      throw new PresenceSocketError('PATH_TOO_LONG', problem);
    }
    mkdirSync(path.dirname(this.#path), { recursive: true });
    if (await isAbandoned(this.#path)) await rm(this.#path);
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.#path, resolve);
    });
    this.#timer = setInterval(() => {
      if (!isSocket(this.#path)) this.#onRemoved();
    }, lookEveryMs);
  }

  /** The socket goes with it. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

function isSocket(file: string): boolean {
  try {
    return lstatSync(file).isSocket();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/** As a container leaves it that was killed: upstream's program cannot be started again then. */
async function isAbandoned(file: string): Promise<boolean> {
  if (!isSocket(file)) return false;
  return new Promise((resolve) => {
    const socket = connect(file, () => resolve(false));
    socket.on('error', (error) => resolve(errorCode(error) === 'ECONNREFUSED'));
    socket.on('close', () => socket.destroy());
    socket.on('connect', () => socket.destroy());
  });
}
