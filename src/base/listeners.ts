export interface ListenersOptions {
  /** Hears of a listener that threw; the others are called. Without it `notify` throws, and those after it are not called. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Functions that are called when something happens, in the order in which they were added. Each `add` is a subscription of its
 * own, even of the same function. Listeners may add and remove listeners: one that was removed is not called any more, one
 * that was added is called from the next time on.
 */
export class Listeners<Args extends readonly unknown[] = []> {
  readonly #onError: ((error: unknown) => void) | undefined;
  readonly #subscriptions = new Set<{ readonly listener: (...args: Args) => void }>();

  constructor({ onError }: ListenersOptions = {}) {
    this.#onError = onError;
  }

  get size(): number {
    return this.#subscriptions.size;
  }

  /** The returned function ends the subscription. */
  add(listener: (...args: Args) => void): () => void {
    const subscription = { listener };
    this.#subscriptions.add(subscription);
    return () => {
      this.#subscriptions.delete(subscription);
    };
  }

  notify(...args: Args): void {
    for (const subscription of [...this.#subscriptions]) {
      if (!this.#subscriptions.has(subscription)) continue;
      try {
        subscription.listener(...args);
      } catch (error) {
        if (!this.#onError) throw error;
        this.#onError(error);
      }
    }
  }

  /** Ends all subscriptions. */
  clear(): void {
    this.#subscriptions.clear();
  }
}
