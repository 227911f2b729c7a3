import { connect, type Socket } from 'node:net';
import { errorCode } from '../base/index.ts';
import { type Peer, peerOf, type ReportedPeer } from '../host/index.ts';

/** What a bare connect() to a socket shows. */
export type Listening =
  | 'listening'
  /** The file is there and nothing listens. */
  | 'refused'
  /** No such file. */
  | 'missing'
  /** A process listens and does not accept, for so long that the queue is full or the time is up. */
  | 'hung'
  /** It could not be tried. */
  | 'unclear';

/** Names one socket, whatever is put in its place later. */
export interface PinnedSocket {
  /** What connect() takes. */
  readonly socketAddress: string;
  stat?(): { readonly birthtimeMs: number };
  close(): void;
}

/** A socket as a probe found it, pinned, and the process that listened on it. Its owner closes `socket`. */
export interface ProbedSocket {
  readonly socketFile: string;
  readonly peer: Peer;
  readonly socket: PinnedSocket;
}

/** What a probe found of a socket that may be connected to next. */
export interface Probe {
  readonly listening: Listening;
  /** A process listens, and it is known which. */
  readonly found?: ProbedSocket;
}

/** Connects and closes at once, without sending a byte. Never rejects. */
export async function probeSocket(socketPath: string, timeoutMs: number): Promise<Listening> {
  return (await touch(socketPath, timeoutMs, async () => undefined)).listening;
}

/** The same, and learns which process listens; `peer` is missing when the kernel does not say. Never rejects. */
export function probeListener(socketPath: string, timeoutMs: number): Promise<ProbedListener> {
  return touch(socketPath, timeoutMs, peerOf);
}

interface ProbedListener {
  readonly listening: Listening;
  readonly peer?: ReportedPeer;
}

function touch(
  socketPath: string,
  timeoutMs: number,
  ask: (socket: Socket) => Promise<ReportedPeer | undefined>,
): Promise<ProbedListener> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    const end = (listening: Listening, peer?: ReportedPeer) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ listening, ...(peer && { peer }) });
    };
    const timer = setTimeout(() => end('hung'), timeoutMs);
    socket.once('connect', () => {
      ask(socket).then(
        (peer) => end('listening', peer),
        () => end('listening'),
      );
    });
    socket.on('error', (error) => end(failures[errorCode(error) ?? ''] ?? 'unclear'));
  });
}

const failures: Readonly<Record<string, Listening>> = {
  ECONNREFUSED: 'refused',
  ENOENT: 'missing',
  ENOTDIR: 'missing',
  EAGAIN: 'hung',
};
