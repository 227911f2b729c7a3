import type { Domain, Key } from '../api/index.ts';

/** What the cache needs from whoever talks to launchers; `LauncherClients` of src/launcher-client fits. */

export interface LauncherProcess {
  readonly pid: number;
  readonly startTime: string;
  readonly uid: number;
  readonly gid: number;
}

export interface LauncherPlace {
  readonly key: Key;
  readonly uid: string;
  readonly socketFile: string;
}

/** An open connection to one launcher. */
export interface LauncherLink {
  readonly target: LauncherPlace;
  /** The process that listens on its socket. */
  readonly peer: LauncherProcess;
  readonly connected: boolean;
  /** Undefined is the launcher's word that there is no domain. */
  getDomain(signal?: AbortSignal): Promise<Domain | undefined>;
  /** Dials again after a break, so that the launcher's end is noticed without a call. */
  reconnect(): void;
}

export type LauncherVerdict =
  | { readonly kind: 'alive' }
  | { readonly kind: 'dead'; readonly proof: string }
  | { readonly kind: 'unknown'; readonly reason: string };

export interface LauncherLinks {
  /** Connects, or gives the open connection; calls the cache's `register` and `attach` on the way. */
  connect(
    target: LauncherPlace & { readonly activePods: Readonly<Record<string, string>>; readonly nonRoot: boolean },
    signal?: AbortSignal,
  ): Promise<LauncherLink>;
  peek(uid: string): LauncherLink | undefined;
  inspect(known: {
    readonly uid: string;
    readonly socketFile: string;
    readonly process?: Pick<LauncherProcess, 'pid' | 'startTime'> | undefined;
  }): Promise<LauncherVerdict>;
  /** A connection broke. */
  onDown(listener: (uid: string) => void): () => void;
  markUnresponsive(socketFile: string): void;
}

/** A Kubernetes event that a launcher wants recorded on its VMI (spec 21 §1.2). */
export interface LauncherEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}
