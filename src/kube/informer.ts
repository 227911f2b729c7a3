import { type Key, type KubeObject, keyOf, type ResourceType } from '../api/index.ts';
import {
  type BackoffOptions,
  backoffDelayMs,
  type Clock,
  type Component,
  errorCode,
  errorMessage,
  type Logger,
  silentLogger,
  sleep,
  systemClock,
} from '../base/index.ts';
import type { KubeClient } from './client.ts';
import { isKubeError, refusalError } from './errors.ts';
import { type IndexFunctions, ObjectStore, type StoreHandlers } from './store.ts';
import { checkedObject, type WatchEvent } from './watch.ts';

export interface InformerOptions<T extends KubeObject> {
  readonly type: ResourceType;
  /** Absent: all namespaces. */
  readonly namespace?: string | undefined;
  /** Selectors hold for list and watch alike. */
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly pageSize?: number;
  /** The server is asked to end each watch after a random time in this range; 300 to 600 s unless given. */
  readonly watchSeconds?: { readonly min: number; readonly max: number };
  /** Silence after which a watch counts as dead; 5 min unless given. */
  readonly idleTimeoutMs?: number;
  readonly backoff?: Pick<BackoffOptions, 'baseMs' | 'maxMs' | 'jitter'>;
  readonly indexes?: IndexFunctions<T>;
  /** Drops from an object what this program does not read, in place. */
  readonly trim?: (object: T) => void;
  /** Makes an object, in place, share what it has in common with one that is kept already; both stay as they are from then on. */
  readonly share?: (object: T, like: T) => T;
}

export interface InformerDeps {
  readonly client: Pick<KubeClient, 'list' | 'watch'>;
  readonly log?: Logger;
  readonly clock?: Clock;
  readonly random?: () => number;
}

export interface InformerHealth {
  /** A list has been read completely once. */
  readonly hasSynced: boolean;
  /** A watch is open now. */
  readonly isConnected: boolean;
  /** Monotonic time of the last list, event or bookmark. */
  readonly lastSuccessMs: number | undefined;
  /** Failures in a row. */
  readonly failures: number;
  readonly lastError: string | undefined;
  /** Of that error, where it has one. */
  readonly lastCode: string | undefined;
  readonly lists: number;
  readonly watches: number;
}

/** A watch that ends sooner, without a word, counts as a failure: a server that hangs up at once is not asked in a loop. */
const shortWatchMs = 1_000;

/**
 * A cache of one resource type that follows the API server: list, then watch from there, for ever. A dropped watch resumes
 * from the last resource version; 410, an ERROR event and unreadable data lead to a new list, whose gaps are reported as
 * tombstones. While the server is away the cache keeps its last state: old is not gone (ecosystem §1.3).
 */
export class Informer<T extends KubeObject> implements Component {
  readonly name: string;
  /** Resolves when the first list is there, or has failed. */
  readonly firstAnswer: Promise<void>;
  readonly #options: InformerOptions<T>;
  readonly #client: InformerDeps['client'];
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #store: ObjectStore<T>;
  readonly #stopping = new AbortController();
  /** The newest object: those of one list are alike in most cases. */
  #newest: T | undefined;
  #loop: Promise<void> | undefined;
  #resourceVersion: string | undefined;
  #synced = false;
  #syncWaiters = new Set<() => void>();
  #answered: () => void = () => undefined;
  #connected = false;
  #failures = 0;
  #lastSuccessMs: number | undefined;
  #lastError: string | undefined;
  #lastCode: string | undefined;
  #lists = 0;
  #watches = 0;

