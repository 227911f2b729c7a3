import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type Clock, type Component, errorCode, type Logger, systemClock } from '../base/index.ts';
import { ConnectionLimit } from '../connections/index.ts';
import { type PlainAnswer, refuseUpgrade } from '../upgrade/index.ts';
import { Access } from './access.ts';
import { describeList } from './describe-list.ts';
import { WebError } from './errors.ts';
import { readPageFiles } from './page-files.ts';
import type { WebBackend } from './ports.ts';
import { isVmApiStream, withoutSecrets } from './vm-api-routes.ts';
import { VmEvents, type VmEventsOptions } from './vm-events.ts';

export interface WebServerOptions {
  /** On 127.0.0.1; 0: any that is free. */
  readonly port: number;
  /** What `npm run build` has put into `dist/web`. */
  readonly pageDir: string;
  /** For people who come without the token, as an imperative: how they get the address with it. */
  readonly tokenHint: string;
  readonly events?: Partial<VmEventsOptions>;
}

export interface WebServerDeps {
  readonly backend: WebBackend;
  readonly log: Logger;
  readonly clock?: Clock;
}

const host = '127.0.0.1';
/** No request of the page has a body. */
const limits = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: 10_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
};
const maxConnections = 512;
const stopGraceMs = 2_000;
const noSuchStream: PlainAnswer = { httpStatus: 404, message: 'the page has no such stream' };

/** The web page on the loopback address, for whoever has its token. */
export class WebServer implements Component {
  readonly name = 'web';
  readonly #options: WebServerOptions;
  readonly #deps: WebServerDeps;
  readonly #clock: Clock;
  readonly #access: Access;
  readonly #events: VmEvents;
  /** Websockets among them, which the HTTP server no longer knows. */
  readonly #connections = new ConnectionLimit({ max: maxConnections });
  #server: Server | undefined;

  constructor(options: WebServerOptions, deps: WebServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    this.#access = new Access(this.#clock);
    const { backend } = deps;
    this.#events = new VmEvents(options.events ?? {}, {
      feed: backend.vms,
      clock: this.#clock,
      describe: () => describeList(backend),
    });
  }

  /** Throws WebError PAGE_MISSING, PORT_IN_USE. */
  async start(): Promise<void> {
    const { pageDir, tokenHint } = this.#options;
    const { backend, log } = this.#deps;
    const files = await readPageFiles(pageDir);
    // Express costs 12 MB, and an agent that serves no page knows this class, too.
    const { createApp } = await import('./app.ts');
    const onKnown = ({ socket }: IncomingMessage) => this.#connections.trust(socket);
    const parts = { access: this.#access, events: this.#events, clock: this.#clock };
    const server = createServer(limits, createApp({ ...parts, backend, files, tokenHint, onKnown, log }));
    server.on('connection', (socket) => this.#connections.add(socket));
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
    await listen(server, this.#options.port);
    // No descriptor left, say: the server listens on and takes the next one.
    server.on('error', (error) => log.warn({ code: errorCode(error) }, 'the web page could not take a connection'));
    this.#server = server;
    log.info({ address: host, port: this.port }, 'web page is served');
  }

  /** Streams are the backend's to end; what is left of them after a moment is cut. */
  async stop(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (!server) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    this.#events.close();
    server.closeIdleConnections();
    const cancel = this.#clock.schedule(stopGraceMs, () => {
      server.closeAllConnections();
      this.#connections.destroyAll();
    });
    await closed;
    cancel();
  }

  /** 0 while it is not started. */
  get port(): number {
    const address = this.#server?.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** Of this start. */
  get token(): string {
    return this.#access.token;
  }

  /** What a person opens; it lets in whoever has it. What is behind the # is sent to nobody, and the page takes it away. */
  get url(): string {
    return `http://${this.#access.hostName}:${this.port}/#token=${this.token}`;
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const verdict = this.#access.judge(request);
    if (verdict.kind === 'refused') {
      refuseUpgrade(socket, verdict, this.#clock);
      return;
    }
    this.#connections.trust(request.socket);
    if (!isVmApiStream(request)) {
      refuseUpgrade(socket, noSuchStream, this.#clock);
      return;
    }
    if (verdict.by === 'session') {
      const cancel = this.#clock.schedule(verdict.endsInMs, () => socket.destroy());
      socket.once('close', cancel);
    }
    this.#deps.backend.api.upgrade(withoutSecrets(request), socket, head);
  }
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (cause) => {
      if (errorCode(cause) !== 'EADDRINUSE') reject(cause);
      else
        reject(new WebError('PORT_IN_USE', `port ${port} for the web page is in use: choose another one`, { cause }));
    });
    server.listen(port, host, resolve);
  });
}
