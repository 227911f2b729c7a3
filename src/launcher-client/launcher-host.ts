import { errorCode } from '../base/index.ts';
import { isProcessAlive, type ProcessId, type SafePath, type ToldPeer } from '../host/index.ts';
import {
  type ConnectionDeps,
  type ConnectionLimits,
  type ConnectionTarget,
  LauncherConnection,
  type OpenConnection,
} from './connection.ts';
import { checkedPeer } from './pod-of-peer.ts';
import { type Listening, meetSocket, probeSocket } from './probe.ts';
import type { Sighting } from './sightings.ts';
import { SocketWatch } from './socket-watch.ts';
import {
  findSockets,
  hasAnyPod,
  hasPodDirectory,
  type LauncherTarget,
  markUnresponsive,
  openSocket,
  type SocketOptions,
} from './sockets.ts';

export type { OpenConnection } from './connection.ts';

/** Where launchers run: their sockets, their processes, and the way to dial them. */
export interface LauncherHost {
  /** Paths of the sockets of a VMI's pods that exist. Throws when it cannot look. */
  findSockets(target: LauncherTarget): string[];
  hasPodDirectory(target: LauncherTarget): boolean;
  /** False: the pods' directory itself may be missing. */
  hasAnyPod(): boolean;
  markUnresponsive(socketFile: string): void;
  /** Tells when something appears where the launcher will make its socket. */
  watch(target: LauncherTarget, onAppeared: () => void): { close(): void };
  /** A bare connect(); `own`: of the socket that this connection is pinned to. Never rejects. */
  probe(socketFile: string, own?: OpenConnection): Promise<Listening>;
  /** The same of a socket that may be connected to next: what was found is the caller's to close. Never rejects. */
  meet(socketFile: string): Promise<Meeting>;
  /** False is a proof. */
  isProcessAlive(process: ProcessId): boolean;
  /** Takes over what was found by a look right before. Rejects as LauncherConnection.open does. */
  open(target: ConnectionTarget, deps: ConnectionDeps, sighting?: Sighting): Promise<OpenConnection>;
}

export interface Meeting {
  readonly listening: Listening;
  /** Somebody listens, and it is known who. */
  readonly sighting?: Sighting;
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
    meet: async (socketFile) => {
      const socket = tryOpen(socketFile, podsDir);
      if (typeof socket === 'string') return { listening: socket };
      const { listening, peer } = await meetSocket(socket.socketAddress, probeTimeoutMs);
      if (peer && isOfPod(peer, socketFile, socket)) return { listening, sighting: { socketFile, peer, socket } };
      socket.close();
      return { listening };
    },
    isProcessAlive,
    open: async (target, deps, sighting) => {
      const socket = sighting?.socket ?? openSocket(target.socketFile, podsDir);
      return LauncherConnection.open(target, socket, deps, limits, sighting?.peer);
    },
  };
}

/** Who is not is told of by the connection that asks again. */
function isOfPod(peer: ToldPeer, socketFile: string, socket: SafePath): boolean {
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
