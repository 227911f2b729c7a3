import { RestError } from './errors.ts';

/**
 * Calls under way, per VMI UID: a launcher that hangs keeps its own callers waiting and no others, and they cannot pile up.
 */
export class CallGate {
  readonly #perVmi: number;
  readonly #calls = new Map<string, number>();

  constructor(perVmi: number) {
    this.#perVmi = perVmi;
  }

  get size(): number {
    return [...this.#calls.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Rejects with RestError BUSY at once when there are too many. */
  async run<T>(uid: string, call: () => Promise<T>): Promise<T> {
    const count = this.#calls.get(uid) ?? 0;
    if (count >= this.#perVmi) {
      const text = `${count} calls of this VirtualMachineInstance are under way: its launcher does not answer, try again later`;
      throw new RestError('BUSY', text, { headers: { 'Retry-After': '5' } });
    }
    this.#calls.set(uid, count + 1);
    try {
      return await call();
    } finally {
      const left = (this.#calls.get(uid) ?? 1) - 1;
      if (left > 0) this.#calls.set(uid, left);
      else this.#calls.delete(uid);
    }
  }
}
