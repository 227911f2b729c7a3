import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { type Clock, type Component, type Logger, systemClock } from '../base/index.ts';
import { HttpServer, type PlainAnswer, refuseUpgrade } from '../http/index.ts';
import { PageAccess } from './access.ts';
import { describeList } from './describe-list.ts';
import { isUpload } from './image-routes.ts';
import { lookOnly, onlyLooksOn } from './look-only.ts';
import { readPageFiles } from './page-files.ts';
import type { WebBackend } from './ports.ts';
import { isVmApiStream, withoutSecrets } from './vm-api-routes.ts';
import { VmEvents, type VmEventsOptions } from './vm-events.ts';

export interface WebServerOptions {
  /** On 127.0.0.1 and ::1; 0: any that is free on both. */
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

const limits = {
  maxHeaderSize: 16 * 1024,
  headersTimeout: 10_000,
  // Of all requests but uploads: see `limited`.
  requestTimeout: 0,
  keepAliveTimeout: 65_000,
  connectionsCheckingInterval: 5_000,
  maxConnections: 512,
};
const requestMs = 10_000;
const drainMs = 2_000;
const noSuchStream: PlainAnswer = { httpStatus: 404, message: 'the page has no such stream' };

/** The web page on the loopback addresses, for clients that have its token. */
export class WebServer implements Component {
  readonly name = 'web';
  readonly #options: WebServerOptions;
  readonly #deps: WebServerDeps;
  readonly #clock: Clock;
  readonly #access: PageAccess;
  readonly #events: VmEvents;
  #http: HttpServer | undefined;

  constructor(options: WebServerOptions, deps: WebServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    this.#access = new PageAccess(this.#clock);
    const { backend } = deps;
    this.#events = new VmEvents(options.events ?? {}, {
      feed: backend.vms,
      clock: this.#clock,
      describe: (right) => describeList(backend, right),
    });
  }

  /** Throws WebError PAGE_MISSING, ListenError PORT_IN_USE. */
  async start(): Promise<void> {
    const { pageDir, tokenHint } = this.#options;
    const { backend, log } = this.#deps;
    const files = await readPageFiles(pageDir);
    // Express costs 12 MB, and an agent that serves no page knows this class, too.
    const { createApp } = await import('./app.ts');
    const onKnown = ({ socket }: IncomingMessage) => this.#http?.authenticated(socket);
    const parts = { access: this.#access, events: this.#events, clock: this.#clock };
    const app = createApp({ ...parts, backend, files, tokenHint, onKnown, log });
    const server = this.#makeServer(app);
    await server.start();
    this.#http = server;
  }

  #makeServer(handle: RequestListener): HttpServer {
    const { log } = this.#deps;
    return new HttpServer(
      { name: 'web page', address: { kind: 'loopback', port: this.#options.port }, limits, drainMs },
      {
        handle: (request, response) => {
          this.#limit(request, response);
          handle(request, response);
        },
        upgrade: (request, socket, head) => this.#upgrade(request, socket, head),
        // Those of guests are the backend's to end.
        endStreams: () => this.#events.close(),
        ...{ log, clock: this.#clock },
      },
    );
  }

  /** Node.js has one limit for the bodies of all requests. One that was answered before its end is not waited for, an upload neither. */
  #limit(request: IncomingMessage, response: ServerResponse): void {
    const cut = () => {
      if (!request.complete) request.socket.destroy();
    };
    if (isUpload(request)) {
      response.once('finish', () => this.#clock.schedule(requestMs, cut));
      return;
    }
    const cancel = this.#clock.schedule(requestMs, cut);
    request.once('end', cancel).once('close', cancel);
  }

  async stop(): Promise<void> {
    const server = this.#http;
    this.#http = undefined;
    await server?.stop();
  }

  /** 0 while it is not started. */
  get port(): number {
    return this.#http?.port ?? 0;
  }

  /** Of this start. */
  get token(): string {
    return this.#access.token;
  }

  /**
   * What a person opens; it lets in every client that has it. What is behind the # is sent to no server, and the page takes it
   * away.
   */
  get url(): string {
    return `http://${this.#access.hostName}:${this.port}/#token=${this.token}`;
  }

  /** The same with the token of who may look only. */
  get viewUrl(): string {
    return `http://${this.#access.hostName}:${this.port}/#token=${this.#access.viewToken}`;
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const authorization = this.#access.authorize(request);
    if (authorization.kind === 'refused') {
      refuseUpgrade(socket, authorization, this.#clock);
      return;
    }
    this.#http?.authenticated(request.socket);
    if (!isVmApiStream(request)) {
      refuseUpgrade(socket, noSuchStream, this.#clock);
      return;
    }
    if (authorization.right === 'look' && !onlyLooksOn(request)) {
      refuseUpgrade(socket, { httpStatus: 403, message: lookOnly }, this.#clock);
      return;
    }
    if (authorization.by === 'session') {
      const cancel = this.#clock.schedule(authorization.endsInMs, () => socket.destroy());
      socket.once('close', cancel);
    }
    this.#deps.backend.api.upgrade(withoutSecrets(request), socket, head);
  }
}
