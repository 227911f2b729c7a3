import path from 'node:path';
import type { Duplex } from 'node:stream';
import type { Express } from 'express';
import { type Clock, type Logger, systemClock } from '../base/index.ts';
import { architectures } from '../host/index.ts';
import { HttpServer } from '../http/index.ts';
import { type Authorities, defaultTlsSettings, readKeyPair, SettableValue, TlsContext } from '../tls/index.ts';
import type { UserAccount } from './access.ts';
import { bootstrap } from './bootstrap.ts';
import { EventExpiry, GarbageCollector, NamespaceEnder, UnservedPods } from './controllers/index.ts';
import { recordLoss } from './lost-writes.ts';
import { type ObjectContext, Reader, Remover, Writer } from './objects/index.ts';
import type { ApiServerDeps, ApiServerOptions, TlsFiles } from './options.ts';
import { type ApiContext, createApp, defaultLimits, serveUpgrade, TokenAuthenticator } from './rest/index.ts';
import { SchemaLibrary } from './schema/index.ts';
import { KeyLock, lossMessage, Store } from './store/index.ts';

const limits = {
  // Idle connections of clients that wait between requests; the default of 5 s makes them meet a closed socket.
  keepAliveTimeout: 120_000,
  // A client that opens connections and says nothing, or byte by byte, does not keep them.
  headersTimeout: 15_000,
  requestTimeout: 60_000,
};
const handshakeTimeoutMs = 15_000;
const drainMs = 2_000;
/** Clients are few; each opens some tens at the most. */
const defaultMaxConnections = 2_048;

interface Running {
  readonly http: HttpServer;
  readonly store: Store;
  readonly context: ApiContext;
  readonly controllers: readonly { stop(): Promise<void> }[];
  readonly stopping: AbortController;
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
    this.#tokens = new TokenAuthenticator(options.tokens, this.#clock);
  }

  /** Throws StoreError when the database cannot be used; its message says what to do. Throws EADDRINUSE and the like. */
  async start(): Promise<{ port: number }> {
    const { dataDir, historySize = 10_000, historyBytes = 8 * 1024 * 1024 } = this.#options;
    const { log } = this.#deps;
    const storeOptions = { dir: path.join(dataDir, 'db'), maxEvents: historySize, maxBytes: historyBytes };
    const store = await Store.open(storeOptions, { log });
    try {
      const objects: ObjectContext = {
        store,
        lock: new KeyLock(),
        clock: this.#clock,
        schemas: new SchemaLibrary(this.#options.schemas),
        architecture: architectures[process.arch] ?? 'amd64',
        launcherUser: this.#options.launcherUser ?? 107,
      };
      if (store.loss) {
        log.error({ ...store.loss }, lossMessage(store.loss));
        await recordLoss(objects, store.loss);
      }
      await bootstrap(objects);
      this.#running = this.#run(objects);
      log.info({ revision: store.revision }, 'the database is open');
      await this.#running.http.start();
      return { port: this.#running.http.port };
    } catch (error) {
      if (this.#running) await this.stop();
      else await store.close();
      throw error;
    }
  }

  /** All users besides those of `tokens`, from now on; what others of before have open is ended. Also before `start`. */
  setAccounts(accounts: readonly UserAccount[]): void {
    this.#tokens.setAccounts(accounts);
  }

  async stop(): Promise<void> {
    const running = this.#running;
    if (!running) return;
    this.#running = undefined;
    const { http, store, context, controllers, stopping } = running;
    stopping.abort(new Error('the API server is stopping'));
    for (const watch of [...context.watches]) watch.end();
    await Promise.all(controllers.map((controller) => controller.stop()));
    await http.stop();
    await store.close();
  }

  #run(objects: ObjectContext): Running {
    const { log, podExec, podLogs, podStreams, uploadTokens, usage, vmSubresources } = this.#deps;
    const { extraHosts = [], eventTtlMs = 3_600_000 } = this.#options;
    const { bookmarkIntervalMs = 60_000, watchBufferBytes = 256 * 1024 } = this.#options;
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
      uploadTokens,
      usage,
      podExec,
      vmSubresources,
      podStreams,
      watchOptions: { bookmarkIntervalMs, bufferBytes: watchBufferBytes },
      watches: new Set(),
      limits: { ...defaultLimits, ...this.#options.limits },
      extraHosts,
      onKnown: (socket) => http.authenticated(socket),
      stopping: stopping.signal,
    };
    const http = this.#makeHttp(createApp(context));
    const deps = { context: objects, remover, log };
    const controllers = [
      new GarbageCollector(deps),
      new NamespaceEnder(deps),
      new EventExpiry({ ttlMs: eventTtlMs }, deps),
      new UnservedPods(deps),
    ];
    for (const controller of controllers) controller.start();
    return { http, store: objects.store, context, controllers, stopping };
  }

  #makeHttp(app: Express): HttpServer {
    const { host, port, tls, maxConnections = defaultMaxConnections } = this.#options;
    const { log } = this.#deps;
    // Connections that became websockets.
    const streams = new Set<Duplex>();
    return new HttpServer(
      {
        name: 'API server',
        address: { kind: 'tcp', host, port },
        limits: { ...limits, maxConnections },
        ...(tls && { tls: { context: tlsContext(tls, log), clients: 'anyone', handshakeTimeoutMs } }),
        drainMs,
      },
      {
        handle: app,
        upgrade: (request, socket, head) => {
          streams.add(socket);
          socket.once('close', () => streams.delete(socket));
          serveUpgrade(app, request, socket, head);
        },
        endStreams: () => {
          for (const stream of streams) stream.destroy();
        },
        ...{ log, clock: this.#clock },
      },
    );
  }
}

/** Made at the start and not followed: they outlast a program that is started anew within weeks. Throws TlsInputError. */
function tlsContext({ cert, key }: TlsFiles, log: Logger): TlsContext {
  const keyPair = new SettableValue(readKeyPair(cert, key));
  const settings = new SettableValue(defaultTlsSettings);
  return new TlsContext({ verify: 'none' }, { keyPair, authorities: new SettableValue<Authorities>(), settings, log });
}
