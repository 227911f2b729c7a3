import type { StoreEvent } from './entry.ts';

export interface HistoryOptions {
  readonly maxEvents: number;
  /** Sum of the JSON lengths of the kept events. */
  readonly maxBytes: number;
}

/** The last changes, in order, for watches that resume and lists that go on. Bounded; what falls out is gone. */
export class History {
  readonly #options: HistoryOptions;
  #events: StoreEvent[] = [];
  #head = 0;
  #bytes = 0;
  #floor: number;
  readonly #start: number;
  readonly #same: number;

  /** `revision`: the state from which nothing is known yet. `same`: a former revision with just that state. */
  constructor(options: HistoryOptions, revision: number, same = revision) {
    this.#options = options;
    this.#floor = revision;
    this.#start = revision;
    this.#same = same;
  }

  /** Changes after this revision can be listed. */
  get floor(): number {
    return this.#floor;
  }

  get size(): number {
    return this.#events.length - this.#head;
  }

  push(event: StoreEvent): void {
    this.#events.push(event);
    this.#bytes += event.entry.json.length;
    while (this.size > this.#options.maxEvents || (this.#bytes > this.#options.maxBytes && this.size > 1)) this.#drop();
    if (this.#head > 1024 && this.#head > this.#events.length / 2) {
      this.#events = this.#events.slice(this.#head);
      this.#head = 0;
    }
  }

  /** Changes after a revision, oldest first; undefined when some of them are gone. */
  since(asked: number): readonly StoreEvent[] | undefined {
    const revision = asked === this.#same ? this.#start : asked;
    if (revision < this.#floor) return undefined;
    let low = this.#head;
    let high = this.#events.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#events[middle]?.revision ?? 0) > revision) high = middle;
      else low = middle + 1;
    }
    return this.#events.slice(low);
  }

  #drop(): void {
    const event = this.#events[this.#head];
    if (!event) return;
    this.#bytes -= event.entry.json.length;
    this.#floor = event.revision;
    delete this.#events[this.#head];
    this.#head++;
  }
}
