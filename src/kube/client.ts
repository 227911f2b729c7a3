import type { IncomingMessage } from 'node:http';
import type { KubeObject, ResourceType, StatusObject } from '../api/index.ts';
import { type Clock, jsonRecord, type Logger, silentLogger, sleep, systemClock, withOwnEnding } from '../base/index.ts';
import type { KubeAccess } from './credentials.ts';
import { isKubeError, KubeError, refusalError } from './errors.ts';
import { collectionPath, type ObjectRef, objectPath, type QueryParameters, withQuery } from './paths.ts';
import { type RateLimit, RateLimiter } from './rate-limiter.ts';
import { type RetryOptions, retryDelayMs } from './retry.ts';
import { readBody, Transport } from './transport.ts';
import { readWatch, type WatchEvent } from './watch.ts';

export interface KubeClientOptions {
  readonly userAgent: string;
  /** 50 requests per second, 100 at once, unless given. */
  readonly rateLimit?: RateLimit;
  /** Longest time of one try, 30 s unless given. */
  readonly timeoutMs?: number;
  /** Connections for requests; 8 unless given. Watches have their own. */
  readonly maxSockets?: number;
  readonly retry?: Partial<RetryOptions>;
  /** Longest answer that is read; 128 MiB unless given. */
  readonly maxBodyBytes?: number;
  /** Longest line of a watch; 16 MiB unless given. */
  readonly maxLineBytes?: number;
}

export interface KubeClientDeps {
  readonly access: KubeAccess;
  readonly clock?: Clock;
  readonly random?: () => number;
  readonly log?: Logger;
  readonly observer?: RequestObserver;
  /** Is called before each try of a request that may change something; what it throws is not tried again. */
  readonly guard?: () => void;
}

/** One exchange with the API server; a watch is one when it begins. */
export interface SentRequest {
  readonly method: string;
  /** Without a query. */
  readonly path: string;
  /** Undefined: there was no answer. */
  readonly status: number | undefined;
  readonly isWatch: boolean;
  readonly tookMs: number;
}

/** Hears of all requests, for metrics. */
export interface RequestObserver {
  sent(request: SentRequest): void;
  /** How long the client's own rate limit kept a request waiting. */
  limited(request: Pick<SentRequest, 'method' | 'path'>, waitedMs: number): void;
}

export type PatchKind = 'merge' | 'json' | 'strategic' | 'apply';

export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
  /** What only tells. While the client's own rate limit keeps requests waiting, all others go first, but for every fourth. */
  readonly later?: boolean | undefined;
}

export interface ListOptions extends CallOptions {
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  /** Objects per page; 500 unless given. */
  readonly pageSize?: number | undefined;
}

export interface KubeList<T> {
  readonly items: T[];
  readonly resourceVersion: string;
}

export interface WatchOptions extends ListOptions {
  readonly resourceVersion?: string | undefined;
  /** The server ends the watch after this. */
  readonly timeoutSeconds?: number | undefined;
  /** Silence after which the connection counts as dead; 5 min unless given. */
  readonly idleTimeoutMs?: number | undefined;
  /** Called when the server has accepted the watch. */
  readonly onOpen?: (() => void) | undefined;
}

export interface PatchOptions extends CallOptions {
  readonly subresource?: string | undefined;
  /** Needed for `apply`. */
  readonly fieldManager?: string | undefined;
  /** `apply` only: take over fields of others. */
  readonly force?: boolean | undefined;
}

export interface DeleteOptions extends CallOptions {
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly graceSeconds?: number | undefined;
  readonly propagation?: 'Background' | 'Foreground' | 'Orphan' | undefined;
}

export interface RawRequest extends CallOptions {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly path: string;
  readonly query?: QueryParameters | undefined;
  readonly body?: unknown;
  readonly contentType?: string | undefined;
  /** Repeating it changes nothing more than doing it once. */
  readonly idempotent?: boolean | undefined;
  /** The answer is read and dropped: KubeVirt's subresources that change a guest answer nothing at all. */
  readonly dropsAnswer?: boolean | undefined;
}

/** A request as somebody else made it. */
export interface PlainRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** `accept` and `content-type`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
}

export interface PlainAnswer {
  readonly httpStatus: number;
  readonly contentType: string;
  readonly text: string;
}

