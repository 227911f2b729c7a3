import { backoffDelayMs, type Clock } from '../base/index.ts';

const retryBackoff = { baseMs: 500, maxMs: 15_000, jitter: 0.2 };
const soonMs = 1_000;

export interface QuestionTimersDeps {
  readonly clock: Clock;
  readonly random: () => number;
}

/** When a launcher is asked next: after back-off, or soon. */
export class QuestionTimers {
  readonly #deps: QuestionTimersDeps;
  #failures = 0;
  #cancelNext = () => {};
  #soon: { cancel: () => void; again: boolean } | undefined;

  constructor(deps: QuestionTimersDeps) {
    this.#deps = deps;
  }

  /** One more failure: `run` comes after back-off. */
  retryLater(run: () => void): void {
    this.#failures++;
    this.after(backoffDelayMs(this.#failures, { ...retryBackoff, random: this.#deps.random }), run);
  }

  /** In place of a retry that waits. */
  after(ms: number, run: () => void): void {
    this.#cancelNext();
    this.#cancelNext = this.#deps.clock.schedule(ms, run);
  }

  /** It answered, or nothing more is to be asked. */
  settled(): void {
    this.#failures = 0;
    this.#cancelNext();
  }

  /** Runs once, soon, however often it is called; what is called meanwhile runs once more. `run` must not reject. */
  runSoon(run: () => Promise<void>): void {
    if (this.#soon) {
      this.#soon.again = true;
      return;
    }
    const cancel = this.#deps.clock.schedule(soonMs, () => {
      const mine = this.#soon;
      void run().then(() => {
        if (this.#soon !== mine) return;
        this.#soon = undefined;
        if (mine?.again) this.runSoon(run);
      });
    });
    this.#soon = { cancel, again: false };
  }

  /** Forgets what was to come. */
  cancel(): void {
    this.#cancelNext();
    this.#soon?.cancel();
    this.#soon = undefined;
  }
}
