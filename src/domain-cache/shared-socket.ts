import { lstatSync } from 'node:fs';
import type { Socket } from 'node:net';
import { errorMessage, type Logger } from '../base/index.ts';
import { type Peer, peerOf } from '../host/index.ts';
import { listenUnix, type UnixListener } from '../wire/index.ts';

export interface SharedSocketDeps {
  /** Takes the connection of a known launcher; false for a stranger. */
  readonly accept: (peer: Peer, socket: Socket) => boolean;
  readonly logger: Logger;
}

const maxConnections = 1_000;

/**
 * Upstream's `domain-notify.sock` in the agent's share directory. Nothing of ours needs it, launchers use their own pipe.
 * Who connects here is known by its process only: a launcher gets its own channel, anybody else is refused.
 */
export class SharedSocket {
  readonly #path: string;
  readonly #deps: SharedSocketDeps;
  #listener: UnixListener | undefined;
  #inode: number | undefined;

  constructor(socketPath: string, deps: SharedSocketDeps) {
    this.#path = socketPath;
    this.#deps = deps;
  }

  async start(): Promise<void> {
    this.#listener = await listenUnix(this.#path, (socket) => void this.#onConnection(socket), { maxConnections });
    this.#inode = inodeOf(this.#path);
  }

  /** Binds again when the file was removed or replaced; connections and the cache stay as they are. */
  async ensure(): Promise<void> {
    if (!this.#listener || inodeOf(this.#path) === this.#inode) return;
    this.#deps.logger.warn({ socket: this.#path }, 'notify socket was removed or replaced; it is made again');
    await this.stop();
    await this.start();
  }

  async stop(): Promise<void> {
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
