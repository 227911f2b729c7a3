import { isObject } from '../object.ts';

/** Compares JSON values as long as it has looked at no more than a number of them. */
export class CompareBudget {
  readonly #most: number;
  #left: number;

  constructor(most: number) {
    this.#most = most;
    this.#left = most;
  }

  /** Equality of JSON data; the order of members does not matter. Throws when the budget is used up. */
  isSame(a: unknown, b: unknown): boolean {
    this.#spend(1);
    if (a === b) return true;
    if (Array.isArray(a) && Array.isArray(b)) {
      return a.length === b.length && a.every((item, index) => this.isSame(item, b[index]));
    }
    if (!isObject(a) || !isObject(b)) return false;
    const [names, others] = [Object.keys(a), Object.keys(b)];
    this.#spend(names.length + others.length);
    if (names.length !== others.length) return false;
    return names.every((name) => Object.hasOwn(b, name) && this.isSame(a[name], b[name]));
  }

  #spend(count: number): void {
    this.#left -= count;
    if (this.#left < 0) throw new Error(`the tests of one patch may look at ${this.#most} values at most`);
  }
}
