import { type EventObject, type KubeObject, type ObjectMeta, resources } from '../api/index.ts';
import {
  backoffDelayMs,
  type Clock,
  errorMessage,
  type Logger,
  rfc3339,
  silentLogger,
  sleep,
  systemClock,
  withOwnEnding,
} from '../base/index.ts';
import type { CallOptions, KubeClient } from './client.ts';
import { isKubeError } from './errors.ts';
import { RateLimiter } from './rate-limiter.ts';

export interface EventRecorderOptions {
  /** `source.component`: `virt-handler`, `virtualmachine-controller`. */
  readonly component: string;
  /** `source.host`: the node. */
  readonly host?: string | undefined;
  /** Events that wait to be written; more are dropped, the oldest first. 1000 unless given. */
  readonly queueSize?: number;
  /** Written side by side, those about one object one after the other; 1 unless given. */
  readonly writers?: number;
  /** Per object: this many at once, then one per `refillSeconds`. 25 and 300 as upstream. */
  readonly burst?: number;
  readonly refillSeconds?: number;
}

export interface EventRecorderDeps {
  readonly client: Pick<KubeClient, 'create' | 'patch'>;
  readonly log?: Logger;
  readonly clock?: Clock;
  readonly random?: () => number;
  /** Resolves when nothing more urgent is under way; events wait for it, none for longer than two seconds. */
  readonly whenQuiet?: () => Promise<void>;
}

/** What the event is about. */
export type EventSubject = Pick<KubeObject, 'apiVersion' | 'kind'> & {
  readonly metadata: Pick<ObjectMeta, 'name' | 'namespace' | 'uid' | 'resourceVersion'>;
};

export type EventType = 'Normal' | 'Warning';

interface Pending {
  readonly subject: EventSubject;
  readonly type: EventType;
  readonly reason: string;
  readonly message: string;
  readonly time: string;
  readonly atMs: number;
}

interface Known {
  readonly name: string;
  readonly namespace: string;
  count: number;
}

/** Per-object and per-event memory is bounded by this; the least recently used goes first. */
const memorySize = 4096;
const maxMessageLength = 1024;
/** An event that is older gives way to no other: as long as a burst of a hundred starts takes. */
const giveWayMs = 2_000;

const awayCodes = ['UNREACHABLE', 'TIMEOUT', 'SERVER_ERROR', 'BAD_RESPONSE', 'TOO_MANY_REQUESTS'] as const;

/** An API server that is away for a minute or so loses no event; what it refuses is not said again. */
const patience = { tries: 12, baseMs: 250, maxMs: 10_000, jitter: 0.5 };

