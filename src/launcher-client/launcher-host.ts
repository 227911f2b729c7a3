import path from 'node:path';
import type { LauncherAddress, LauncherTarget } from '../api/index.ts';
import { errorCode } from '../base/index.ts';
import { isProcessAlive, openNoFollow, type ProcessId, type ReportedPeer, type SafePath } from '../host/index.ts';
import { type ConnectionDeps, type ConnectionLimits, LauncherConnection, type OpenConnection } from './connection.ts';
import { checkedPeer } from './pod-of-peer.ts';
import { type Listening, type Probe, type ProbedSocket, probeListener, probeSocket } from './probe.ts';
import {
  findSockets,
  hasAnyPod,
  hasPodDirectory,
  isOneElement,
  markUnresponsive,
  openSocket,
  type SocketOptions,
  socketsDirectory,
} from './sockets.ts';

/** Where launchers run: their sockets, their processes, and the way to dial them. */
export interface LauncherHost {
  /** Paths of the sockets of a VMI's pods that exist. Throws when they cannot be searched. */
  findSockets(target: LauncherTarget): string[];
  hasPodDirectory(target: LauncherTarget): boolean;
  /** False: the pods' directory itself may be missing. */
  hasAnyPod(): boolean;
  markUnresponsive(socketFile: string): void;
  /** Reports when something appears where the launcher will make its socket. */
  watch(target: LauncherTarget, onAppeared: () => void): { close(): void };
  /** A bare connect(); `own`: of the socket that this connection is pinned to. Never rejects. */
  probe(socketFile: string, own?: OpenConnection): Promise<Listening>;
  /** The same of a socket that may be connected to next: what was found is the caller's to close. Never rejects. */
  probeAndPin(socketFile: string): Promise<Probe>;
  /** False is a proof. */
  isProcessAlive(process: ProcessId): boolean;
  /** Takes over what a probe found right before. Rejects as LauncherConnection.open does. */
  open(address: LauncherAddress, deps: ConnectionDeps, probed?: ProbedSocket): Promise<OpenConnection>;
}

export interface MachineOptions extends SocketOptions {
  /** One connect() of a probe. */
  readonly probeTimeoutMs: number;
  readonly limits: ConnectionLimits;
}

/** The real one. */
export function thisMachine(options: MachineOptions): LauncherHost {
  const { podsDir, probeTimeoutMs, limits } = options;
  return {
    findSockets: (target) => findSockets(target, options),
    hasPodDirectory: (target) => hasPodDirectory(target, options),
    hasAnyPod: () => hasAnyPod(podsDir),
    markUnresponsive: (socketFile) => markUnresponsive(socketFile, podsDir),
    watch: (target, onAppeared) => new SocketWatch(target, options, onAppeared),
    probe: async (socketFile, own) => {
      if (own && !own.closed) return probeSocket(own.socketPath, probeTimeoutMs);
      const socket = tryOpen(socketFile, podsDir);
      if (typeof socket === 'string') return socket;
      return probeSocket(socket.socketAddress, probeTimeoutMs).finally(() => socket.close());
    },
    probeAndPin: async (socketFile) => {
      const socket = tryOpen(socketFile, podsDir);
      if (typeof socket === 'string') return { listening: socket };
      const { listening, peer } = await probeListener(socket.socketAddress, probeTimeoutMs);
      if (peer && isOfPod(peer, socketFile, socket)) return { listening, found: { socketFile, peer, socket } };
      socket.close();
      return { listening };
    },
    isProcessAlive,
    open: async (address, deps, probed) => {
      const socket = probed?.socket ?? openSocket(address.socketFile, podsDir);
      return LauncherConnection.open(address, socket, deps, limits, probed?.peer);
    },
  };
}

/** The reason why one is not is the error of the connection, which asks again. */
function isOfPod(peer: ReportedPeer, socketFile: string, socket: SafePath): boolean {
  try {
    checkedPeer(peer, { socketFile, bornMs: socket.stat().birthtimeMs });
    return true;
  } catch {
    return false;
  }
}

function tryOpen(socketFile: string, podsDir: string): SafePath | 'missing' | 'unclear' {
  try {
    return openSocket(socketFile, podsDir);
  } catch (error) {
    const code = errorCode(error);
    return code === 'ENOENT' || code === 'ENOTDIR' ? 'missing' : 'unclear';
  }
}

/**
 * Reports when something appears in the directories in which a launcher will make its socket, so that a start waits for no
 * timer. A directory that is not there yet, or that cannot be watched, is left to the caller's retry.
 */
class SocketWatch {
  readonly #watchers: { close(): void }[];

  constructor(target: LauncherTarget, { podsDir, nodeName }: SocketOptions, onAppeared: () => void) {
    this.#watchers = Object.entries(target.activePods)
      .filter(([podUid, node]) => isOneElement(podUid) && (nodeName === '' || node === nodeName))
      .flatMap(([podUid]) => watchDirectory(podsDir, path.join(podUid, socketsDirectory), onAppeared) ?? []);
  }

  /** Safe to call twice. */
  close(): void {
    for (const watcher of this.#watchers.splice(0)) watcher.close();
  }
}

function watchDirectory(podsDir: string, relative: string, onAppeared: () => void): { close(): void } | undefined {
  try {
    const directory = openNoFollow(podsDir, relative);
    try {
      return directory.watchNames(onAppeared);
    } finally {
      directory.close();
    }
  } catch {
    return undefined;
  }
}
