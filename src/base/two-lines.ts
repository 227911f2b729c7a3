/** Two lines of those who wait, in each the earlier first: the one behind comes when the other is empty, and to a turn after `turnsInFront` of its turns. */
export class TwoLines<T> {
  readonly front = new Set<T>();
  readonly behind = new Set<T>();
  readonly #turnsInFront: number;
  #takenInFront = 0;

  constructor(turnsInFront: number) {
    this.#turnsInFront = turnsInFront;
  }

  get size(): number {
    return this.front.size + this.behind.size;
  }

  /** Takes out the one whose turn it is. */
  take(): T | undefined {
    const isBehind = this.front.size === 0 || (this.behind.size > 0 && this.#takenInFront >= this.#turnsInFront);
    this.#takenInFront = isBehind ? 0 : this.#takenInFront + 1;
    const line = isBehind ? this.behind : this.front;
    const [first] = line;
    if (first !== undefined) line.delete(first);
    return first;
  }

  clear(): void {
    this.front.clear();
    this.behind.clear();
  }
}
