import type { Clock } from '../../../base/index.ts';
import type { NodeProblem } from '../ports.ts';

export interface ReadinessOptions {
  /** A problem that ends before this keeps no VMI away. */
  readonly badAfterMs: number;
  /** So long nothing must have been wrong before VMIs come again; twice as long each time the node turns bad again. */
  readonly goodAfterMs: number;
  readonly goodAtMostMs: number;
  /** A node that was ready for so long counts as one that never was bad. */
  readonly forgetAfterMs: number;
}

/** `againInMs`: it may be another one then, even if nothing changes; absent: only a change can make it so. */
export type NodeReadiness =
  | { readonly isReady: true; readonly againInMs?: number }
  | {
      readonly isReady: false;
      readonly problems: readonly NodeProblem[];
      readonly againInMs?: number;
      /** What is wrong may be only that the agent has just begun. */
      readonly isStarting?: boolean;
    };

/**
 * Whether the node takes VMIs, with hysteresis: a problem of a moment does not flip the label, and neither does a moment without
 * one. At the start, when no "yes" was published yet, any problem counts at once, and its end as well.
 */
export class Readiness {
  readonly #options: ReadinessOptions;
  readonly #problems: () => readonly NodeProblem[];
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  #state:
    | { readonly kind: 'starting'; readonly sinceMs: number | undefined }
    | { readonly kind: 'ready'; readonly sinceMs: number }
    | { readonly kind: 'notReady'; readonly last: readonly NodeProblem[]; readonly clearSinceMs?: number } = {
    kind: 'starting',
    sinceMs: undefined,
  };
  #turnedBad = 0;

  constructor(
    options: ReadinessOptions,
    deps: { readonly problems: () => readonly NodeProblem[]; readonly clock: Pick<Clock, 'monotonicMs'> },
  ) {
    this.#options = options;
    this.#problems = deps.problems;
    this.#clock = deps.clock;
  }

  judge(): NodeReadiness {
    const problems = this.#problems();
    const nowMs = this.#clock.monotonicMs();
    switch (this.#state.kind) {
      case 'starting':
        return this.#whileStarting(this.#state.sinceMs ?? nowMs, problems, nowMs);
      case 'ready':
        return this.#whileReady(this.#state.sinceMs, problems, nowMs);
      case 'notReady':
        return this.#whileNotReady(this.#state.last, this.#state.clearSinceMs, problems, nowMs);
      default:
        return this.#state satisfies never;
    }
  }

  #whileStarting(sinceMs: number, problems: readonly NodeProblem[], nowMs: number): NodeReadiness {
    const againInMs = sinceMs + this.#options.badAfterMs - nowMs;
    if (problems.length === 0) this.#state = { kind: 'ready', sinceMs: nowMs };
    else if (againInMs > 0) this.#state = { kind: 'starting', sinceMs };
    else this.#state = { kind: 'notReady', last: problems };
    if (problems.length === 0) return { isReady: true };
    return againInMs > 0 ? { isReady: false, problems, againInMs, isStarting: true } : { isReady: false, problems };
  }

  #whileReady(sinceMs: number, problems: readonly NodeProblem[], nowMs: number): NodeReadiness {
    const leftMs = ({ sinceMs }: NodeProblem) => sinceMs + this.#options.badAfterMs - nowMs;
    const lasting = problems.filter((problem) => leftMs(problem) <= 0);
    if (lasting.length > 0) {
      this.#turnedBad = nowMs - sinceMs >= this.#options.forgetAfterMs ? 1 : this.#turnedBad + 1;
      this.#state = { kind: 'notReady', last: lasting };
      return { isReady: false, problems: lasting };
    }
    if (problems.length === 0) return { isReady: true };
    return { isReady: true, againInMs: Math.min(...problems.map(leftMs)) };
  }

  #whileNotReady(
    last: readonly NodeProblem[],
    clearSinceMs: number | undefined,
    problems: readonly NodeProblem[],
    nowMs: number,
  ): NodeReadiness {
    if (problems.length > 0) {
      this.#state = { kind: 'notReady', last: problems };
      return { isReady: false, problems };
    }
    const sinceMs = clearSinceMs ?? nowMs;
    const againInMs = sinceMs + this.#goodAfterMs() - nowMs;
    if (againInMs <= 0) {
      this.#state = { kind: 'ready', sinceMs: nowMs };
      return { isReady: true };
    }
    this.#state = { kind: 'notReady', last, clearSinceMs: sinceMs };
    return { isReady: false, problems: last, againInMs };
  }
  #goodAfterMs(): number {
    const { goodAfterMs, goodAtMostMs } = this.#options;
    return Math.min(goodAtMostMs, goodAfterMs * 2 ** Math.max(0, this.#turnedBad - 1));
  }
}
