import { backoffDelayMs, type Clock } from '../../../base/index.ts';
import type { Node } from '../ports.ts';
import type { LabelChanges } from './plan.ts';

export interface DroppedLabelsDeps {
  readonly clock: Pick<Clock, 'monotonicMs'>;
  readonly random: () => number;
}

/** A webhook drops labels because it was configured to: a try per hour in the end. */
const backoff = { baseMs: 5_000, maxMs: 3_600_000, jitter: 0.2 };
/** One drop may be of a moment, as while a webhook is being replaced. */
const reportAfterTries = 3;

/**
 * Changes that the API server takes and that are not in the node it answers with: a webhook takes them out again. They are tried
 * ever more seldom, while other changes need not wait.
 */
export class DroppedLabels {
  readonly #deps: DroppedLabelsDeps;
  #changes: LabelChanges = {};
  #uid: string | undefined;
  #tries = 0;
  #nextMs = Number.NEGATIVE_INFINITY;
  #reported = new Set<string>();

  constructor(deps: DroppedLabelsDeps) {
    this.#deps = deps;
  }

  /** Undefined: none is known to be dropped. */
  get nextInMs(): number | undefined {
    if (this.keys.length === 0) return undefined;
    return Math.max(0, this.#nextMs - this.#deps.clock.monotonicMs());
  }

  get keys(): readonly string[] {
    return Object.keys(this.#changes);
  }

  /** Of these, those to be sent now; undefined: none. A node made anew has none that were dropped. */
  due(changes: LabelChanges, { metadata: { uid } }: Node): LabelChanges | undefined {
    if (uid !== this.#uid || this.nextInMs === undefined || this.nextInMs === 0) return changes;
    const fresh = Object.entries(changes).filter(([key, value]) => this.#changes[key] !== value);
    return fresh.length === 0 ? undefined : Object.fromEntries(fresh);
  }

  /** What of a patch, and of earlier ones, the node that was answered lacks. */
  note(sent: LabelChanges, missing: LabelChanges, { metadata: { uid } }: Node): void {
    const { clock, random } = this.#deps;
    const before = uid === this.#uid ? this.#changes : {};
    const wasTry = Object.keys(before).length === 0 || Object.keys(sent).some((key) => key in before);
    this.#uid = uid;
    this.#changes = Object.fromEntries(
      Object.entries(missing).filter(([key, value]) => sent[key] === value || before[key] === value),
    );
    if (this.keys.length === 0) this.#reset();
    else if (wasTry) {
      this.#tries++;
      this.#nextMs = clock.monotonicMs() + backoffDelayMs(this.#tries, { ...backoff, random });
    }
  }

  /** The node has all it should have. */
  forget(): void {
    this.#changes = {};
    this.#reset();
  }

  /** Each label is worth a report once, until the node has all it should have. */
  takeUnreported(): readonly string[] {
    if (this.#tries < reportAfterTries) return [];
    const unreported = this.keys.filter((key) => !this.#reported.has(key));
    this.#reported = new Set([...this.#reported, ...unreported]);
    return unreported;
  }

  #reset(): void {
    this.#tries = 0;
    this.#nextMs = Number.NEGATIVE_INFINITY;
    this.#reported = new Set();
  }
}
