import { sameJson } from '../../base/index.ts';

/** Compares JSON values as long as it has looked at no more than a number of them. */
export class CompareBudget {
  readonly #most: number;
  #left: number;

  constructor(most: number) {
    this.#most = most;
    this.#left = most;
  }

  /** Throws when the budget is used up. */
  isSame(a: unknown, b: unknown): boolean {
    return sameJson(a, b, (values) => this.#spend(values));
  }

  #spend(count: number): void {
    this.#left -= count;
    if (this.#left < 0) throw new Error(`the tests of one patch may look at ${this.#most} values at most`);
  }
}
