import { errorMessage, type Logger } from '../base/index.ts';
import { isProcessAlive, openInRoot, peerOf, type SafePath } from '../host/index.ts';
import { listenUnix, type UnixListener } from '../wire/index.ts';
import { DomainCacheError } from './errors.ts';
import type { NotifyChannel } from './notify-channel.ts';

const pipeName = 'domain-notify-pipe.sock';

export interface PipePath {
  /** Root directory of the launcher: `/proc/<pid>/root`. */
  readonly root: string;
  /** Directory below it; links are followed as the launcher would. */
  readonly directory: string;
}

/**
 * The socket in a launcher's own file system that it reports to. We listen, so a connection here can only
 * come from this launcher's pod; of its processes only the launcher itself is heard. Nothing is proxied.
 */
export class NotifyPipe {
  readonly #listener: UnixListener;
  readonly #directory: SafePath;

  private constructor(listener: UnixListener, directory: SafePath) {
    this.#listener = listener;
    this.#directory = directory;
  }

  /** Rejects with DomainCacheError PIPE_FAILED; nothing stays open then. */
  static async open(path: PipePath, channel: NotifyChannel, logger: Logger): Promise<NotifyPipe> {
    let directory: SafePath | undefined;
    let listener: UnixListener | undefined;
    try {
      directory = openInRoot(path.root, path.directory);
      const { identity, process } = channel.intake;
      const { uid, gid } = process;
      // Held from here on; before, the pid may have become another process's.
      if (!isProcessAlive(process)) throw new Error(`process ${process.pid} ended`);
      listener = await listenUnix(
        directory.newSocketAddress(pipeName),
        (socket) => {
          peerOf(socket).then(
            (peer) => {
              if (channel.intake.isFor(peer)) {
                channel.accept(socket);
                return;
              }
              socket.destroy();
              logger.warn({ vmi: identity.key, pid: peer.pid }, 'a process that is not the launcher was refused');
            },
            () => socket.destroy(),
          );
        },
        { maxConnections: 16 },
      );
      setOwner(directory, uid, gid);
      return new NotifyPipe(listener, directory);
    } catch (cause) {
      await listener?.close();
      directory?.close();
      const text = `no notify pipe in ${path.root}/${path.directory}: ${errorMessage(cause)}`;
      throw new DomainCacheError('PIPE_FAILED', text, { cause });
    }
  }

  /** Removes the socket. The directory stays open until then: the socket is removed by its bound path. */
  async close(): Promise<void> {
    await this.#listener.close();
    this.#directory.close();
  }
}

/** A launcher without root rights must be able to connect, and no other process. */
function setOwner(directory: SafePath, uid: number, gid: number): void {
  const socket = directory.child(pipeName);
  try {
    const stats = socket.stat();
    const isOurs = stats.isSocket() && stats.uid === process.geteuid?.() && stats.nlink === 1;
    if (!isOurs) throw new Error(`${socket.shown} was replaced`);
    socket.setOwner(uid, gid, 0o600);
  } finally {
    socket.close();
  }
}
