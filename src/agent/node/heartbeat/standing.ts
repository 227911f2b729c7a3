import { type Clock, Seldom } from '../../../base/index.ts';
import { isSameReasons, type NodeReason, phaseOf } from './reasons.ts';

/** What is to be published now. `againInMs`: it may be another thing then, even if nothing changes. */
export interface Wish {
  readonly reasons: readonly NodeReason[];
  readonly againInMs?: number | undefined;
}

export interface StandingDeps {
  readonly wish: () => Wish;
  /** The node does not say any more what the beat said. */
  readonly isEdited: () => boolean;
  readonly clock: Clock;
}

/** A mark that others changed is put right after this at first, and ever more seldom while it is changed again and again. */
const repairAfterMs = 5_000;
/** The same of a mark that says that the agent leaves, which does not have that long. */
const leavingRepairAfterMs = 250;
/** Other reasons for the same mark: they often come several at once, and some come and go. */
const newReasonsAfterMs = 5_000;
/** The wall clock is compared with the time that passed this often, and may differ from it by so much. */
const clockLookMs = 15_000;
const clockStepMs = 5_000;

/**
 * How long a beat stands that the API server took: until the next is due, or something else is to be published. The other mark
 * is published at once; reasons, or labels of the node, that flip do not make a write of each flip.
 */
export class Standing {
  readonly #deps: StandingDeps;
  readonly #repairs: Seldom;
  readonly #newReasons: Seldom;
  #published: readonly NodeReason[] = [];
  #beganMs = 0;
  #dueMs = 0;
  #wallMs = 0;
  #othersSinceMs: number | undefined;

  /** `longestMs`: between answers to what goes on flipping. */
  constructor(options: { readonly longestMs: number }, deps: StandingDeps) {
    this.#deps = deps;
    this.#repairs = new Seldom({ maxMs: options.longestMs });
    this.#newReasons = new Seldom({ maxMs: options.longestMs });
  }

  /** A beat was taken just now; the next is due after `forMs`. */
  begin(published: readonly NodeReason[], forMs: number): void {
    const { clock } = this.#deps;
    this.#published = published;
    this.#beganMs = clock.monotonicMs();
    this.#dueMs = this.#beganMs + forMs;
    this.#wallMs = this.#wallStartMs();
    this.#othersSinceMs = undefined;
  }

  /** 0: it is time for the next beat. To be asked again when the time is over, and when anything has changed. */
  leftMs(): number {
    const { reasons, againInMs = Number.POSITIVE_INFINITY } = this.#deps.wish();
    const nowMs = this.#deps.clock.monotonicMs();
    if (phaseOf(reasons) !== phaseOf(this.#published)) return 0;
    // virt-controller takes one of a clock that was put forward since for an old one.
    if (Math.abs(this.#wallStartMs() - this.#wallMs) > clockStepMs) return 0;
    const repairMs = this.#repairLeftMs(nowMs);
    const newReasonsMs = this.#newReasonsLeftMs(reasons, nowMs);
    if (repairMs <= 0) this.#repairs.count();
    if (newReasonsMs <= 0) this.#newReasons.count();
    const dueMs = this.#dueMs - nowMs;
    if (dueMs <= 0) this.#forget(repairMs, newReasonsMs);
    return Math.max(0, Math.min(dueMs, repairMs, newReasonsMs, againInMs, clockLookMs));
  }

  #repairLeftMs(nowMs: number): number {
    if (!this.#deps.isEdited()) return Number.POSITIVE_INFINITY;
    const baseMs = phaseOf(this.#published) === 'leaving' ? leavingRepairAfterMs : repairAfterMs;
    return this.#beganMs + this.#repairs.delayMs(baseMs) - nowMs;
  }

  #newReasonsLeftMs(reasons: readonly NodeReason[], nowMs: number): number {
    if (isSameReasons(reasons, this.#published)) {
      this.#othersSinceMs = undefined;
      return Number.POSITIVE_INFINITY;
    }
    this.#othersSinceMs ??= nowMs;
    const settledMs = this.#othersSinceMs + newReasonsAfterMs;
    return Math.max(settledMs, this.#beganMs + this.#newReasons.delayMs(newReasonsAfterMs)) - nowMs;
  }

  /** A whole period went by without it. */
  #forget(repairMs: number, newReasonsMs: number): void {
    if (repairMs === Number.POSITIVE_INFINITY) this.#repairs.forget();
    if (newReasonsMs === Number.POSITIVE_INFINITY) this.#newReasons.forget();
  }

  /** What the wall clock showed when the monotonic one began. */
  #wallStartMs(): number {
    const { clock } = this.#deps;
    return clock.now().getTime() - clock.monotonicMs();
  }
}
