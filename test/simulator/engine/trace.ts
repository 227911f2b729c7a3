const keptLines = 60;

/** What happened, in order: a hash of all of it and the last lines in words. */
export class Trace {
  #low = 0x811c9dc5;
  #high = 0x1234567;
  #lines: string[] = [];
  #steps = 0;
  readonly #onLine: ((line: string) => void) | undefined;

  constructor(onLine?: (line: string) => void) {
    this.#onLine = onLine;
  }

  get steps(): number {
    return this.#steps;
  }

  /** Equal hashes: equal runs. */
  get hash(): string {
    return ((this.#high >>> 0) * 2 ** 21 + (this.#low >>> 11)).toString(36);
  }

  get lines(): readonly string[] {
    return this.#lines;
  }

  /** One step of the scheduler. */
  step(nowMs: number, label: string): void {
    this.#steps++;
    this.#line(nowMs, label);
  }

  /** Something that a step did. */
  note(nowMs: number, text: string): void {
    this.#line(nowMs, `    ${text}`);
  }

  #line(nowMs: number, text: string): void {
    const line = `${((nowMs - 1_000_000) / 1000).toFixed(4)} ${text}`;
    for (let at = 0; at < line.length; at++) {
      this.#low = Math.imul(this.#low ^ line.charCodeAt(at), 0x01000193);
      this.#high = Math.imul(this.#high + this.#low, 0x85ebca6b) ^ (this.#low >>> 15);
    }
    this.#lines.push(line);
    if (this.#lines.length > keptLines * 2) this.#lines = this.#lines.slice(-keptLines);
    this.#onLine?.(line);
  }
}