/**
 * Writes events in the background, those about one object in order. Repeats of an event become a higher count on the first one. `record` never
 * waits and never throws; what cannot be written is logged and forgotten.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #client: EventRecorderDeps['client'];
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #queue: Pending[] = [];
  readonly #limits = new Map<string, RateLimiter>();
  readonly #known = new Map<string, Known>();
  readonly #whenQuiet: EventRecorderDeps['whenQuiet'];
  readonly #stopping = new AbortController();
  /** A caller waits for all that is left. */
  #flushing = new AbortController();
  readonly #writing = new Set<Promise<void>>();
  /** Objects of which an event is being written. */
  readonly #busy = new Set<string>();
  #dropped = 0;

  constructor(options: EventRecorderOptions, deps: EventRecorderDeps) {
    this.#options = options;
    this.#client = deps.client;
    this.#log = deps.log ?? silentLogger;
    this.#clock = deps.clock ?? systemClock;
    this.#random = deps.random ?? Math.random;
    this.#whenQuiet = deps.whenQuiet;
  }

  /** Events that are to be written. */
  get waiting(): number {
    return this.#queue.length + this.#busy.size;
  }

  /** Events not written because of the rate limit or a full queue. */
  get dropped(): number {
    return this.#dropped;
  }

  record(subject: EventSubject, type: EventType, reason: string, message: string): void {
    if (this.#stopping.signal.aborted) return;
    if (!this.#limitOf(subject).tryTake()) {
      this.#dropped++;
      return;
    }
    const { apiVersion, kind, metadata } = subject;
    const { name, namespace, uid, resourceVersion } = metadata;
    const copy = { apiVersion, kind, metadata: defined({ name, namespace, uid, resourceVersion }) };
    const [time, atMs] = [rfc3339(this.#clock.now()), this.#clock.monotonicMs()];
    this.#queue.push({ subject: copy, type, reason, message: message.slice(0, maxMessageLength), time, atMs });
    if (this.#queue.length > (this.#options.queueSize ?? 1000)) {
      this.#queue.shift();
      this.#dropped++;
    }
    this.#beginWriting();
  }

  #beginWriting(): void {
    if (this.#stopping.signal.aborted || this.#writing.size >= (this.#options.writers ?? 1)) return;
    const first = this.#take();
    if (!first) return;
    const writing = this.#write(first).finally(() => {
      this.#writing.delete(writing);
      // What was recorded in the moment of its end.
      this.#beginWriting();
    });
    this.#writing.add(writing);
  }

  /** Resolves when nothing waits any more, or after `timeoutMs`. */
  async flush(timeoutMs = 5_000): Promise<void> {
    if (this.#writing.size === 0) return;
    this.#flushing.abort();
    let cancel: () => void = () => undefined;
    const late = new Promise<void>((resolve) => {
      cancel = this.#clock.schedule(timeoutMs, resolve);
    });
    await Promise.race([Promise.all(this.#writing), late]);
    cancel();
    this.#flushing = new AbortController();
  }

  /** Flushes, then takes nothing more. */
  async stop(timeoutMs = 5_000): Promise<void> {
    await this.flush(timeoutMs);
    this.#stopping.abort(new Error('event recorder stopped'));
    await Promise.all(this.#writing);
  }

  async #write(first: Pending): Promise<void> {
    for (let event: Pending | undefined = first; event; event = this.#take()) {
      const subject = subjectOf(event.subject);
      this.#busy.add(subject);
      try {
        await this.#giveWay(event);
        if (this.#stopping.signal.aborted) return;
        await this.#writeOne(event);
      } catch (error) {
        this.#log.warn({ reason: event.reason, err: errorMessage(error) }, 'an event could not be written');
      } finally {
        this.#busy.delete(subject);
      }
    }
  }

  /** The next one about an object of which none is being written: whoever writes that one takes its successors, too. */
  #take(): Pending | undefined {
    const at = this.#queue.findIndex(({ subject }) => !this.#busy.has(subjectOf(subject)));
    return at < 0 ? undefined : this.#queue.splice(at, 1)[0];
  }

  /** In a burst of starts two events each cost as much as the start's own write, here and at the API server. */
  async #giveWay({ atMs }: Pending): Promise<void> {
    const leftMs = atMs + giveWayMs - this.#clock.monotonicMs();
    if (!this.#whenQuiet || leftMs <= 0) return;
    const quiet = this.#whenQuiet;
    await withOwnEnding(this.#flushing.signal, async (ending) => {
      await Promise.race([quiet(), sleep(leftMs, ending.signal, this.#clock).catch(() => undefined)]);
      ending.abort();
    });
  }

  /** Repeats `write` while the API server is away. Both writes say the same however often they arrive. */
  async #patiently(write: (call: CallOptions) => Promise<unknown>): Promise<void> {
    const { signal } = this.#stopping;
    for (let attempt = 1; ; attempt++) {
      try {
        await write({ signal, later: true });
        return;
      } catch (error) {
        if (attempt > 1 && isKubeError(error, 'ALREADY_EXISTS')) return;
        if (attempt >= patience.tries || !isKubeError(error, ...awayCodes)) throw error;
        await sleep(backoffDelayMs(attempt, { ...patience, random: this.#random }), signal, this.#clock);
      }
    }
  }

  async #writeOne(event: Pending): Promise<void> {
    const identity = identityOf(event);
    const known = this.#known.get(identity);
    if (known) {
      try {
        known.count++;
        const body = { count: known.count, lastTimestamp: event.time };
        const ref = { namespace: known.namespace, name: known.name };
        await this.#patiently((call) => this.#client.patch(resources.events, ref, body, 'merge', call));
        remember(this.#known, identity, known);
        return;
      } catch (error) {
        // Events expire after an hour.
        if (!isKubeError(error, 'NOT_FOUND')) throw error;
        this.#known.delete(identity);
      }
    }
    const object = this.#objectOf(event);
    await this.#patiently((call) => this.#client.create<EventObject>(resources.events, object, call));
    const namespace = object.metadata.namespace ?? 'default';
    remember(this.#known, identity, { name: object.metadata.name, namespace, count: 1 });
  }

  #objectOf({ subject, type, reason, message, time }: Pending): EventObject {
    const { component, host } = this.#options;
    const { name, namespace = 'default', uid, resourceVersion } = subject.metadata;
    const nanoseconds = BigInt(this.#clock.now().getTime()) * 1_000_000n + BigInt(Math.floor(this.#random() * 1e6));
    const suffix = nanoseconds.toString(16);
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: `${name}.${suffix}`, namespace },
      involvedObject: defined({
        apiVersion: subject.apiVersion,
        kind: subject.kind,
        namespace: subject.metadata.namespace,
        name,
        uid,
        resourceVersion,
      }),
      type,
      reason,
      message,
      count: 1,
      firstTimestamp: time,
      lastTimestamp: time,
      source: host ? { component, host } : { component },
      reportingComponent: component,
      reportingInstance: host ?? '',
    };
  }

  #limitOf(subject: EventSubject): RateLimiter {
    const key = subjectOf(subject);
    const { burst = 25, refillSeconds = 300 } = this.#options;
    const limiter = this.#limits.get(key) ?? new RateLimiter({ qps: 1 / refillSeconds, burst }, this.#clock);
    remember(this.#limits, key, limiter);
    return limiter;
  }
}

function subjectOf({ kind, metadata }: EventSubject): string {
  return `${kind}/${metadata.namespace ?? ''}/${metadata.name}/${metadata.uid ?? ''}`;
}

/** What makes two events the same one. */
function identityOf({ subject, type, reason, message }: Pending): string {
  const { name, namespace, uid } = subject.metadata;
  return JSON.stringify([subject.kind, namespace, name, uid, type, reason, message]);
}

/** A map in order of last use, with a limit. */
function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= memorySize) return;
  const oldest = map.keys().next();
  if (!oldest.done) map.delete(oldest.value);
}

/** Without the keys that hold nothing. */
function defined<V extends object>(object: V): { [K in keyof V]: Exclude<V[K], undefined> } {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as {
    [K in keyof V]: Exclude<V[K], undefined>;
  };
}
