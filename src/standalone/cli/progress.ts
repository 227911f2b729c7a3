import type { Paint } from './style.ts';

export interface ProgressDeps {
  /** Where it is written to, as it is. */
  readonly write: (text: string) => void;
  /** A terminal, on which a line can be written over. */
  readonly isLive: boolean;
  /** Of the terminal; longer lines would wrap, and not be written over. */
  readonly columns: () => number;
  readonly paint: Paint;
  readonly nowMs: () => number;
}

const frames = ['|', '/', '-', '\\'];
const frameMs = 120;
const clearLine = '\r\x1b[K';

/** Lines for a person, and on a terminal one below them that says what is under way, and for how long. */
export class Progress {
  readonly #deps: ProgressDeps;
  #busy: { readonly text: string; readonly sinceMs: number } | undefined;
  #frame = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: ProgressDeps) {
    this.#deps = deps;
  }

  /** A line that stays. */
  line(text: string): void {
    const { write, isLive } = this.#deps;
    write(`${isLive && this.#busy ? clearLine : ''}${text}\n`);
    this.#draw();
  }

  /** What is under way from now on; undefined: nothing. Elsewhere than on a terminal nothing is written. */
  busy(text: string | undefined): void {
    const { isLive, write, nowMs } = this.#deps;
    if (!isLive) return;
    if (text === undefined) {
      if (this.#busy) write(clearLine);
      this.#busy = undefined;
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    this.#busy = { text, sinceMs: this.#busy?.sinceMs ?? nowMs() };
    this.#draw();
    this.#timer ??= setInterval(() => this.#draw(), frameMs);
    this.#timer.unref();
  }

  /** As `busy`, with how much of it is done (0 to 1), where that is known. */
  busyWith(doing: string, share?: number): void {
    this.busy(share === undefined ? doing : `${doing} ${Math.floor(share * 100)} %`);
  }

  /** A step of long work: on a terminal it is written over by the next one, elsewhere it is a line that stays. */
  step(text: string): void {
    if (this.#deps.isLive) this.busy(text);
    else this.line(text);
  }

  #draw(): void {
    if (!this.#busy) return;
    const { write, paint, nowMs, columns } = this.#deps;
    this.#frame = (this.#frame + 1) % frames.length;
    const seconds = ((nowMs() - this.#busy.sinceMs) / 1000).toFixed(0);
    const text = `${frames[this.#frame]} ${this.#busy.text} (${seconds} s)`.slice(0, Math.max(10, columns() - 1));
    write(`${clearLine}${paint(text, 'soft')}`);
  }
}
