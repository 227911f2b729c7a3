import type { Key } from '../api/index.ts';
import type { DecisionRecord } from './decision-record.ts';

export interface DecisionLogOptions {
  readonly recordsPerKey: number;
  /** Objects that are there; beyond it those not decided on for longest go. */
  readonly keys: number;
  /** Objects that are no more: "why was it deleted" is asked afterwards. */
  readonly gone: number;
  /** Of all records, as JSON. Beyond it the oldest of those keys go that were not decided on for longest. */
  readonly bytes: number;
}

const defaultOptions: DecisionLogOptions = { recordsPerKey: 16, keys: 2048, gone: 256, bytes: 4 * 1024 * 1024 };

export interface RuleRun {
  readonly rule: string;
  readonly since: Date;
}

/**
 * A pause of a rule that waits for what may never come: about as long as it has waited already, so that it doubles from time to
 * time up to a bound.
 */
export function longerPause(
  { now, lastRule }: { readonly now: Date; readonly lastRule?: RuleRun | undefined },
  rule: string,
  { firstMs, longestMs }: { readonly firstMs: number; readonly longestMs: number },
): number {
  const waitedMs = lastRule?.rule === rule ? now.getTime() - lastRule.since.getTime() : 0;
  return Math.min(longestMs, Math.max(firstMs, waitedMs));
}

interface Kept<Seen> {
  readonly record: DecisionRecord<Seen>;
  bytes: number;
}

interface Ring<Seen> {
  readonly kept: Kept<Seen>[];
  goneAt: Date | undefined;
}

/**
 * The last decisions of each key, bounded in number and bytes. `isSameSeen`: two observations that are one line of the story;
 * a guest that is paused and one that runs are two.
 */
export class DecisionLog<Seen> {
  readonly #options: DecisionLogOptions;
  readonly #isSameSeen: (left: Seen, right: Seen) => boolean;
  /** Least recently decided first. */
  readonly #rings = new Map<Key, Ring<Seen>>();
  readonly #gone = new Set<Key>();
  #bytes = 0;
  #records = 0;

  constructor(
    options: Partial<DecisionLogOptions>,
    deps: { readonly isSameSeen: (left: Seen, right: Seen) => boolean },
  ) {
    this.#options = { ...defaultOptions, ...options };
    this.#isSameSeen = deps.isSameSeen;
  }

