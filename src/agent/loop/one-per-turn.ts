/**
 * Lets one in per turn of the event loop, in the order in which they came: a hundred that come at once would each do their first
 * step, then each their second, and all be done at the very end. Those who are inside go on in between, and while they wait for
 * others, turns are short: nobody who hangs keeps anybody out.
 */
export class OnePerTurn {
  readonly #nextTurn: (callback: () => void) => void;
  readonly #waiting: (() => void)[] = [];
  #isArmed = false;

  constructor(nextTurn: (callback: () => void) => void = setImmediate) {
    this.#nextTurn = nextTurn;
  }

  /** Resolves when it is one's turn: at once for the first one in a turn. */
  async enter(): Promise<void> {
    if (!this.#isArmed) this.#arm();
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #arm(): void {
    this.#isArmed = true;
    this.#nextTurn(() => {
      this.#isArmed = false;
      const next = this.#waiting.shift();
      if (!next) return;
      this.#arm();
      next();
    });
  }
}