  constructor(options: InformerOptions<T>, deps: InformerDeps) {
    this.name = `informer ${options.type.resource}`;
    this.#options = options;
    this.#client = deps.client;
    this.#log = (deps.log ?? silentLogger).child({ resource: options.type.resource });
    this.#clock = deps.clock ?? systemClock;
    this.#random = deps.random ?? Math.random;
    this.firstAnswer = new Promise((resolve) => {
      this.#answered = resolve;
    });
    this.#store = new ObjectStore(options.indexes ?? {}, (error) =>
      this.#log.error({ err: error }, 'an informer handler threw'),
    );
  }

  get hasSynced(): boolean {
    return this.#synced;
  }

  get isConnected(): boolean {
    return this.#connected;
  }

  get lastSuccessMs(): number | undefined {
    return this.#lastSuccessMs;
  }

  get health(): InformerHealth {
    return {
      hasSynced: this.#synced,
      isConnected: this.#connected,
      lastSuccessMs: this.#lastSuccessMs,
      failures: this.#failures,
      lastError: this.#lastError,
      lastCode: this.#lastCode,
      lists: this.#lists,
      watches: this.#watches,
    };
  }

  get size(): number {
    return this.#store.size;
  }

  /** Shared object: copy before changing. */
  get(key: Key): T | undefined {
    return this.#store.get(key);
  }

  list(): T[] {
    return [...this.#store.values()];
  }

  keys(): IterableIterator<Key> {
    return this.#store.keys();
  }

  byIndex(name: string, value: string): T[] {
    return this.#store.byIndex(name, value);
  }

  /** Hears of everything that is there, then of changes. The returned function ends it. */
  addHandlers(handlers: StoreHandlers<T>): () => void {
    return this.#store.addHandlers(handlers);
  }

  /** Begins and returns at once; see `waitForSync`. */
  async start(): Promise<void> {
    if (this.#stopping.signal.aborted) throw new Error(`${this.name} was stopped`);
    this.#loop ??= this.#run(this.#stopping.signal);
  }

  /** Resolves after the first complete list and its handlers; rejects with the signal's reason. */
  waitForSync(signal?: AbortSignal): Promise<void> {
    if (this.#synced) return Promise.resolve();
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const onAbort = () => {
        this.#syncWaiters.delete(onSync);
        reject(signal?.reason);
      };
      const onSync = () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#syncWaiters.add(onSync);
    });
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error(`${this.name} stopped`));
    await this.#loop;
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (this.#resourceVersion === undefined) await this.#relist(signal);
        await this.#follow(signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#failed(error);
      }
      await this.#pause(signal);
    }
  }

  async #relist(signal: AbortSignal): Promise<void> {
    const { type, namespace, labelSelector, fieldSelector, pageSize } = this.#options;
    this.#lists++;
    const list = await this.#client.list<T>(type, { namespace, labelSelector, fieldSelector, pageSize, signal });
    const objects = list.items.map((item) => this.#trimmed(checkedObject<T>(item)));
    signal.throwIfAborted();
    this.#store.replace(objects);
    this.#resourceVersion = list.resourceVersion;
    this.#lastSuccessMs = this.#clock.monotonicMs();
    if (this.#synced) return;
    this.#synced = true;
    this.#answered();
    for (const waiter of this.#syncWaiters) waiter();
    this.#syncWaiters.clear();
  }

  /** One watch, to its end. */
  async #follow(signal: AbortSignal): Promise<void> {
    const { type, namespace, labelSelector, fieldSelector, idleTimeoutMs } = this.#options;
    const { min, max } = this.#options.watchSeconds ?? { min: 300, max: 600 };
    const startedMs = this.#clock.monotonicMs();
    let events = 0;
    this.#watches++;
    try {
      const watch = this.#client.watch<T>(type, {
        namespace,
        labelSelector,
        fieldSelector,
        idleTimeoutMs,
        resourceVersion: this.#resourceVersion,
        timeoutSeconds: Math.round(min + (max - min) * this.#random()),
        signal,
        onOpen: () => {
          this.#connected = true;
        },
      });
      for await (const event of watch) {
        signal.throwIfAborted();
        this.#apply(event);
        events++;
      }
    } finally {
      this.#connected = false;
    }
    const lastedMs = this.#clock.monotonicMs() - startedMs;
    if (events === 0 && lastedMs < shortWatchMs) throw new Error('the server ended the watch at once');
    this.#failures = 0;
  }

  #apply(event: WatchEvent<T>): void {
    switch (event.type) {
      case 'ERROR':
        throw refusalError(event.status.code ?? 500, event.status, `watch ${this.#options.type.resource}`);
      case 'BOOKMARK':
        this.#resourceVersion = event.resourceVersion;
        break;
      case 'DELETED':
        this.#resourceVersion = event.object.metadata.resourceVersion;
        this.#store.delete(this.#trimmed(event.object));
        break;
      default:
        this.#resourceVersion = event.object.metadata.resourceVersion;
        this.#store.upsert(this.#trimmed(event.object));
    }
    // Only data ends a back-off: a server that accepts and then fails would otherwise be asked without pause.
    this.#failures = 0;
    this.#lastError = undefined;
    this.#lastCode = undefined;
    this.#lastSuccessMs = this.#clock.monotonicMs();
  }

  #trimmed(object: T): T {
    delete object.metadata.managedFields;
    this.#options.trim?.(object);
    const { share } = this.#options;
    if (!share) return object;
    const old = this.#store.get(keyOf(object));
    const kept = old ? share(object, old) : object;
    const newest = this.#newest;
    this.#newest = newest && kept !== old ? share(kept, newest) : kept;
    return this.#newest;
  }

  #failed(error: unknown): void {
    this.#failures++;
    this.#lastError = errorMessage(error);
    this.#lastCode = errorCode(error);
    this.#answered();
    const resume = isKubeError(error, 'UNREACHABLE', 'SERVER_ERROR', 'TOO_MANY_REQUESTS', 'UNAUTHORIZED', 'FORBIDDEN');
    const silence = isKubeError(error, 'TIMEOUT') && error.httpStatus === undefined;
    if (isKubeError(error) && !resume && !silence) this.#resourceVersion = undefined;
    const fields = { code: this.#lastCode, reason: this.#lastError, failures: this.#failures };
    // The first failure is common (a restart of the API server); a lasting one is worth a warning now and then.
    if (this.#failures === 3 || this.#failures % 20 === 0) this.#log.warn(fields, 'list or watch keeps failing');
    else this.#log.debug(fields, 'list or watch failed');
  }

  async #pause(signal: AbortSignal): Promise<void> {
    if (this.#failures === 0) return;
    const backoff = { baseMs: 800, maxMs: 30_000, jitter: 0.5, ...this.#options.backoff, random: this.#random };
    await sleep(backoffDelayMs(this.#failures, backoff), signal, this.#clock).catch(() => undefined);
  }
}
