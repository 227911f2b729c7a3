import { Listeners } from '../base/index.ts';

/** Something read from outside that may be missing yet and may change: a key pair, a bundle of authorities, a setting. */
export interface ChangingValue<T> {
  /** Undefined: not there yet. The last good one stays when what came later cannot be used. */
  readonly current: T | undefined;
  /** Called after each change; the returned function ends it. */
  onChange(listener: () => void): () => void;
}

/** A value that its owner sets. Listeners hear of different values only, in the order in which they came. */
export class SettableValue<T> implements ChangingValue<T> {
  readonly #listeners = new Listeners();
  readonly #isSame: (a: T, b: T) => boolean;
  #current: T | undefined;

  constructor(first?: T, isSame: (a: T, b: T) => boolean = Object.is) {
    this.#current = first;
    this.#isSame = isSame;
  }

  get current(): T | undefined {
    return this.#current;
  }

  set(next: T): void {
    if (this.#current !== undefined && this.#isSame(this.#current, next)) return;
    this.#current = next;
    this.#listeners.notify();
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }
}