const patchTypes: Readonly<Record<PatchKind, string>> = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};

/**
 * Requests to one API server, typed by `ResourceType`. Every call rejects with KubeError or the caller's abort reason;
 * 429, 5xx and broken connections are tried again where that is safe (spec ecosystem §1).
 */
export class KubeClient {
  readonly #options: KubeClientOptions;
  readonly #access: KubeAccess;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #log: Logger;
  readonly #transport: Transport;
  readonly #limiter: RateLimiter;
  readonly #retry: RetryOptions;
  readonly #observer: RequestObserver | undefined;
  readonly #guard: KubeClientDeps['guard'];

  constructor(options: KubeClientOptions, deps: KubeClientDeps) {
    this.#options = options;
    this.#access = deps.access;
    this.#clock = deps.clock ?? systemClock;
    this.#random = deps.random ?? Math.random;
    this.#log = deps.log ?? silentLogger;
    this.#observer = deps.observer;
    this.#guard = deps.guard;
    this.#transport = new Transport(deps.access, {
      maxSockets: options.maxSockets ?? 8,
      userAgent: options.userAgent,
    });
    this.#limiter = new RateLimiter(options.rateLimit ?? { qps: 50, burst: 100 }, this.#clock);
    this.#retry = { attempts: 5, baseMs: 100, maxMs: 5_000, ...options.retry };
  }

  /** From the KubeVirt CR, live. */
  setRateLimit(limit: RateLimit): void {
    this.#limiter.setLimit(limit);
  }

  /** Ends kept connections; calls under way fail. */
  close(): void {
    this.#transport.close();
  }

  get<T extends KubeObject>(type: ResourceType, ref: ObjectRef, options: CallOptions = {}): Promise<T> {
    return this.raw<T>({ ...options, method: 'GET', path: objectPath(type, ref) });
  }

  /** All pages. When a page comes too late for its token (410) the list begins again once. */
  async list<T extends KubeObject>(type: ResourceType, options: ListOptions = {}): Promise<KubeList<T>> {
    try {
      return await this.#listPages<T>(type, options);
    } catch (error) {
      if (!isKubeError(error, 'GONE')) throw error;
      return this.#listPages<T>(type, options);
    }
  }

  create<T extends KubeObject>(type: ResourceType, object: T, options: CallOptions = {}): Promise<T> {
    const path = collectionPath(type, requireNamespace(type, object));
    return this.raw<T>({ ...options, method: 'POST', path, body: object });
  }

  /** PUT of the whole object; its resourceVersion is the lock. */
  update<T extends KubeObject>(type: ResourceType, object: T, options: CallOptions = {}): Promise<T> {
    return this.raw<T>({ ...options, method: 'PUT', path: objectPath(type, object.metadata), body: object });
  }

  updateStatus<T extends KubeObject>(type: ResourceType, object: T, options: CallOptions = {}): Promise<T> {
    const path = objectPath(type, object.metadata, 'status');
    return this.raw<T>({ ...options, method: 'PUT', path, body: object });
  }

  patch<T extends KubeObject>(
    type: ResourceType,
    ref: ObjectRef,
    body: unknown,
    kind: PatchKind,
    options: PatchOptions = {},
  ): Promise<T> {
    const { subresource, fieldManager, force, ...call } = options;
    return this.raw<T>({
      ...call,
      method: 'PATCH',
      path: objectPath(type, ref, subresource),
      query: { fieldManager, force },
      body,
      contentType: patchTypes[kind],
      // A JSON patch may append; the other kinds say how the object shall look.
      idempotent: kind !== 'json',
    });
  }

  /** Gives the object as it is while finalizers or a grace period hold it, or a Status. Rejects NOT_FOUND when absent. */
  delete(type: ResourceType, ref: ObjectRef, options: DeleteOptions = {}): Promise<KubeObject | StatusObject> {
    const { uid, resourceVersion, graceSeconds, propagation, ...call } = options;
    const body = {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      gracePeriodSeconds: graceSeconds,
      propagationPolicy: propagation,
      preconditions: uid || resourceVersion ? { uid, resourceVersion } : undefined,
    };
    return this.raw({ ...call, method: 'DELETE', path: objectPath(type, ref), body });
  }

  /** Deletes what the selectors match, in one namespace. */
  async deleteCollection(type: ResourceType, options: ListOptions & { readonly namespace: string }): Promise<void> {
    const { namespace, labelSelector, fieldSelector, signal, timeoutMs } = options;
    const path = withQuery(collectionPath(type, namespace), { labelSelector, fieldSelector });
    await this.raw({ method: 'DELETE', path, signal, timeoutMs });
  }

  /** Creates a child that is no object of its own: `binding`, `eviction`. */
  async createSubresource(
    type: ResourceType,
    ref: ObjectRef,
    subresource: string,
    body: object,
    options: CallOptions = {},
  ): Promise<void> {
    await this.raw({ ...options, method: 'POST', path: objectPath(type, ref, subresource), body });
  }

  /** Events from `resourceVersion` on, until the server ends it. One try, no rate limit: the informer has its own back-off. */
  async *watch<T extends KubeObject>(type: ResourceType, options: WatchOptions): AsyncGenerator<WatchEvent<T>> {
    const { namespace, labelSelector, fieldSelector, resourceVersion, timeoutSeconds } = options;
    const path = withQuery(collectionPath(type, namespace), {
      watch: true,
      allowWatchBookmarks: true,
      labelSelector,
      fieldSelector,
      resourceVersion,
      timeoutSeconds,
    });
    const idleTimeoutMs = options.idleTimeoutMs ?? 300_000;
    const stop = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, stop.signal]) : stop.signal;
    const cancel = this.#clock.schedule(idleTimeoutMs, () =>
      stop.abort(new KubeError('TIMEOUT', `watch ${path}: no answer in ${idleTimeoutMs} ms`)),
    );
    let reply: IncomingMessage;
    try {
      const send = () => this.#transport.send({ method: 'GET', path, headers: {}, signal, pool: 'watch' });
      reply = await this.#observed({ method: 'GET', path: path.split('?')[0] ?? path, isWatch: true }, send);
      if (reply.statusCode !== 200) throw await this.#refusal(reply, `watch ${path}`, signal);
    } finally {
      cancel();
    }
    options.onOpen?.();
    const maxLineBytes = this.#options.maxLineBytes ?? 16 * 2 ** 20;
    yield* readWatch<T>(reply, { maxLineBytes, idleTimeoutMs }, signal);
  }

  /** Any JSON request: rate limit, deadline per try, retries, one more try with fresh credentials after a 401. */
  async raw<T = unknown>(request: RawRequest): Promise<T> {
    let refreshed = false;
    for (let attempt = 1; ; attempt++) {
      const waitsSinceMs = this.#clock.monotonicMs();
      await this.#limiter.take(request);
      this.#observer?.limited(request, this.#clock.monotonicMs() - waitsSinceMs);
      if (request.method !== 'GET') this.#guard?.();
      try {
        return await this.#try<T>(request);
      } catch (error) {
        if (!(error instanceof KubeError)) throw error;
        if (error.code === 'UNAUTHORIZED' && !refreshed && this.#access.credentials.invalidate()) {
          refreshed = true;
          continue;
        }
        const delayMs = retryDelayMs(error, attempt, isIdempotent(request), this.#retry, this.#random);
        if (delayMs === undefined) throw error;
        this.#log.debug({ code: error.code, path: request.path, attempt, delayMs }, 'request is tried again');
        await sleep(delayMs, request.signal, this.#clock);
      }
    }
  }

  /** One request and its answer, a refusal too, as they are: for who passes on what a person asks. One try, rate limit, the caller's deadline. */
  async plain({ method, path, headers, body, signal }: PlainRequest): Promise<PlainAnswer> {
    await this.#limiter.take({ signal });
    if (method !== 'GET') this.#guard?.();
    const send = () => this.#transport.send({ method, path, headers, body, signal, pool: 'request' });
    const reply = await this.#observed({ method, path: path.split('?')[0] ?? path, isWatch: false }, send);
    const text = await readBody(reply, this.#maxBodyBytes, signal);
    return { httpStatus: reply.statusCode ?? 0, contentType: reply.headers['content-type'] ?? '', text };
  }

  async #listPages<T extends KubeObject>(type: ResourceType, options: ListOptions): Promise<KubeList<T>> {
    const { namespace, labelSelector, fieldSelector, pageSize = 500, signal, timeoutMs } = options;
    const path = collectionPath(type, namespace);
    const items: T[] = [];
    for (let token: string | undefined; ; ) {
      const query = { labelSelector, fieldSelector, limit: pageSize, continue: token };
      const page = await this.raw<RawList<T>>({ method: 'GET', path, query, signal, timeoutMs });
      if (!Array.isArray(page?.items) || typeof page.metadata?.resourceVersion !== 'string') {
        throw new KubeError('BAD_RESPONSE', `GET ${path}: the answer is no list`);
      }
      // Items of a typed list come without these two.
      for (const item of page.items) {
        item.apiVersion ??= type.group === '' ? type.version : `${type.group}/${type.version}`;
        item.kind ??= type.kind;
        items.push(item);
      }
      if (!page.metadata.continue) return { items, resourceVersion: page.metadata.resourceVersion };
      token = page.metadata.continue;
    }
  }

  #try<T>(request: RawRequest): Promise<T> {
    const what = `${request.method} ${request.path}`;
    const timeoutMs = request.timeoutMs ?? this.#options.timeoutMs ?? 30_000;
    return withOwnEnding(request.signal, async (ending) => {
      const late = () => ending.abort(new KubeError('TIMEOUT', `${what}: no answer in ${timeoutMs} ms`));
      const cancel = this.#clock.schedule(timeoutMs, late);
      try {
        return await this.#exchange<T>(request, what, ending.signal);
      } finally {
        cancel();
      }
    });
  }

  async #exchange<T>({ method, body, ...request }: RawRequest, what: string, signal: AbortSignal): Promise<T> {
    const path = withQuery(request.path, request.query ?? {});
    const headers = body === undefined ? {} : { 'content-type': request.contentType ?? 'application/json' };
    const text = body === undefined ? undefined : JSON.stringify(body);
    const send = () => this.#transport.send({ method, path, headers, body: text, signal, pool: 'request' });
    const reply = await this.#observed({ method, path: request.path, isWatch: false }, send);
    const status = reply.statusCode ?? 0;
    if (status < 200 || status > 299) throw await this.#refusal(reply, what, signal);
    const answer = await readBody(reply, this.#maxBodyBytes, signal);
    return (request.dropsAnswer ? undefined : parseJson(answer, what)) as T;
  }

  /** Until the head of the answer is there. */
  async #observed(
    request: Pick<SentRequest, 'method' | 'path' | 'isWatch'>,
    send: () => Promise<IncomingMessage>,
  ): Promise<IncomingMessage> {
    const startMs = this.#clock.monotonicMs();
    const report = (status: number | undefined) =>
      this.#observer?.sent({ ...request, status, tookMs: this.#clock.monotonicMs() - startMs });
    try {
      const reply = await send();
      report(reply.statusCode);
      return reply;
    } catch (error) {
      report(undefined);
      throw error;
    }
  }

  async #refusal(reply: IncomingMessage, what: string, signal: AbortSignal): Promise<KubeError> {
    const text = await readBody(reply, this.#maxBodyBytes, signal);
    return refusalError(reply.statusCode ?? 0, statusOf(text), what, retryAfterMs(reply.headers['retry-after']));
  }

  get #maxBodyBytes(): number {
    return this.#options.maxBodyBytes ?? 128 * 2 ** 20;
  }
}

interface RawList<T> {
  readonly items?: T[];
  readonly metadata?: { readonly resourceVersion?: string; readonly continue?: string };
}

function isIdempotent(request: RawRequest): boolean {
  return request.idempotent ?? (request.method !== 'POST' && request.method !== 'PATCH');
}

function requireNamespace(type: ResourceType, object: KubeObject): string | undefined {
  if (!type.namespaced) return undefined;
  if (object.metadata.namespace) return object.metadata.namespace;
  throw new KubeError('INVALID', `${type.kind} ${object.metadata.name ?? ''}: a namespace is needed`);
}

function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new KubeError('BAD_RESPONSE', `${what}: the answer is no JSON: ${text.slice(0, 80)}`, { cause });
  }
}

/** A proxy's error page is no Status. */
function statusOf(text: string): StatusObject | undefined {
  const value: object | undefined = jsonRecord(text);
  return value && 'kind' in value && value.kind === 'Status' ? (value as StatusObject) : undefined;
}

function retryAfterMs(header: string | undefined): number | undefined {
  const seconds = Number(header);
  return header !== undefined && Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}