  /** What is kept of it; `isNew`: the decision differs from the one before, worth a log line. */
  add(key: Key, record: DecisionRecord<Seen>): { readonly record: DecisionRecord<Seen>; readonly isNew: boolean } {
    const ring = this.#touch(key);
    this.#count(ring.kept.at(-1));
    if (record.uid !== '') this.#setGone(key, ring, undefined);
    const last = ring.kept.at(-1)?.record;
    if (last && ring.goneAt && isEmpty(record)) return { record: last, isNew: false };
    if (last && this.#isSame(last, record)) return { record: merge(last, record), isNew: false };
    const alternated = this.#foldPair(ring, record);
    if (alternated) return { record: alternated, isNew: false };
    const kept = { record, bytes: 0 };
    ring.kept.push(kept);
    this.#records++;
    this.#count(kept);
    if (ring.kept.length > this.#options.recordsPerKey) this.#dropFirst(ring);
    this.#shrink();
    return { record, isNew: true };
  }

  /** What came of the last decision of this key stands in its record, too: its bytes are counted again. */
  close(key: Key): void {
    this.#count(this.#rings.get(key)?.kept.at(-1));
    this.#shrink();
  }

  /** Oldest first. */
  of(key: Key): readonly DecisionRecord<Seen>[] {
    return this.#rings.get(key)?.kept.map(({ record }) => record) ?? [];
  }

  last(key: Key): DecisionRecord<Seen> | undefined {
    return this.#rings.get(key)?.kept.at(-1)?.record;
  }

  has(key: Key): boolean {
    return this.#rings.has(key);
  }

  keys(): Key[] {
    return [...this.#rings.keys()];
  }

  goneAt(key: Key): Date | undefined {
    return this.#rings.get(key)?.goneAt;
  }

  /** The object and its last trace here are no more; kept for a while. */
  markGone(key: Key, at: Date): void {
    const ring = this.#rings.get(key);
    if (!ring || ring.goneAt) return;
    this.#setGone(key, ring, at);
    const oldest = this.#gone.values().next();
    if (this.#gone.size > this.#options.gone && !oldest.done) this.#drop(oldest.value);
  }

  /** The last rule of this UID, and since when it matched without another in between, whatever its problem was. */
  runOf(key: Key, uid: string): RuleRun | undefined {
    const records = this.of(key).toReversed();
    const last = records[0];
    if (last?.uid !== uid) return undefined;
    const other = records.findIndex((record) => record.rule !== last.rule || record.uid !== uid);
    const first = records.at(other === -1 ? -1 : other - 1);
    return first && { rule: last.rule, since: new Date(first.firstAt) };
  }

  /** The same decision this often in a row, whatever it saw: "again at once" is for progress. */
  timesInARow(key: Key): number {
    const kept = this.#rings.get(key)?.kept ?? [];
    const last = kept.at(-1)?.record;
    let times = 0;
    for (const { record } of kept.toReversed()) {
      if (!last || !isSameDecision(record, last)) break;
      times += record.times;
    }
    return times;
  }

  get size(): { readonly keys: number; readonly gone: number; readonly records: number; readonly bytes: number } {
    return {
      keys: this.#rings.size - this.#gone.size,
      gone: this.#gone.size,
      records: this.#records,
      bytes: this.#bytes,
    };
  }

  /** Try, pause, try, pause: two decisions that take turns are two records with their times, not a ring full of them. */
  #foldPair(ring: Ring<Seen>, record: DecisionRecord<Seen>): DecisionRecord<Seen> | undefined {
    const [first, second, third] = ring.kept.slice(-3);
    if (!first || !second || !third || ring.kept.length < 3) return undefined;
    if (!this.#isSame(first.record, third.record) || !this.#isSame(second.record, record)) return undefined;
    merge(first.record, third.record);
    this.#count(first);
    ring.kept.pop();
    this.#bytes -= third.bytes;
    this.#records--;
    return merge(second.record, record);
  }

  /** Of the same observation, too. */
  #isSame(left: DecisionRecord<Seen>, right: DecisionRecord<Seen>): boolean {
    return isSameDecision(left, right) && this.#isSameSeen(left.seen, right.seen);
  }

  #count(kept: Kept<Seen> | undefined): void {
    if (!kept) return;
    const bytes = JSON.stringify(kept.record).length;
    this.#bytes += bytes - kept.bytes;
    kept.bytes = bytes;
  }

  #touch(key: Key): Ring<Seen> {
    const ring = this.#rings.get(key) ?? { kept: [], goneAt: undefined };
    this.#rings.delete(key);
    this.#rings.set(key, ring);
    return ring;
  }

  #setGone(key: Key, ring: Ring<Seen>, at: Date | undefined): void {
    ring.goneAt = at;
    if (at) this.#gone.add(key);
    else this.#gone.delete(key);
  }

  #shrink(): void {
    if (this.#rings.size > this.#options.keys) this.#dropOldest();
    if (this.#bytes <= this.#options.bytes) return;
    for (const ring of this.#rings.values()) {
      while (ring.kept.length > 1 && this.#bytes > this.#options.bytes) this.#dropFirst(ring);
    }
    while (this.#bytes > this.#options.bytes && this.#rings.size > 1) this.#dropOldest();
  }

  #dropOldest(): void {
    const oldest = this.#rings.keys().next();
    if (!oldest.done) this.#drop(oldest.value);
  }

  #drop(key: Key): void {
    const ring = this.#rings.get(key);
    while (ring && ring.kept.length > 0) this.#dropFirst(ring);
    this.#rings.delete(key);
    this.#gone.delete(key);
  }

  #dropFirst(ring: Ring<Seen>): void {
    const first = ring.kept.shift();
    if (!first) return;
    this.#bytes -= first.bytes;
    this.#records--;
  }
}

/** The earlier one with what the later one brought. */
function merge<Seen>(earlier: DecisionRecord<Seen>, later: DecisionRecord<Seen>): DecisionRecord<Seen> {
  const { firstAt, times } = earlier;
  return Object.assign(earlier, later, { firstAt, times: times + later.times });
}

/** Nothing is known of the object, and nothing was done: of one that is no more this hides no word on where it went. */
function isEmpty({ uid, steps, problem }: DecisionRecord<unknown>): boolean {
  return uid === '' && steps.length === 0 && problem === undefined;
}

function isSameDecision(left: DecisionRecord<unknown>, right: DecisionRecord<unknown>): boolean {
  return (
    left.uid === right.uid &&
    left.route === right.route &&
    left.rule === right.rule &&
    left.problem === right.problem &&
    left.steps.length === right.steps.length &&
    left.steps.every((step, index) => {
      const other = right.steps[index];
      return step.step === other?.step && step.outcome === other.outcome && step.because === other.because;
    })
  );
}
