import type { Clock } from '../base/index.ts';
import { sessionEnd } from './close.ts';
import type { Role } from './notices.ts';
import type { Scrollback } from './scrollback.ts';
import type { Session } from './session.ts';
import type { ResumePoint } from './stream-request.ts';

/** Most bytes that one message brings from the past. */
const pieceBytes = 65_536;

export interface SubscriberOptions {
  /** Of the broadcast; clients know it as their `line`. */
  readonly broadcastId: string;
  readonly resume: ResumePoint | undefined;
  /** A viewer that is further behind than this … */
  readonly behindBytes: number;
  /** … for longer than this is sent away. */
  readonly behindMs: number;
}

/**
 * A session of a broadcast, and the offset up to which it was sent the bytes. New bytes are handed on without a copy to
 * subscribers that have all before them; the others get them from the scrollback when they can take more.
 */
export class Subscriber {
  readonly session: Session;
  readonly #options: SubscriberOptions;
  readonly #scrollback: Scrollback;
  readonly #clock: Clock;
  #offset: number;
  #hasBegun = false;
  #cancelPatience: (() => void) | undefined;

  constructor(session: Session, options: SubscriberOptions, deps: { scrollback: Scrollback; clock: Clock }) {
    this.session = session;
    this.#options = options;
    this.#scrollback = deps.scrollback;
    this.#clock = deps.clock;
    this.#offset = deps.scrollback.end;
    this.become('viewer');
  }

  /** Notifies an aware client of its offset and sends what it has missed; other clients begin with what comes next. */
  begin(): void {
    const { start, end } = this.#scrollback;
    const { resume, broadcastId } = this.#options;
    const canResume = resume?.line === broadcastId && resume.from <= end;
    const from = canResume ? resume.from : start;
    this.#offset = this.session.isAware ? Math.max(from, start) : end;
    this.#hasBegun = true;
    this.#notifyOffset(this.#offset - from);
    this.catchUp();
  }

  /** `chunk` was just appended to the scrollback, `at` is the offset of its first byte. */
  offer(chunk: Buffer, at: number): void {
    if (this.#hasBegun && at === this.#offset && !this.session.isFull) {
      this.#offset += chunk.length;
      this.session.send(chunk);
    }
    this.#watchPatience();
  }

  catchUp(): void {
    const { session } = this;
    while (this.#hasBegun && !session.isFull && !session.hasEnded && this.#offset < this.#scrollback.end) {
      if (this.#offset < this.#scrollback.start && !this.#skip(this.#scrollback.start)) return;
      const piece = this.#scrollback.read(this.#offset, pieceBytes);
      this.#offset += piece.length;
      session.send(piece);
    }
    this.#watchPatience();
  }

  become(role: Role): void {
    this.session.role = role;
    this.session.fullAtBytes = role === 'writer' ? pieceBytes : this.#options.behindBytes;
    this.#watchPatience();
  }

  leave(): void {
    this.#cancelPatience?.();
  }

  /** Over bytes that are no longer known: only a client that can be notified of them goes on. */
  #skip(to: number): boolean {
    const lost = to - this.#offset;
    if (!this.session.isAware) {
      this.session.end(sessionEnd('tooSlow', `too slow: ${lost} bytes of the console are lost`));
      return false;
    }
    this.#offset = to;
    this.#notifyOffset(lost);
    return true;
  }

  #notifyOffset(lost: number): void {
    const { broadcastId: line } = this.#options;
    const replayed = this.#scrollback.end - this.#offset;
    this.session.notify({ kind: 'attached', role: this.session.role, line, offset: this.#offset, replayed, lost });
  }

  /** Of a viewer only: a writer that is behind makes the guest wait. */
  #watchPatience(): void {
    if (!this.#isTooFarBehind()) {
      this.#cancelPatience?.();
      this.#cancelPatience = undefined;
    } else if (this.#cancelPatience === undefined && !this.session.hasEnded) {
      this.#cancelPatience = this.#clock.schedule(this.#options.behindMs, () =>
        this.session.end(sessionEnd('tooSlow', 'too slow: the console was not read for too long')),
      );
    }
  }

  #isTooFarBehind(): boolean {
    if (this.session.role === 'writer' || !this.#hasBegun) return false;
    return this.#scrollback.end - this.#offset + this.session.bufferedBytes > this.#options.behindBytes;
  }
}
