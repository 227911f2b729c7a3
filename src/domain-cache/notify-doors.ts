import type { NotifyIntake } from './notify-intake.ts';
import type { LauncherLink, LauncherProcess } from './ports.ts';

/** One launcher's way in to its intake. */
export interface NotifyDoor {
  close(): Promise<void>;
}

/** Where launchers' events come from: the sockets of this machine. */
export interface NotifyDoors {
  /** The socket that is there for all launchers. */
  start(): Promise<void>;
  /** Makes it again when somebody took it away. */
  ensure(): Promise<void>;
  /** Why launchers cannot reach it; undefined: they can. */
  readonly problem?: string | undefined;
  stop(): Promise<void>;
  /** Replaces what an earlier agent left for this launcher. Rejects with DomainCacheError PIPE_FAILED. */
  open(link: LauncherLink, intake: NotifyIntake): Promise<NotifyDoor>;
  /** False is a proof that the launcher ended. */
  isAlive(process: LauncherProcess): boolean;
}
