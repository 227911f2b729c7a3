import { connect } from 'node:net';
import { errorCode } from '../base/index.ts';

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
export function probeSocket(socketPath: string, timeoutMs: number): Promise<Listening> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    const end = (result: Listening) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(result);
    };
    const timer = setTimeout(() => end('hung'), timeoutMs);
    socket.once('connect', () => end('listening'));
    socket.on('error', (error) => end(failures[errorCode(error) ?? ''] ?? 'unclear'));
  });
}

const failures: Readonly<Record<string, Listening>> = {
  ECONNREFUSED: 'refused',
  ENOENT: 'missing',
  ENOTDIR: 'missing',
  EAGAIN: 'hung',
};
