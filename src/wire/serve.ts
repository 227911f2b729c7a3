import { mkdirSync, rmSync } from 'node:fs';
import { createServer, type Server as NetServer, type Socket } from 'node:net';
import path from 'node:path';
import { type Server, ServerCredentials } from '@grpc/grpc-js';
import { unixTarget } from './unix-path.ts';

export interface ListenOptions {
  /** More connections than this are closed as they come; unlimited unless given. */
  readonly maxConnections?: number;
}

export interface UnixListener {
  /** Connections that are open now. */
  readonly connections: number;
  /** Stops listening, removes the socket file if it is still there, and ends the connections. Safe to call twice. */
  close(): Promise<void>;
}

/**
 * Listens on a Unix socket as upstream does: makes the directory, removes a left-over file, binds. The path
 * may have any length. Rejects with the system's error; nothing is left open then.
 */
export async function listenUnix(
  socketPath: string,
  onConnection: (socket: Socket) => void,
  options: ListenOptions = {},
): Promise<UnixListener> {
  mkdirSync(path.dirname(socketPath), { recursive: true });
  const name = unixTarget(socketPath);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    if (sockets.size >= (options.maxConnections ?? Number.POSITIVE_INFINITY)) {
      socket.destroy();
      return;
    }
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    // The one that reads the socket reports errors; without a listener one reset would end the process.
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  try {
    rmSync(name.path, { force: true });
    await listening(server, name.path);
  } catch (error) {
    server.close();
    name.close();
    throw error;
  }
  let closed: Promise<void> | undefined;
  return {
    get connections() {
      return sockets.size;
    },
    close() {
      closed ??= closeAll(server, sockets).finally(() => name.close());
      return closed;
    },
  };
}

function listening(server: NetServer, socketPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(socketPath, () => {
      server.off('error', reject);
      // Later errors are of single accepts (EMFILE): the listener stays.
      server.on('error', () => undefined);
      resolve();
    });
  });
}

/** libuv removes the socket file by the bound path, so the directory descriptor must still be open. */
function closeAll(server: NetServer, sockets: Set<Socket>): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    for (const socket of sockets) socket.destroy();
  });
}

/** A way to hand accepted connections to a gRPC server; the server's address plays no role. */
export function connectionInjector(server: Server): (socket: Socket) => void {
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure());
  return (socket) => injector.injectConnection(socket);
}

/** Serves a gRPC server on a Unix socket. `close` ends calls that are still running. */
export async function serveUnix(server: Server, socketPath: string, options?: ListenOptions): Promise<UnixListener> {
  const listener = await listenUnix(socketPath, connectionInjector(server), options);
  return {
    get connections() {
      return listener.connections;
    },
    async close() {
      await listener.close();
      server.forceShutdown();
    },
  };
}
