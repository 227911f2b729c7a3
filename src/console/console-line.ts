import type { Socket } from 'node:net';
import type { Clock } from '../base/index.ts';
import { type SessionEnd, sessionEnd } from './close.ts';
import { onGuestEnd } from './guest.ts';
import { Scrollback } from './scrollback.ts';
import { Seat, type SeatOptions } from './seat.ts';
import type { Session, SessionOwner } from './session.ts';
import type { Access, ResumePoint } from './stream-request.ts';

/** Changes of the number of viewers are told at most this often. */
const viewersPauseMs = 200;

export interface ConsoleLineOptions extends Pick<SeatOptions, 'behindBytes' | 'behindMs'> {
  /** A name that no other line has. */
  readonly id: string;
  readonly scrollbackBytes: number;
  /** The line stays open so long after the last session that could resume. */
  readonly lingerMs: number;
}

export interface ConsoleLineDeps {
  readonly guest: Socket;
  readonly clock: Clock;
  /** Called once, after its sessions have been told. */
  readonly onClosed: () => void;
}

/**
 * The one connection to a guest's serial console (QEMU serves one client) and all who share it: at most one writer, whose pace
 * the guest follows, and viewers, who must keep up by themselves.
 */
export class ConsoleLine {
  readonly #options: ConsoleLineOptions;
  readonly #guest: Socket;
  readonly #clock: Clock;
  readonly #onClosed: () => void;
  readonly #scrollback: Scrollback;
  readonly #seats = new Set<Seat>();
  #writer: Seat | undefined;
  #held = 0;
  /** Nothing is read before somebody is there: what a guest says first is not lost to a client without notices. */
  #hasBegun = false;
  #resumableUntilMs = 0;
  #cancelLinger: (() => void) | undefined;
  #cancelAnnounce: (() => void) | undefined;
  #end: SessionEnd | undefined;

  constructor(options: ConsoleLineOptions, { guest, clock, onClosed }: ConsoleLineDeps) {
    this.#options = options;
    this.#guest = guest;
    this.#clock = clock;
    this.#onClosed = onClosed;
    this.#scrollback = new Scrollback(options.scrollbackBytes);
    guest.pause();
    guest.on('data', (chunk: Buffer) => this.#onData(chunk));
    guest.on('drain', () => this.#writer?.session.resumeInput());
    onGuestEnd(guest, 'console', (end) => this.close(end));
  }

  get hasWriter(): boolean {
    return this.#writer !== undefined;
  }

  get isOpen(): boolean {
    return this.#end === undefined;
  }

  /** Keeps the line open for somebody who is about to join; `release` ends it. */
  hold(): void {
    this.#held++;
  }

  release(): void {
    this.#held--;
    this.#closeUnlessNeeded();
  }

  join(session: Session, access: Access, resume?: ResumePoint): void {
    if (this.#end) {
      session.end(this.#end);
      return;
    }
    const { id: line, behindBytes, behindMs } = this.#options;
    const seat = new Seat(
      session,
      { line, resume, behindBytes, behindMs },
      {
        scrollback: this.#scrollback,
        clock: this.#clock,
      },
    );
    this.#seats.add(seat);
    if (access !== 'view') this.#seatWriter(seat);
    session.join(this.#ownerOf(seat));
  }

  /** Ends all sessions, and the connection to the guest. */
  close(end: SessionEnd): void {
    if (this.#end) return;
    this.#end = end;
    for (const { session } of this.#seats) session.end(end);
    this.#cancelLinger?.();
    this.#cancelAnnounce?.();
    this.#guest.destroy();
    this.#onClosed();
  }

  #ownerOf(seat: Seat): SessionOwner {
    return {
      started: () => {
        this.#hasBegun = true;
        seat.begin();
        this.#announceViewers();
        this.#pace();
      },
      input: (pieces) => {
        if (seat === this.#writer) this.#write(pieces, seat.session);
      },
      command: () => this.#take(seat),
      drained: () => {
        seat.catchUp();
        this.#pace();
      },
      left: () => this.#leave(seat),
    };
  }

  #onData(chunk: Buffer): void {
    const at = this.#scrollback.end;
    this.#scrollback.append(chunk);
    for (const seat of this.#seats) seat.offer(chunk, at);
    this.#pace();
  }

  #write(pieces: readonly Buffer[], session: Session): void {
    for (const piece of pieces) this.#guest.write(piece);
    if (this.#guest.writableNeedDrain) session.pauseInput();
  }

  /** The guest waits for the writer, and for nobody else. */
  #pace(): void {
    if (!this.#hasBegun || this.#writer?.session.isFull) this.#guest.pause();
    else if (this.#guest.isPaused()) this.#guest.resume();
  }

  #take(seat: Seat): void {
    if (seat === this.#writer) return;
    this.#seatWriter(seat);
    seat.session.notify({ kind: 'role', role: 'writer', reason: 'you have taken over the console' });
    this.#announceViewers();
    this.#pace();
  }

  #seatWriter(seat: Seat): void {
    const old = this.#writer;
    this.#writer = seat;
    seat.become('writer');
    if (!old) return;
    old.become('viewer');
    old.session.resumeInput();
    const reason = 'another session has taken over the console';
    if (old.session.isAware) old.session.notify({ kind: 'role', role: 'viewer', reason });
    else old.session.end(sessionEnd('takenOver', reason));
  }

  #leave(seat: Seat): void {
    seat.leave();
    this.#seats.delete(seat);
    if (this.#writer === seat) this.#writer = undefined;
    if (this.#end) return;
    if (seat.session.isAware) this.#resumableUntilMs = this.#clock.monotonicMs() + this.#options.lingerMs;
    this.#announceViewers();
    this.#pace();
    this.#closeUnlessNeeded();
  }

  #closeUnlessNeeded(): void {
    this.#cancelLinger?.();
    if (this.#end || this.#held > 0 || this.#seats.size > 0) return;
    const leftMs = this.#resumableUntilMs - this.#clock.monotonicMs();
    const close = () => this.close(sessionEnd('leaving', 'nobody uses this console'));
    if (leftMs > 0) this.#cancelLinger = this.#clock.schedule(leftMs, close);
    else close();
  }

  #announceViewers(): void {
    if (this.#cancelAnnounce) return;
    this.#cancelAnnounce = this.#clock.schedule(viewersPauseMs, () => {
      this.#cancelAnnounce = undefined;
      const count = this.#seats.size - (this.#writer ? 1 : 0);
      for (const { session } of this.#seats) session.notify({ kind: 'viewers', count });
    });
  }
}
