import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import path from 'node:path';
import { Server } from '@grpc/grpc-js';
import { errorMessage } from '../base/index.ts';
import { entryIdentity } from '../host/index.ts';
import { connectionInjector, devicePlugin, listenUnix, serverOptions, type UnixListener } from '../wire/index.ts';
import { askPlugin, type CallLimits } from './calls.ts';
import { DevicePluginError } from './errors.ts';

/** The kubelet, and our own proof. */
const maxConnections = 16;

/** A plugin's socket in the kubelet's directory, with its gRPC server. Made anew when another process takes the file away. */
export class PluginSocket {
  readonly path: string;
  readonly #server: Server;
  readonly #listener: UnixListener;
  readonly #identity: string | undefined;
  readonly #connections: Set<Socket>;

  private constructor(
    socketPath: string,
    parts: { readonly server: Server; readonly listener: UnixListener; readonly connections: Set<Socket> },
  ) {
    this.path = socketPath;
    this.#server = parts.server;
    this.#listener = parts.listener;
    this.#connections = parts.connections;
    this.#identity = entryIdentity(socketPath);
  }

  /**
   * Listens, and proves that it serves by calling itself. Rejects with DevicePluginError KUBELET_ABSENT when the directory is not
   * there (it is the kubelet's to make), SOCKET_FAILED otherwise; nothing is left open then.
   */
  static async open(
    socketPath: string,
    handlers: devicePlugin.DevicePluginServer,
    limits: CallLimits,
  ): Promise<PluginSocket> {
    const directory = path.dirname(socketPath);
    if (!existsSync(directory)) throw new DevicePluginError('KUBELET_ABSENT', `${directory} is not there`);
    const server = new Server(serverOptions());
    server.addService(devicePlugin.DevicePluginService, handlers);
    const inject = connectionInjector(server);
    const connections = new Set<Socket>();
    let socket: PluginSocket | undefined;
    try {
      const accept = (connection: Socket) => {
        connections.add(connection);
        connection.once('close', () => connections.delete(connection));
        inject(connection);
      };
      const listener = await listenUnix(socketPath, accept, { maxConnections });
      socket = new PluginSocket(socketPath, { server, listener, connections });
      await askPlugin(socketPath, limits);
      return socket;
    } catch (cause) {
      await socket?.close();
      server.forceShutdown();
      limits.signal.throwIfAborted();
      throw new DevicePluginError('SOCKET_FAILED', `${socketPath}: ${errorMessage(cause)}`, { cause });
    }
  }

  /** The file at its path is the one that was made here. */
  get isInPlace(): boolean {
    return this.#identity !== undefined && entryIdentity(this.path) === this.#identity;
  }

  /** Those who are connected get what was sent, and are told to hang up; what is left of them after `graceMs` is cut. */
  async close(graceMs = 0): Promise<void> {
    if (graceMs > 0) await this.#hungUp(graceMs);
    await this.#listener.close();
    this.#server.forceShutdown();
  }

  async #hungUp(graceMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, graceMs);
    });
    // GOAWAY, and the end of each connection whose streams have ended: nobody has to hang up by himself.
    this.#server.tryShutdown(() => undefined);
    const closed = [...this.#connections].map(
      (connection) => new Promise<void>((resolve) => connection.once('close', () => resolve())),
    );
    try {
      await Promise.race([Promise.all(closed), late]);
    } finally {
      clearTimeout(timer);
    }
  }
}
