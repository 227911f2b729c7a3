import { connect, type Socket } from 'node:net';
import { errorCode } from '../base/index.ts';
import { peerOf, type ToldPeer } from '../host/index.ts';

/** What a bare connect() to a socket shows. */
export type Listening =
  | 'listening'
  /** The file is there and nobody listens. */
  | 'refused'
  /** No such file. */
  | 'missing'
  /** Somebody listens and does not accept, for so long that the queue is full or the time is up. */
  | 'hung'
  /** It could not be tried. */
  | 'unclear';

/** Connects and closes at once, without sending a byte. Never rejects. */
export async function probeSocket(socketPath: string, timeoutMs: number): Promise<Listening> {
  return (await touch(socketPath, timeoutMs, noQuestion)).listening;
}

/** The same, and learns who listens; `peer` is missing when that cannot be told. Never rejects. */
export function meetSocket(socketPath: string, timeoutMs: number): Promise<Met> {
  return touch(socketPath, timeoutMs, peerOf);
}

export interface Met {
  readonly listening: Listening;
  readonly peer?: ToldPeer;
}

const noQuestion = async () => undefined;

function touch(
  socketPath: string,
  timeoutMs: number,
  ask: (socket: Socket) => Promise<ToldPeer | undefined>,
): Promise<Met> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    const end = (listening: Listening, peer?: ToldPeer) => {
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
