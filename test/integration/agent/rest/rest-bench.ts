import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingHttpHeaders, type Server } from 'node:http';
import {
  type AddressInfo,
  connect,
  createServer as createNetServer,
  type Server as NetServer,
  type Socket,
} from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach } from 'node:test';
import type { VmiEvent } from '../../../../src/agent/index.ts';
import { RestApi, type RestApiOptions } from '../../../../src/agent/serve/rest/index.ts';
import { launcherActions } from '../../../../src/agent/serve/server/launcher-actions.ts';
import { keyOf, type VirtualMachineInstance } from '../../../../src/api/index.ts';
import { silentLogger, systemClock } from '../../../../src/base/index.ts';
import { defaultStreamOptions, StreamServer } from '../../../../src/console/index.ts';
import { LauncherClients } from '../../../../src/launcher-client/index.ts';
import { node, uid, vmiOf } from '../../../fixtures/agent/builders.ts';
import { ScriptedLauncher, socketFileOf } from '../../../fixtures/scripted-launcher.ts';

export interface Answer {
  readonly status: number;
  readonly reason: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly bytes: Buffer;
}

export interface Ask {
  readonly body?: string | Buffer;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

type BenchOptions = Partial<RestApiOptions>;

export const vm1 = '/v1/namespaces/default/virtualmachineinstances/vm1';

/** The routes on plain HTTP, over real launcher clients and launchers that a test scripts; all of it ends with `dispose`. */
export class RestBench {
  readonly #root = mkdtempSync(path.join(tmpdir(), 'rest-'));
  readonly podsDir = path.join(this.#root, 'pods');
  /** Stands for /proc: this process's root is a directory of the test. */
  readonly procDir = path.join(this.#root, 'proc');
  readonly podRoot = path.join(this.#root, 'pod-root');
  readonly vmis = new Map<string, VirtualMachineInstance>();
  readonly events: (VmiEvent & { readonly uid: string })[] = [];
  readonly clients: LauncherClients;
  readonly streams = new StreamServer(defaultStreamOptions, {
    clock: systemClock,
    log: silentLogger,
    newId: randomUUID,
  });
  synced = true;
  readonly api: RestApi;
  readonly #server: Server;
  readonly #launchers: ScriptedLauncher[] = [];
  readonly #guests: NetServer[] = [];
  #port = 0;

  private constructor(options: BenchOptions) {
    this.clients = new LauncherClients({ podsDir: this.podsDir, nodeName: node });
    mkdirSync(path.join(this.procDir, String(process.pid), 'ns'), { recursive: true });
    mkdirSync(this.podRoot);
    symlinkSync(this.podRoot, path.join(this.procDir, String(process.pid), 'root'));
    symlinkSync('pid:[1]', path.join(this.procDir, String(process.pid), 'ns/pid'));
    const bench = this;
    this.api = new RestApi(
      { nodeName: node, procDir: this.procDir, ...options },
      {
        vmis: {
          get synced() {
            return bench.synced;
          },
          get: (key) => this.vmis.get(key),
        },
        actions: launcherActions(this.clients),
        events: { record: (vmi, event) => void this.events.push({ ...event, uid: vmi.metadata.uid ?? '' }) },
        streams: this.streams,
        clock: systemClock,
        log: silentLogger,
      },
    );
    this.#server = createServer((request, response) => this.api.handle(request, response));
    this.#server.on('upgrade', (request, socket, head) => this.api.upgrade(request, socket, head));
  }

  /** It listens, and has a VMI. */
  static async start(options: BenchOptions = {}): Promise<RestBench> {
    const bench = new RestBench(options);
    await bench.#listen();
    bench.add();
    return bench;
  }

  async #listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  add(vmi: VirtualMachineInstance = vmiOf('Running')): VirtualMachineInstance {
    this.vmis.set(keyOf(vmi), vmi);
    return vmi;
  }

  /** In the pod of the VMI that the builders make. */
  async launcher(podUid = 'pod-1'): Promise<ScriptedLauncher> {
    const launcher = await ScriptedLauncher.start({ socketFile: socketFileOf(this.podsDir, podUid) });
    this.#launchers.push(launcher);
    return launcher;
  }

  ask(method: string, target: string, { body, headers, signal }: Ask = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const options = { port: this.#port, host: '127.0.0.1', method, path: target, headers, signal, agent: false };
      const request = httpRequest(options, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const bytes = Buffer.concat(chunks);
          const { statusCode = 0, statusMessage = '' } = response;
          resolve({
            status: statusCode,
            reason: statusMessage,
            headers: response.headers,
            body: bytes.toString(),
            bytes,
          });
        });
      });
      request.on('error', reject);
      request.end(body);
    });
  }

  get(sub: string, more?: Ask): Promise<Answer> {
    return this.ask('GET', `${vm1}${sub}`, more);
  }

  put(sub: string, body?: string | Buffer): Promise<Answer> {
    return this.ask('PUT', `${vm1}${sub}`, body === undefined ? {} : { body });
  }

  /** Bytes on a bare connection, and all that comes back until it is closed. */
  async raw(text: string): Promise<string> {
    const socket = this.socket();
    socket.write(text);
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    await once(socket, 'close');
    return Buffer.concat(chunks).toString();
  }

  socket(): Socket {
    const socket = connect(this.#port, '127.0.0.1');
    socket.on('error', () => undefined);
    return socket;
  }

  /** The handshake of a websocket; what comes back. */
  upgrade(sub: string, head = 'GET'): Promise<string> {
    return this.raw(upgradeText(`${vm1}${sub}`, head));
  }

  /** Directory of the guest's sockets in the pod. */
  privateDir(of = uid): string {
    const directory = path.join(this.podRoot, 'run/kubevirt-private', of);
    mkdirSync(directory, { recursive: true });
    return directory;
  }

  /** A device of the guest: what it does with who connects. */
  async guest(name: string, serve: (socket: Socket) => void): Promise<NetServer> {
    const guest = createNetServer((socket) => {
      socket.on('error', () => undefined);
      serve(socket);
    });
    this.#guests.push(guest);
    guest.listen(path.join(this.privateDir(), name));
    await once(guest, 'listening');
    return guest;
  }

  url(sub: string): string {
    return `ws://127.0.0.1:${this.#port}${vm1}${sub}`;
  }

  async dispose(): Promise<void> {
    await this.streams.close();
    for (const guest of this.#guests) guest.close();
    await this.api.stop();
    this.#server.closeAllConnections();
    this.#server.close();
    this.clients.stop();
    await Promise.all(this.#launchers.map((launcher) => launcher.stop()));
    rmSync(this.#root, { recursive: true, force: true });
  }
}

export function upgradeText(target: string, method = 'GET'): string {
  const lines = [
    `${method} ${target} HTTP/1.1`,
    'Host: agent',
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** Calls `take` with the bench of each test before it runs. */
export function eachTestHasRestBench(take: (bench: RestBench) => void): void {
  let bench: RestBench;
  beforeEach(async () => {
    bench = await RestBench.start();
    take(bench);
  });
  afterEach(() => bench.dispose());
}
