import { errorMessage, type Logger } from '../../base/index.ts';
import { at } from '../object.ts';
import type { ObjectContext, Remover } from '../objects/index.ts';
import { collectionOf, type Entry } from '../store/index.ts';
import { events } from '../types/index.ts';

export interface EventExpiryOptions {
  readonly ttlMs: number;
}

const roundMs = 60_000;

/** Drops events some time after they were last seen, so that the database does not grow with the days. */
export class EventExpiry {
  readonly #options: EventExpiryOptions;
  readonly #deps: { readonly context: ObjectContext; readonly remover: Remover; readonly log: Logger };
  #cancel: () => void = () => undefined;
  #round: Promise<void> = Promise.resolve();

  constructor(options: EventExpiryOptions, deps: { context: ObjectContext; remover: Remover; log: Logger }) {
    this.#options = options;
    this.#deps = deps;
  }

  start(): void {
    this.#cancel = this.#deps.context.clock.schedule(Math.min(roundMs, this.#options.ttlMs), () => {
      this.#round = this.#expire()
        .catch((error) => this.#deps.log.warn({ err: errorMessage(error) }, 'events not expired'))
        .then(() => this.start());
    });
  }

  async stop(): Promise<void> {
    this.#cancel();
    await this.#round;
    this.#cancel();
  }

  async #expire(): Promise<void> {
    const { context, remover } = this.#deps;
    const before = context.clock.now().getTime() - this.#options.ttlMs;
    const old = context.store.list(collectionOf(events)).filter((entry) => lastSeenMs(entry) < before);
    await Promise.all(old.map((entry) => remover.remove(events, entry, {})));
  }
}

function lastSeenMs({ object }: Entry): number {
  const times = [
    at(object, 'series', 'lastObservedTime'),
    at(object, 'lastTimestamp'),
    at(object, 'eventTime'),
    object.metadata.creationTimestamp,
  ];
  return Math.max(
    0,
    ...times
      .map((time) => (typeof time === 'string' ? Date.parse(time) : Number.NaN))
      .filter((time) => !Number.isNaN(time)),
  );
}
