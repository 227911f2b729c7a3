/** One at a time per key, in the order of asking. A key without a caller that waits takes no memory. */
export class KeyLock {
  readonly #tails = new Map<string, Promise<void>>();

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key);
    let release: () => void = () => undefined;
    const mine = new Promise<void>((resolve) => {
      release = resolve;
    });
    this.#tails.set(key, mine);
    try {
      await before;
      return await work();
    } finally {
      if (this.#tails.get(key) === mine) this.#tails.delete(key);
      release();
    }
  }
}
