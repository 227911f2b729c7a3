import { lstatSync } from 'node:fs';
import type { Socket } from 'node:net';
import { errorMessage, type Logger } from '../base/index.ts';
import { type Peer, peerOf } from '../host/index.ts';
import { listenUnix, type UnixListener } from '../wire/index.ts';

export interface SharedSocketDeps {
  /** Takes the connection of a known launcher; false for any other process. */
  readonly accept: (peer: Peer, socket: Socket) => boolean;
  readonly logger: Logger;
}

const maxConnections = 1_000;

/**
 * Upstream's `domain-notify.sock` in the agent's share directory. Nothing of ours needs it, launchers use their own pipe.
 * A client is known by its process only: a launcher gets its own channel, any other process is refused.
 */
export class SharedSocket {
  readonly #path: string;
  readonly #deps: SharedSocketDeps;
  #listener: UnixListener | undefined;
  #inode: number | undefined;
  #isWanted = false;
  #problem: string | undefined;

  constructor(socketPath: string, deps: SharedSocketDeps) {
    this.#path = socketPath;
    this.#deps = deps;
  }

  async start(): Promise<void> {
    this.#isWanted = true;
    await this.#listen();
  }

  /** Why launchers cannot reach it; undefined: they can. Asks the file system. */
  get problem(): string | undefined {
    if (!this.#isWanted) return undefined;
    if (!this.#listener) return this.#problem ?? 'it is being made';
    return inodeOf(this.#path) === this.#inode ? undefined : 'its file was removed or replaced';
  }

  /** Binds again when the file was removed or replaced; connections and the cache stay as they are. */
  async ensure(): Promise<void> {
    if (!this.#isWanted || this.problem === undefined) return;
    this.#deps.logger.warn({ socket: this.#path }, 'notify socket was removed or replaced; it is made again');
    await this.#close();
    await this.#listen();
  }

  async stop(): Promise<void> {
    this.#isWanted = false;
    await this.#close();
  }

  async #listen(): Promise<void> {
    try {
      this.#listener = await listenUnix(this.#path, (socket) => void this.#onConnection(socket), { maxConnections });
      this.#inode = inodeOf(this.#path);
      this.#problem = undefined;
    } catch (error) {
      this.#problem = errorMessage(error);
      throw error;
    }
  }

  async #close(): Promise<void> {
    await this.#listener?.close();
    this.#listener = undefined;
  }

  async #onConnection(socket: Socket): Promise<void> {
    try {
      const peer = await peerOf(socket);
      if (this.#deps.accept(peer, socket)) return;
      this.#deps.logger.warn({ pid: peer.pid }, 'a process that is no launcher was refused');
    } catch (error) {
      this.#deps.logger.debug({ reason: errorMessage(error) }, 'peer of the notify socket is not known');
    }
    socket.destroy();
  }
}

function inodeOf(file: string): number | undefined {
  try {
    return lstatSync(file).ino;
  } catch {
    return undefined;
  }
}
