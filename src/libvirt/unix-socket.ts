import { open } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import path from 'node:path';
import { errorMessage } from '../base/index.ts';
import { clientError } from './error.ts';

/** Longest path of a Unix socket; Node.js 20 cuts longer ones silently. */
const maxSocketPathBytes = 107;

/** Connects within `signal`'s time. Throws `CONNECT_FAILED`. */
export async function connectUnixSocket(socketPath: string, signal: AbortSignal): Promise<Socket> {
  try {
    if (Buffer.byteLength(socketPath) <= maxSocketPathBytes) return await connected(socketPath, signal);
    const directory = await open(path.dirname(socketPath), 'r');
    try {
      return await connected(`/proc/self/fd/${directory.fd}/${path.basename(socketPath)}`, signal);
    } finally {
      await directory.close();
    }
  } catch (cause) {
    throw clientError('CONNECT_FAILED', `cannot connect to libvirt at ${socketPath}: ${errorMessage(cause)}`, cause);
  }
}

function connected(target: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const socket = connect(target);
    const settle = (act: () => void) => {
      signal.removeEventListener('abort', onAbort);
      socket.removeAllListeners();
      act();
    };
    const onAbort = () => {
      socket.destroy();
      settle(() => reject(signal.reason));
    };
    signal.addEventListener('abort', onAbort, { once: true });
    socket.once('connect', () => settle(() => resolve(socket)));
    socket.once('error', (error) => settle(() => reject(error)));
  });
}
