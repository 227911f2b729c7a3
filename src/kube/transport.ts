import * as http from 'node:http';
import * as https from 'node:https';
import { errorCode, errorMessage } from '../base/index.ts';
import type { KubeAccess, RequestIdentity } from './credentials.ts';
import { KubeError } from './errors.ts';

export interface TransportRequest {
  readonly method: string;
  /** Path and query, after the server's own path. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
  /** A request of its own connection pool, so that watches never wait for requests or the other way round. */
  readonly pool: 'request' | 'watch';
}

export interface TransportOptions {
  readonly maxSockets: number;
  readonly userAgent: string;
}

/** TCP keep-alive finds a peer that vanished without a word: Node's probes begin after this silence and end 10 s later. */
const probeAfterMs = 30_000;

type TlsIdentity = Omit<RequestIdentity, 'headers'>;

function isEqual(left: string | Buffer | undefined, right: string | Buffer | undefined): boolean {
  return left === right || (left !== undefined && right !== undefined && String(left) === String(right));
}

/**
 * Node.js tells connections apart by a name with all certificates and keys in it, which it makes anew several times for each
 * request: 10 KB. Here they are one per `identity`.
 */
class NamedAgent extends https.Agent {
  getName(options: https.RequestOptions & { readonly identity?: number } = {}): string {
    return `${options.host}:${options.port}:${options.identity}`;
  }
}

/** One HTTP exchange at a time over kept connections; no retry, no meaning. */
export class Transport {
  readonly #access: KubeAccess;
  readonly #userAgent: string;
  readonly #base: URL;
  readonly #agents: Record<TransportRequest['pool'], http.Agent>;
  #identity: { readonly known: TlsIdentity; readonly number: number } = { known: {}, number: 0 };

  constructor(access: KubeAccess, options: TransportOptions) {
    this.#access = access;
    this.#userAgent = options.userAgent;
    this.#base = new URL(access.server);
    const settings = { keepAlive: true, keepAliveMsecs: probeAfterMs };
    const Agent = this.#base.protocol === 'https:' ? NamedAgent : http.Agent;
    this.#agents = {
      request: new Agent({ ...settings, maxSockets: options.maxSockets, maxFreeSockets: options.maxSockets }),
      watch: new Agent(settings),
    };
  }

  /** Resolves with the answer's head. Rejects with UNREACHABLE, or with the signal's reason. */
  async send(request: TransportRequest): Promise<http.IncomingMessage> {
    const identity = await this.#access.credentials.current();
    request.signal.throwIfAborted();
    const options: https.RequestOptions & { readonly identity?: number } = {
      method: request.method,
      protocol: this.#base.protocol,
      host: this.#base.hostname.replace(/^\[|\]$/g, ''),
      port: this.#base.port,
      path: this.#base.pathname.replace(/\/$/, '') + request.path,
      agent: this.#agents[request.pool],
      headers: {
        'user-agent': this.#userAgent,
        accept: 'application/json',
        ...identity.headers,
        ...request.headers,
        ...(request.body === undefined ? {} : { 'content-length': Buffer.byteLength(request.body) }),
      },
      ...this.#tlsOptions(identity),
      identity: this.#numberOf(identity),
    };
    return exchange(this.#base.protocol === 'https:' ? https : http, options, request);
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  /** Another certificate is another identity: no connection of the former one serves it. */
  #numberOf({ cert, key, passphrase }: TlsIdentity): number {
    const { known } = this.#identity;
    const isKnown = isEqual(known.cert, cert) && isEqual(known.key, key) && known.passphrase === passphrase;
    if (!isKnown) this.#identity = { known: { cert, key, passphrase }, number: this.#identity.number + 1 };
    return this.#identity.number;
  }

  #tlsOptions(identity: TlsIdentity): https.RequestOptions {
    if (this.#base.protocol !== 'https:') return {};
    const { ca, tlsServerName, insecureSkipTlsVerify } = this.#access;
    return {
      ...(ca === undefined ? {} : { ca }),
      ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
      ...(insecureSkipTlsVerify ? { rejectUnauthorized: false } : {}),
      ...(identity.cert === undefined ? {} : { cert: identity.cert }),
      ...(identity.key === undefined ? {} : { key: identity.key }),
      ...(identity.passphrase === undefined ? {} : { passphrase: identity.passphrase }),
    };
  }
}

function exchange(
  client: Pick<typeof https, 'request'>,
  options: https.RequestOptions,
  { body, signal }: TransportRequest,
): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = client.request(options);
    const onAbort = () => sent.destroy();
    signal.addEventListener('abort', onAbort, { once: true });
    // The request ends after its answer was read or dropped; until then an abort must still reach it.
    sent.once('close', () => signal.removeEventListener('abort', onAbort));
    sent.on('error', (cause) => reject(signal.aborted ? signal.reason : unreachableError(options, cause)));
    // The agent sets it on plain sockets only, and on TLS ones when they are idle.
    sent.once('socket', (socket) => socket.setKeepAlive(true, probeAfterMs));
    sent.once('response', resolve);
    sent.end(body);
  });
}

function unreachableError(options: https.RequestOptions, cause: unknown): KubeError {
  const code = errorCode(cause);
  const text = errorMessage(cause) || code || 'no answer';
  return new KubeError('UNREACHABLE', `${options.method} ${options.host}:${options.port}: ${text}`, { cause });
}

/** True when the request cannot have reached the server, so that repeating it is always safe. */
export function isNeverSent(error: KubeError): boolean {
  const code = errorCode(error.cause);
  return code === 'ECONNREFUSED' || code === 'ENOTFOUND' || code === 'EAI_AGAIN' || code === 'EHOSTUNREACH';
}

/** Whole body as text. Rejects with BAD_RESPONSE when it is cut off or longer than `limitBytes`. */
export async function readBody(reply: http.IncomingMessage, limitBytes: number, signal: AbortSignal): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of reply as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > limitBytes) throw new KubeError('BAD_RESPONSE', `an answer of more than ${limitBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (cause) {
    if (signal.aborted) throw signal.reason;
    if (cause instanceof KubeError) throw cause;
    throw new KubeError('BAD_RESPONSE', `the answer was cut off: ${errorMessage(cause)}`, { cause });
  }
  return Buffer.concat(chunks, size).toString('utf8');
}
