import { createServer as createHttpServer, type Server } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import path from 'node:path';
import type { Duplex } from 'node:stream';
import { type Clock, errorCode, systemClock } from '../base/index.ts';
import { ConnectionLimit } from '../http/index.ts';
import { bootstrap } from './bootstrap.ts';
import { EventExpiry, GarbageCollector, NamespaceEnder } from './controllers/index.ts';
import { recordLoss } from './lost-writes.ts';
import { type ObjectContext, Reader, Remover, Writer } from './objects/index.ts';
import type { ApiServerDeps, ApiServerOptions } from './options.ts';
import { type ApiContext, createApp, defaultLimits, serveUpgrade, TokenAuthenticator } from './rest/index.ts';
import { KeyLock, lossMessage, Store } from './store/index.ts';

const stopGraceMs = 2_000;
/** Clients are few; each opens some tens at the most. */
const defaultMaxConnections = 2_048;

interface Running {
  readonly http: Server;
  readonly store: Store;
  readonly context: ApiContext;
  readonly controllers: readonly { stop(): Promise<void> }[];
  readonly stopping: AbortController;
  /** Connections that became websockets: Node.js no longer knows them, and waits for them all the same. */
  readonly streams: ReadonlySet<Duplex>;
}

/** The embedded Kubernetes API. `start` opens the database and listens; `stop` ends watches and closes it. */
export class ApiServer {
  readonly #options: ApiServerOptions;
  readonly #deps: ApiServerDeps;
  readonly #clock: Clock;
  readonly #tokens: TokenAuthenticator;
  #running: Running | undefined;

  /** Throws when a token is too short. */
  constructor(options: ApiServerOptions, deps: ApiServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
    this.#tokens = new TokenAuthenticator(options.tokens);
  }

  /** Throws StoreError when the database cannot be used; its message says what to do. Throws EADDRINUSE and the like. */
  async start(): Promise<{ port: number }> {
    const { dataDir, historySize = 10_000, historyBytes = 8 * 1024 * 1024 } = this.#options;
    const { log } = this.#deps;
    const storeOptions = { dir: path.join(dataDir, 'db'), maxEvents: historySize, maxBytes: historyBytes };
    const store = await Store.open(storeOptions, { log });
    try {
      const objects: ObjectContext = { store, lock: new KeyLock(), clock: this.#clock, architecture: architecture() };
      if (store.loss) {
        log.error({ ...store.loss }, lossMessage(store.loss));
        await recordLoss(objects, store.loss);
      }
      await bootstrap(objects);
      this.#running = this.#run(objects);
      const port = await listen(this.#running.http, this.#options);
      log.info({ port, revision: store.revision }, 'API server listens');
      return { port };
    } catch (error) {
      if (this.#running) await this.stop();
      else await store.close();
      throw error;
    }
  }

  async stop(): Promise<void> {
    const running = this.#running;
    if (!running) return;
    this.#running = undefined;
    const { http, store, context, controllers, stopping, streams } = running;
    stopping.abort(new Error('the API server is stopping'));
    for (const watch of [...context.watches]) watch.end();
    for (const stream of streams) stream.destroy();
    await Promise.all(controllers.map((controller) => controller.stop()));
    await closeServer(http);
    await store.close();
  }

  #run(objects: ObjectContext): Running {
    const { log, podLogs, vmSubresources } = this.#deps;
    const { tls, extraHosts = [], eventTtlMs = 3_600_000 } = this.#options;
    const { bookmarkIntervalMs = 60_000, watchBufferBytes = 256 * 1024 } = this.#options;
    const { maxConnections: max = defaultMaxConnections } = this.#options;
    const connections = new ConnectionLimit({ max });
    const stopping = new AbortController();
    const remover = new Remover(objects);
    const context: ApiContext = {
      ...objects,
      log,
      reader: new Reader(objects.store),
      writer: new Writer(objects),
      remover,
      tokens: this.#tokens,
      podLogs,
      vmSubresources,
      watchOptions: { bookmarkIntervalMs, bufferBytes: watchBufferBytes },
      watches: new Set(),
      limits: { ...defaultLimits, ...this.#options.limits },
      extraHosts,
      onKnown: (socket) => connections.trust(socket),
      stopping: stopping.signal,
    };
    const app = createApp(context);
    const http = tls
      ? createHttpsServer({ ...tls, minVersion: 'TLSv1.2', handshakeTimeout: 15_000 }, app)
      : createHttpServer(app);
    // No descriptor left, say: the server listens on and takes the next one.
    http.on('error', (error) => {
      if (http.listening) log.warn({ code: errorCode(error) }, 'the API could not take a connection');
    });
    http.on('connection', (socket: Socket) => connections.add(socket));
    const streams = new Set<Duplex>();
    http.on('upgrade', (request, socket, head) => {
      streams.add(socket);
      socket.once('close', () => streams.delete(socket));
      serveUpgrade(app, request, socket, head);
    });
    // Idle connections of clients that wait between requests; the default of 5 s makes them meet a closed socket.
    http.keepAliveTimeout = 120_000;
    // Who opens connections and says nothing, or byte by byte, does not keep them.
    http.headersTimeout = 15_000;
    http.requestTimeout = 60_000;
    const deps = { context: objects, remover, log };
    const controllers = [
      new GarbageCollector(deps),
      new NamespaceEnder(deps),
      new EventExpiry({ ttlMs: eventTtlMs }, deps),
    ];
    for (const controller of controllers) controller.start();
    return { http, store: objects.store, context, controllers, stopping, streams };
  }
}

function listen(http: Server, { host, port }: ApiServerOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    http.once('error', reject);
    http.listen(port, host, () => {
      http.removeListener('error', reject);
      const address = http.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });
}

/** Requests under way get a moment; then their connections are cut. */
async function closeServer(http: Server): Promise<void> {
  if (!http.listening) return;
  const closed = new Promise<void>((resolve) => http.close(() => resolve()));
  http.closeIdleConnections();
  const force = setTimeout(() => http.closeAllConnections(), stopGraceMs);
  await closed;
  clearTimeout(force);
}

function architecture(): ObjectContext['architecture'] {
  if (process.arch === 'arm64') return 'arm64';
  return process.arch === 's390x' ? 's390x' : 'amd64';
}
