import path from 'node:path';
import type { Logger } from '../base/index.ts';
import { isProcessAlive, type Peer, preparePeers } from '../host/index.ts';
import type { OpenConnection } from '../launcher-client/index.ts';
import { NotifyChannel } from './notify-channel.ts';
import type { NotifyIntake } from './notify-intake.ts';
import { NotifyPipe, type PipePath } from './pipe.ts';
import { SharedSocket } from './shared-socket.ts';

/** Takes the events of one launcher into its intake. */
export interface NotifyListener {
  close(): Promise<void>;
}

/** A launcher's process, and where it was found; whether it has been dialled or not. */
export type FoundLauncher = Pick<OpenConnection, 'address' | 'peer'>;

/** Where launchers' events come in. */
export interface NotifyListeners {
  /** The socket that is there for all launchers. */
  start(): Promise<void>;
  /** Makes it again when its file was taken away. */
  ensure(): Promise<void>;
  /** Why launchers cannot reach it; undefined: they can. */
  readonly problem?: string | undefined;
  stop(): Promise<void>;
  /** Replaces what an earlier agent left for this launcher. Rejects with DomainCacheError PIPE_FAILED. */
  open(launcher: FoundLauncher, intake: NotifyIntake): Promise<NotifyListener>;
  /** False is a proof that the launcher ended. */
  isAlive(process: Peer): boolean;
}

export interface SocketListenersOptions {
  /** Holds `domain-notify.sock`. */
  readonly shareDir: string;
  /** Where a launcher's pipe belongs; `/proc/<pid>/root` + `var/run/kubevirt` unless given. */
  readonly pipePath?: ((launcher: FoundLauncher) => PipePath) | undefined;
}

/** The listeners of this machine: a pipe in each launcher's own file system, and upstream's shared socket. */
export class SocketListeners implements NotifyListeners {
  readonly #pipePath: (launcher: FoundLauncher) => PipePath;
  readonly #logger: Logger;
  readonly #shared: SharedSocket;
  readonly #channels = new Set<NotifyChannel>();

  constructor(options: SocketListenersOptions, logger: Logger) {
    this.#pipePath = options.pipePath ?? pathInLauncher;
    this.#logger = logger;
    this.#shared = new SharedSocket(path.join(options.shareDir, 'domain-notify.sock'), {
      logger,
      accept: (peer, socket) => {
        const channel = [...this.#channels].find(({ intake }) => intake.isFor(peer));
        channel?.accept(socket);
        return channel !== undefined;
      },
    });
  }

  async start(): Promise<void> {
    await Promise.all([this.#shared.start(), preparePeers()]);
  }

  ensure(): Promise<void> {
    return this.#shared.ensure();
  }

  get problem(): string | undefined {
    return this.#shared.problem;
  }

  stop(): Promise<void> {
    return this.#shared.stop();
  }

  async open(launcher: FoundLauncher, intake: NotifyIntake): Promise<NotifyListener> {
    const channel = new NotifyChannel(intake);
    this.#channels.add(channel);
    const close = () => {
      this.#channels.delete(channel);
      channel.close();
    };
    try {
      const pipe = await NotifyPipe.open(this.#pipePath(launcher), channel, this.#logger);
      return {
        close: () => {
          close();
          return pipe.close();
        },
      };
    } catch (error) {
      close();
      throw error;
    }
  }

  isAlive(process: Peer): boolean {
    return isProcessAlive(process);
  }
}

function pathInLauncher({ peer }: FoundLauncher): PipePath {
  return { root: `/proc/${peer.pid}/root`, directory: 'var/run/kubevirt' };
}
