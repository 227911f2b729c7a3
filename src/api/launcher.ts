import type { Key } from './keys.ts';

/** A process, told from a later one with its pid by when it was started (field 22 of /proc/<pid>/stat). */
export interface LauncherProcess {
  readonly pid: number;
  readonly startTime: string;
}

/** Where the launcher of one VMI is. */
export interface LauncherAddress {
  readonly key: Key;
  readonly uid: string;
  readonly socketFile: string;
  /** The process that listens there, once it is known: while it runs nothing proves the launcher's end. */
  readonly process?: LauncherProcess | undefined;
}

/** How the launcher of a VMI is looked for: below the VMI's pods, else where a ghost record remembers it. */
export interface LauncherTarget
  extends Pick<LauncherAddress, 'key' | 'uid'>,
    Partial<Pick<LauncherAddress, 'socketFile' | 'process'>> {
  /** `status.activePods`: pod UID → node. */
  readonly activePods: Readonly<Record<string, string>>;
}

/**
 * Looked up in the file system and by a bare connect(), without a call to the launcher. Upstream's mark
 * `launcher-unresponsive` is written for upstream's agent and not believed: it says that an agent gave up waiting, which
 * proves nothing, and a launcher that was restarted in place finds its predecessor's.
 */
export type LauncherState =
  | { readonly kind: 'ready'; readonly connected: boolean }
  /** The pod is there, its socket not yet, or nothing listens on it yet. */
  | { readonly kind: 'not-ready'; readonly forMs: number }
  /** No pod directory, its process ended, nothing listens, or no socket for three minutes. */
  | { readonly kind: 'dead'; readonly reason: string }
  /** Several sockets for one VMI, a directory that cannot be read, a process without its socket: proves nothing. */
  | { readonly kind: 'unclear'; readonly reason: string };

/**
 * A launcher that this agent talked to and whose clean-up is not complete: one file per VMI UID, with upstream's fields
 * (`pkg/virt-handler/cache/cache.go`) and the process.
 */
export interface GhostRecord {
  readonly name: string;
  readonly namespace: string;
  readonly socketFile: string;
  readonly uid: string;
  /** The launcher's process, once it was connected to: its end is proof even when the pod's directory is gone. */
  readonly pid?: number;
  readonly startTime?: string;
}

/** A Kubernetes event on a VMI: the agent's own, or one that its launcher wants recorded. */
export interface VmiEvent {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
}
