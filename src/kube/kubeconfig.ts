import type { RequestOptions } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';
import { type Clock, errorMessage, systemClock } from '../base/index.ts';
import { type Credentials, checkedServer, type KubeAccess, type RequestIdentity } from './credentials.ts';
import { KubeError } from './errors.ts';

/**
 * Access by the current context of a kubeconfig: token, token file, client certificate, basic auth or exec plugin, all by
 * client-node. Rejects with BAD_CONFIG naming the file.
 */
export async function loadKubeconfig(file: string): Promise<KubeAccess> {
  const config = parse(file);
  const cluster = config.getCurrentCluster();
  if (!cluster?.server) throw bad(file, 'the current context names no cluster with a server');
  const credentials = new KubeconfigCredentials(file, config);
  const tls = await credentials.tls();
  return {
    server: checkedServer(cluster.server),
    ca: tls.ca,
    tlsServerName: tls.servername,
    insecureSkipTlsVerify: cluster.skipTLSVerify === true,
    credentials,
  };
}

function parse(file: string): KubeConfig {
  const config = new KubeConfig();
  try {
    config.loadFromFile(file);
  } catch (cause) {
    throw bad(file, errorMessage(cause), cause);
  }
  return config;
}

/** client-node makes an https agent along with the credentials and refuses to for an http server, which kubectl allows. */
function forPlainHttp(config: KubeConfig): KubeConfig {
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  if (!cluster?.server.startsWith('http:') || !user) return config;
  const same = new KubeConfig();
  same.loadFromClusterAndUser({ ...cluster, server: cluster.server.replace(/^http:/, 'https:') }, user);
  return same;
}

function bad(file: string, what: string, cause?: unknown): KubeError {
  return new KubeError('BAD_CONFIG', `kubeconfig ${file}: ${what}`, { cause });
}

/** How long an identity is used before client-node is asked again; it keeps exec results until they expire. */
const holdMs = 30_000;

class KubeconfigCredentials implements Credentials {
  readonly #file: string;
  readonly #clock: Clock;
  #config: KubeConfig | undefined;
  #held: { identity: RequestIdentity; untilMs: number } | undefined;

  constructor(file: string, config: KubeConfig, clock: Clock = systemClock) {
    this.#file = file;
    this.#config = forPlainHttp(config);
    this.#clock = clock;
  }

  async current(): Promise<RequestIdentity> {
    const nowMs = this.#clock.monotonicMs();
    if (this.#held && nowMs < this.#held.untilMs) return this.#held.identity;
    const identity = identityOf(await this.#apply());
    this.#held = { identity, untilMs: nowMs + holdMs };
    return identity;
  }

  /** The file is read again: its token may have been replaced, an exec plugin's answer withdrawn. */
  invalidate(): boolean {
    this.#config = undefined;
    this.#held = undefined;
    return true;
  }

  async tls(): Promise<{ ca: string | Buffer | undefined; servername: string | undefined }> {
    const { ca, servername } = await this.#apply();
    const usable = typeof ca === 'string' || Buffer.isBuffer(ca) ? ca : undefined;
    return { ca: usable, servername };
  }

  async #apply(): Promise<RequestOptions> {
    this.#config ??= forPlainHttp(parse(this.#file));
    const options: RequestOptions = {};
    try {
      await this.#config.applyToHTTPSOptions(options);
    } catch (cause) {
      throw bad(this.#file, `credentials: ${errorMessage(cause)}`, cause);
    }
    return options;
  }
}

function identityOf(options: RequestOptions): RequestIdentity {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    if (typeof value === 'string') headers[name.toLowerCase()] = value;
  }
  if (options.auth) headers.authorization = `Basic ${Buffer.from(options.auth).toString('base64')}`;
  const { cert, key, passphrase } = options;
  return {
    headers,
    cert: typeof cert === 'string' || Buffer.isBuffer(cert) ? cert : undefined,
    key: typeof key === 'string' || Buffer.isBuffer(key) ? key : undefined,
    passphrase,
  };
}
