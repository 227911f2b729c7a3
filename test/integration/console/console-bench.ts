import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { type Clock, silentLogger, systemClock } from '../../../src/base/index.ts';
import { issue, makeAuthority } from '../../../src/certificates/index.ts';
import {
  type Access,
  defaultStreamOptions,
  type StreamKind,
  type StreamOptions,
  type StreamRequest,
  StreamServer,
} from '../../../src/console/index.ts';
import type { PemPair } from '../../../src/tls/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { Client, type ClientOptions } from './client.ts';

/** The guest's end of a device: a Unix socket that keeps who connected. */
export class GuestDevice {
  readonly path: string;
  readonly connections: net.Socket[] = [];
  onConnection: (socket: net.Socket) => void = () => undefined;
  readonly #server: net.Server;

  constructor(socketPath: string) {
    this.path = socketPath;
    this.#server = net.createServer((socket) => {
      socket.on('error', () => undefined);
      this.connections.push(socket);
      this.onConnection(socket);
    });
  }

  async start(): Promise<void> {
    this.#server.listen(this.path);
    await once(this.#server, 'listening');
  }

  /** The newest connection, as soon as there are `count`. */
  async connection(count = 1): Promise<net.Socket> {
    await eventually(() => {
      if (this.connections.length < count) throw new Error(`${this.connections.length} of ${count} connections`);
    });
    return this.connections[count - 1] as net.Socket;
  }

  async stop(): Promise<void> {
    for (const socket of this.connections) socket.destroy();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }
}

export interface ConsoleBenchOptions {
  readonly options?: Partial<StreamOptions>;
  readonly clock?: Clock;
  readonly tls?: https.ServerOptions;
  readonly open?: StreamRequest['open'];
  readonly past?: StreamRequest['past'];
}

/** A stream server behind a real HTTP server, and a guest's device. */
export interface ConsoleBench {
  readonly server: StreamServer;
  readonly port: number;
  readonly guest: GuestDevice;
  /** Requests that were handed to the stream server. */
  upgrades(): number;
  attach(query?: string, options?: ClientOptions): Client;
}

export const uid = '5b1b6cfd-6a3c-4f2f-9d6a-0123456789ab';

/** Path: `/<kind>/<uid>`; query: `access`, `line`, `from`, as the agent's routes read them. */
export async function startBench(t: TestContext, options: ConsoleBenchOptions = {}): Promise<ConsoleBench> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'console-'));
  const guest = new GuestDevice(path.join(directory, 'guest'));
  await guest.start();
  const server = new StreamServer(
    { ...defaultStreamOptions, ...options.options },
    { clock: options.clock ?? systemClock, log: silentLogger, newId: randomUUID },
  );
  const listener = options.tls ? https.createServer(options.tls) : http.createServer();
  const open = options.open ?? ((signal) => connected(guest.path, signal));
  let upgrades = 0;
  listener.on('upgrade', (request, socket, head) => {
    upgrades++;
    server.serve(request, socket, head, { ...streamOf(request, open), ...(options.past && { past: options.past }) });
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as net.AddressInfo;
  const clients: Client[] = [];
  t.after(async () => {
    for (const client of clients) client.stop();
    listener.close();
    await server.close();
    await guest.stop();
    rmSync(directory, { recursive: true });
  });
  const attach = (query = '', clientOptions: ClientOptions = {}) => {
    const kind = clientOptions.kind ?? 'console';
    const of = clientOptions.uid ?? uid;
    const client = new Client(`${options.tls ? 'wss' : 'ws'}://127.0.0.1:${port}/${kind}/${of}${query}`, clientOptions);
    clients.push(client);
    return client;
  };
  return { server, port, guest, upgrades: () => upgrades, attach };
}

function streamOf(request: http.IncomingMessage, open: StreamRequest['open']): StreamRequest {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://agent');
  const [, kind, of] = pathname.split('/');
  const line = searchParams.get('line');
  return {
    kind: kind as StreamKind,
    uid: of ?? '',
    shown: 'default/testvm',
    access: (searchParams.get('access') ?? 'take') as Access,
    ...(line !== null && { resume: { line, from: Number(searchParams.get('from')) } }),
    open,
  };
}

export function connected(socketPath: string, signal: AbortSignal): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ path: socketPath, signal });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** Of an authority that no client asks for. */
export async function makeKeyPair(): Promise<PemPair> {
  const authority = await makeAuthority({ commonName: 'nobody', days: 2 });
  return issue(authority, { commonName: 'agent', usage: 'serverAuth', days: 2 });
}
