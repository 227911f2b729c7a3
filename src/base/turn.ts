/** Work that must not be done twice at a time: each piece begins when those before it have ended, well or not. */
export class Turn {
  #last: Promise<unknown> = Promise.resolve();

  /** Settles as `work` does. */
  take<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
