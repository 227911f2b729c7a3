import { type Clock, sleep } from '../base/index.ts';
import { type Continuation, continuation, type JoinedPast } from './past.ts';

/** QEMU logs a byte after it has sent it. */
const loggedAfterMs = 20;
/** A guest that writes the same again and again looks alike for ever. */
const maxTries = 8;
/** A guest that says more waits. */
const maxHeardBytes = 1_048_576;

/** Holds what a console says first until it is known where in its log that begins. */
export class PastMeeting {
  readonly #past: JoinedPast;
  readonly #clock: Clock;
  readonly #heard: Buffer[] = [];
  #size = 0;
  #met: Promise<Continuation> | undefined;

  constructor(past: JoinedPast, clock: Clock) {
    this.#past = past;
    this.#clock = clock;
  }

  get hasBegun(): boolean {
    return this.#met !== undefined;
  }

  get isFull(): boolean {
    return this.#size > maxHeardBytes;
  }

  /** True: it is the first one, and the meeting has begun. */
  add(chunk: Buffer): boolean {
    this.#heard.push(chunk);
    this.#size += chunk.length;
    if (this.#met) return false;
    this.#met = this.#meet(chunk.length);
    return true;
  }

  /** All that was added meanwhile, as it follows what is shown of the past. */
  async met(): Promise<Continuation> {
    return this.#met ?? { bytes: Buffer.alloc(0), repeated: 0, isCertain: true };
  }

  async #meet(first: number): Promise<Continuation> {
    for (let [tries, logged] = [0, first]; ; tries++) {
      await sleep(loggedAfterMs, undefined, this.#clock);
      // What comes while the log is read may be in it, or not.
      const heard = Buffer.concat(this.#heard);
      const log = await this.#past.readAgain();
      const found = continuation(this.#past, log, { bytes: heard, logged });
      if (found.isCertain || tries >= maxTries || this.isFull) return this.#withLater(found, heard.length);
      logged = heard.length;
    }
  }

  #withLater({ bytes, repeated, isCertain }: Continuation, heard: number): Continuation {
    const later = Buffer.concat(this.#heard).subarray(heard);
    const left = Math.max(0, repeated - later.length);
    return { bytes: Buffer.concat([bytes, later.subarray(repeated)]), repeated: left, isCertain };
  }
}
