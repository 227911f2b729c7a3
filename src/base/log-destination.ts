import { writeSync } from 'node:fs';
import { errorCode } from './errors.ts';

export interface LostLines {
  readonly count: number;
  /** Milliseconds since the epoch. */
  readonly firstMs: number;
  /** The system's code (`ENOSPC`) of the last one. */
  readonly reason: string;
}

/** How long the first line waits for a reader of a socket or pipe that is full, and how often it looks. */
const readerWait = { tries: 100, pauseMs: 10 } as const;
const lineFeed = 0x0a;

/**
 * Where a logger's lines go: each is written before the call returns. What cannot be written (a full disk, a reader that is gone) is lost and
 * counted, never kept in memory, and never a reason to end the program; the first line that can be written again comes after one that
 * tells of the loss.
 */
export class LogDestination {
  readonly #fd: number;
  readonly #tell: (lost: LostLines) => string;
  readonly #pause = new Int32Array(new SharedArrayBuffer(4));
  #lost: LostLines | undefined;
  /** The disk became full in the middle of a line. */
  #isTorn = false;

  /** `tell` makes the line that tells of a loss, its line feed included. */
  constructor(fd: number, tell: (lost: LostLines) => string) {
    this.#fd = fd;
    this.#tell = tell;
  }

  /** A line with its line feed. */
  write(line: string): void {
    if (this.#lost && this.#put(this.#tell(this.#lost)) === undefined) this.#lost = undefined;
    const reason = this.#put(line, this.#lost === undefined);
    if (reason === undefined) return;
    const { count, firstMs } = this.#lost ?? { count: 0, firstMs: Date.now() };
    this.#lost = { count: count + 1, firstMs, reason };
  }

  /** The system's code when not all of it could be written. */
  #put(text: string, mayWait = false): string | undefined {
    let left = Buffer.from(this.#isTorn ? `\n${text}` : text);
    for (let tries = 0; ; ) {
      try {
        const written = writeSync(this.#fd, left);
        if (written > 0) this.#isTorn = left[written - 1] !== lineFeed;
        left = left.subarray(written);
        if (left.length === 0) return undefined;
      } catch (error) {
        const code = errorCode(error) ?? 'unknown';
        if (code === 'EINTR') continue;
        if (code !== 'EAGAIN' || !mayWait || tries++ >= readerWait.tries) return code;
        Atomics.wait(this.#pause, 0, 0, readerWait.pauseMs);
      }
    }
  }
}
