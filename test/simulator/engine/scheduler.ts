import type { Clock } from '../../../src/base/index.ts';
import type { Chance } from './chance.ts';
import type { Trace } from './trace.ts';

/** One process of the world. What belongs to a dead one never happens. */
export interface Life {
  readonly name: string;
  dead: boolean;
  /** Stopped, as by SIGSTOP or with its machine: what belongs to it happens when it goes on. */
  asleep: boolean;
  /** Entries of the scheduler that wait for it. */
  pending: number;
}

export function newLife(name: string): Life {
  return { name, dead: false, asleep: false, pending: 0 };
}

interface Entry {
  readonly dueMs: number;
  /** Chosen by chance: decides among entries of the same time. */
  readonly rank: number;
  readonly label: string;
  readonly life: Life;
  run: (() => void) | undefined;
}

interface Countdown {
  readonly life: Life;
  left: number;
  readonly then: () => void;
}

/**
 * Virtual time and the order of everything. Each timer and each end of an input or output is an entry; one runs at a time,
 * and all promises settle before the next.
 */
export class Scheduler {
  nowMs = 1_000_000;
  readonly #chance: Chance;
  readonly #trace: Trace;
  readonly #heap: Entry[] = [];
  #countdowns: Countdown[] = [];
  #slept: Entry[] = [];

  constructor(chance: Chance, trace: Trace) {
    this.#chance = chance;
    this.#trace = trace;
  }

  /** The returned function takes it back. */
  after(ms: number, label: string, life: Life, run: () => void): () => void {
    const entry: Entry = { dueMs: this.nowMs + Math.max(0, ms), rank: this.#chance.next(), label, life, run };
    life.pending++;
    this.#push(entry);
    return () => {
      if (!entry.run) return;
      entry.run = undefined;
      life.pending--;
    };
  }

  /** All that was due meanwhile comes at once, in its order: requests on their way, events, timers. */
  wake(life: Life): void {
    life.asleep = false;
    const due = this.#slept.filter((entry) => entry.life === life);
    this.#slept = this.#slept.filter((entry) => entry.life !== life);
    for (const entry of due) this.#push(entry);
  }

  /** False when nothing is left before `untilMs`; then it is that time. */
  async step(untilMs: number): Promise<boolean> {
    const entry = this.#next(untilMs);
    if (!entry?.run) {
      this.nowMs = Math.max(this.nowMs, untilMs);
      return false;
    }
    const { run, label, life } = entry;
    this.nowMs = Math.max(this.nowMs, entry.dueMs);
    entry.run = undefined;
    life.pending--;
    this.#trace.step(this.nowMs, `${life.name}: ${label}`);
    run();
    await this.settle();
    for (const counted of this.#countdowns) {
      if (counted.life === life && counted.left-- <= 0) this.#count(counted);
    }
    return true;
  }

  /** All promises of what was done outside of steps settle, too. */
  settle(): Promise<void> {
    return new Promise((resolve) => setImmediate(resolve));
  }

  /** Calls back right after this many more steps of a process. */
  onSteps(life: Life, steps: number, then: () => void): void {
    this.#countdowns.push({ life, left: steps, then });
  }

  #count(counted: Countdown): void {
    this.#countdowns = this.#countdowns.filter((each) => each !== counted);
    counted.then();
  }

  #next(untilMs: number): Entry | undefined {
    for (let first = this.#heap[0]; first && first.dueMs <= untilMs; first = this.#heap[0]) {
      this.#pop();
      if (!first.run || first.life.dead) continue;
      if (!first.life.asleep) return first;
      this.#slept.push(first);
    }
    return undefined;
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let at = heap.length;
    heap.push(entry);
    while (at > 0) {
      const up = (at - 1) >> 1;
      const parent = heap[up];
      if (!parent || !isBefore(entry, parent)) break;
      heap[at] = parent;
      at = up;
    }
    heap[at] = entry;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (!last || heap.length === 0) return;
    let at = 0;
    for (;;) {
      let down = 2 * at + 1;
      const [left, right] = [heap[down], heap[down + 1]];
      if (!left) break;
      if (right && isBefore(right, left)) down++;
      const child = heap[down];
      if (!child || !isBefore(child, last)) break;
      heap[at] = child;
      at = down;
    }
    heap[at] = last;
  }
}

function isBefore(left: Entry, right: Entry): boolean {
  return left.dueMs < right.dueMs || (left.dueMs === right.dueMs && left.rank < right.rank);
}

/** The clock of one process. Its timers are late by chance, as on a busy machine; never early. */
export class SimClock implements Clock {
  /** That have neither run nor been cancelled. */
  timers = 0;
  readonly #scheduler: Scheduler;
  readonly #chance: Chance;
  readonly #life: Life;
  readonly #wall: Wall;

  constructor(scheduler: Scheduler, chance: Chance, wall: Wall, life: Life) {
    this.#scheduler = scheduler;
    this.#chance = chance;
    this.#wall = wall;
    this.#life = life;
  }

  now(): Date {
    return new Date(this.#wall.epochMs + this.#scheduler.nowMs);
  }

  monotonicMs(): number {
    return this.#scheduler.nowMs;
  }

  schedule(ms: number, callback: () => void): () => void {
    const lateMs = this.#chance.happens(0.9) ? this.#chance.next() : this.#chance.between(0, 60);
    let isOver = false;
    const end = () => {
      if (!isOver) this.timers--;
      isOver = true;
    };
    this.timers++;
    const cancel = this.#scheduler.after(ms + lateMs, 'timer', this.#life, () => {
      end();
      callback();
    });
    return () => {
      end();
      cancel();
    };
  }
}

/** The machine's wall clock; it may jump. */
export interface Wall {
  epochMs: number;
}
