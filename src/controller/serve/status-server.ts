import type { Registry } from 'prom-client';
import type { Clock, Component, Logger } from '../../base/index.ts';
import type { ControllerConfig, KubeVirtSettings } from '../../cluster-config/index.ts';
import {
  addProcessMetrics,
  Health,
  type Routes,
  RoutesApi,
  registryText,
  Scrapes,
  SecureServer,
  sendJson,
  TlsConfig,
} from '../../serving/index.ts';
import { KeyPairFiles, type KeyPairPaths, SettableValue } from '../../tls/index.ts';

export interface StatusServerOptions {
  /** `--listen`: an IPv4 or IPv6 address, or a host name. */
  readonly address: string;
  /** `--port`. */
  readonly port: number;
  /** Followed while it serves: who renews the certificate restarts nothing. */
  readonly keyPair: KeyPairPaths;
}

export interface StatusServerDeps {
  readonly registry: Registry;
  /** `GET /version` of the API server. */
  readonly askVersion: (signal: AbortSignal) => Promise<unknown>;
  readonly isLeading: () => boolean;
  readonly settings: Pick<KubeVirtSettings<ControllerConfig>, 'select'>;
  /** `resourceVersion` of the KubeVirt object, and how often in a row it could not be watched. */
  readonly configuration: () => { readonly configVersion: string; readonly configFailures: number };
  readonly clock: Clock;
  readonly log: Logger;
}

/** Ten seconds are Prometheus' usual patience. */
const scrapeLimits = { maxRequests: 3, timeoutMs: 30_000, giveWayMs: 5_000 } as const;
const maxConnections = 256;

/**
 * `/healthz`, `/leader` and `/metrics` over TLS, as upstream serves them (pkg/virt-controller/watch/application.go). Nothing else depends
 * on it: a port that is taken, or a certificate that is not there yet, is logged and tried again.
 */
export class StatusServer implements Component {
  readonly name = 'status server';
  readonly #keyPair: KeyPairFiles;
  readonly #tls: TlsConfig;
  readonly #health: Health;
  readonly #server: SecureServer;

  constructor({ address, port, keyPair }: StatusServerOptions, deps: StatusServerDeps) {
    const { clock, log, settings, configuration } = deps;
    this.#keyPair = new KeyPairFiles(keyPair, { clock, log });
    this.#tls = new TlsConfig((use) => settings.select(({ tlsConfiguration }) => tlsConfiguration, use));
    this.#health = new Health({
      askVersion: deps.askVersion,
      watchFailures: () => configuration().configFailures,
      configVersion: () => configuration().configVersion,
      notReady: () => [],
      lastSuccesses: () => [],
      clock,
    });
    addProcessMetrics(deps.registry, 'virt_controller');
    const api = new RoutesApi({ shown: '/healthz, /leader and /metrics' }, { routes: this.#routes(deps), log });
    this.#server = new SecureServer(
      { address, port, clients: 'anyone', server: 'metrics', maxConnections },
      {
        ...{ api, endStreams: () => undefined, clock, log, keyPair: this.#keyPair, settings: this.#tls },
        // Nobody is asked for a certificate.
        authorities: new SettableValue(),
      },
    );
  }

  /** 0 while it does not listen. */
  get port(): number {
    return this.#server.port;
  }

  /** When the certificate in use expires; undefined: there is none. */
  get certificateExpires(): Date | undefined {
    return this.#keyPair.current?.expiresAt;
  }

  /** Resolves after the first attempt to listen, whatever came of it. Handshakes fail until `beginTls`. */
  async start(): Promise<void> {
    await this.#keyPair.start();
    await this.#server.start();
  }

  /** The KubeVirt object was read: until then nobody knows what versions and ciphers it allows. */
  beginTls(): void {
    this.#tls.begin();
  }

  async stop(): Promise<void> {
    this.#health.stop();
    await this.#server.stop();
    this.#tls.stop();
    await this.#keyPair.stop();
  }

  #routes({ registry, isLeading, clock, log }: StatusServerDeps): Routes {
    const scrapes = new Scrapes(scrapeLimits, {
      want: async () => undefined,
      own: registryText(registry, log),
      vms: () => [],
      ...{ clock, log },
    });
    return {
      '/metrics': (request, response) => scrapes.answer(request, response),
      '/healthz': async (_request, response) => {
        const { status, body } = await this.#health.healthz();
        sendJson(response, status, body);
      },
      // Also a replica that stands by is ready: it could take the lead.
      '/leader': async (_request, response) => sendJson(response, 200, { apiserver: { leader: String(isLeading()) } }),
    };
  }
}
