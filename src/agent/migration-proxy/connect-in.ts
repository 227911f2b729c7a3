import { connect, type Socket } from 'node:net';
import { openTrusted } from '../../host/index.ts';

/** To a Unix socket through its opened directory: a socket address is too short for many paths. Rejects with the system's error. */
export function connectIn(directory: string, name: string): Promise<Socket> {
  return new Promise<Socket>((resolve, reject) => {
    const opened = openTrusted(directory);
    const socket = connect(opened.newSocketAddress(name));
    const fail = (error: Error) => {
      opened.close();
      reject(error);
    };
    socket.once('error', fail);
    socket.once('connect', () => {
      opened.close();
      socket.off('error', fail);
      resolve(socket);
    });
  });
}
