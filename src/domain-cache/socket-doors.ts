import path from 'node:path';
import type { Logger } from '../base/index.ts';
import { isProcessAlive, preparePeers } from '../host/index.ts';
import { NotifyChannel } from './notify-channel.ts';
import type { NotifyDoor, NotifyDoors } from './notify-doors.ts';
import type { NotifyIntake } from './notify-intake.ts';
import { NotifyPipe, type PipePlace } from './pipe.ts';
import type { LauncherLink, LauncherProcess } from './ports.ts';
import { SharedSocket } from './shared-socket.ts';

export interface SocketDoorsOptions {
  /** Holds `domain-notify.sock`. */
  readonly shareDir: string;
  /** Where a launcher's pipe belongs; `/proc/<pid>/root` + `var/run/kubevirt` unless given. */
  readonly pipePlace?: ((link: LauncherLink) => PipePlace) | undefined;
}

/** The doors on this machine: a pipe in each launcher's own file system, and upstream's shared socket. */
export class SocketDoors implements NotifyDoors {
  readonly #pipePlace: (link: LauncherLink) => PipePlace;
  readonly #logger: Logger;
  readonly #shared: SharedSocket;
  readonly #channels = new Set<NotifyChannel>();

  constructor(options: SocketDoorsOptions, logger: Logger) {
    this.#pipePlace = options.pipePlace ?? placeInLauncher;
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

  async open(link: LauncherLink, intake: NotifyIntake): Promise<NotifyDoor> {
    const channel = new NotifyChannel(intake);
    this.#channels.add(channel);
    const close = () => {
      this.#channels.delete(channel);
      channel.close();
    };
    try {
      const pipe = await NotifyPipe.open(this.#pipePlace(link), channel, this.#logger);
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

  isAlive(process: LauncherProcess): boolean {
    return isProcessAlive(process);
  }
}

function placeInLauncher({ peer }: LauncherLink): PipePlace {
  return { root: `/proc/${peer.pid}/root`, directory: 'var/run/kubevirt' };
}
