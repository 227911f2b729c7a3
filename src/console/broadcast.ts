import type { Socket } from 'node:net';
import type { Clock } from '../base/index.ts';
import { type SessionEnd, sessionEnd } from './close.ts';
import { onGuestEnd } from './guest-connection.ts';
import { mayNotTake } from './notices.ts';
import type { JoinedPast } from './past.ts';
import { PastMeeting } from './past-meeting.ts';
import { Scrollback } from './scrollback.ts';
import type { Session, SessionOwner } from './session.ts';
import { type Access, isView, type ResumePoint } from './stream-request.ts';
import { Subscriber, type SubscriberOptions } from './subscriber.ts';

/** Clients are notified of the number of viewers at most this often. */
const viewersPauseMs = 200;

export interface BroadcastOptions extends Pick<SubscriberOptions, 'behindBytes' | 'behindMs'> {
  /** The line that clients know it by: of its `past`, or a name that no other broadcast has. */
  readonly id: string;
  readonly scrollbackBytes: number;
  /** The broadcast stays open so long after the last session that could resume. */
  readonly lingerMs: number;
}

export interface BroadcastDeps {
  readonly guest: Socket;
  /** What the guest wrote before; undefined: that is not known. */
  readonly past?: JoinedPast | undefined;
  readonly clock: Clock;
  /** Called once, after its sessions have ended. */
  readonly onClosed: () => void;
}

/**
 * The one connection to a guest's serial console (QEMU serves one client) and the sessions that share it: at most one writer,
 * whose pace the guest follows, and viewers, which must keep up by themselves.
 */
export class Broadcast {
  readonly #options: BroadcastOptions;
  readonly #guest: Socket;
  readonly #clock: Clock;
  readonly #onClosed: () => void;
  readonly #scrollback: Scrollback;
  /** Until what comes is known to follow what is shown of the past. */
  #meeting: PastMeeting | undefined;
  /** So many of the next bytes are shown already. */
  #repeated = 0;
  readonly #subscribers = new Set<Subscriber>();
  #writer: Subscriber | undefined;
  #held = 0;
  /** Nothing is read before there is a session: what a guest says first is not lost to a client without notices. */
  #hasBegun = false;
  #resumableUntilMs = 0;
  #cancelLinger: (() => void) | undefined;
  #cancelAnnounce: (() => void) | undefined;
  #end: SessionEnd | undefined;

  constructor(options: BroadcastOptions, { guest, past, clock, onClosed }: BroadcastDeps) {
    this.#options = options;
    this.#guest = guest;
    this.#clock = clock;
    this.#onClosed = onClosed;
    this.#scrollback = new Scrollback(options.scrollbackBytes, past && past.end - past.bytes.length);
    if (past) this.#scrollback.append(past.bytes);
    if (past) this.#meeting = new PastMeeting(past, clock);
    guest.pause();
    guest.on('data', (chunk: Buffer) => this.#onData(chunk));
    guest.on('drain', () => this.#writer?.session.resumeInput());
    onGuestEnd(guest, 'console', (end) => void this.#guestEnded(end));
  }

  get hasWriter(): boolean {
    return this.#writer !== undefined;
  }

  get isOpen(): boolean {
    return this.#end === undefined;
  }

  /** Keeps the broadcast open for a session that is about to join; `release` ends it. */
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
    const { id: broadcastId, behindBytes, behindMs } = this.#options;
    const subscriber = new Subscriber(
      session,
      { broadcastId, resume, behindBytes, behindMs },
      {
        scrollback: this.#scrollback,
        clock: this.#clock,
      },
    );
    this.#subscribers.add(subscriber);
    if (!isView(access)) this.#makeWriter(subscriber);
    session.join(this.#ownerOf(subscriber, access));
  }

  /** Ends all sessions, and the connection to the guest. */
  close(end: SessionEnd): void {
    if (this.#end) return;
    this.#end = end;
    for (const { session } of this.#subscribers) session.end(end);
    this.#cancelLinger?.();
    this.#cancelAnnounce?.();
    this.#guest.destroy();
    this.#onClosed();
  }

  #ownerOf(subscriber: Subscriber, access: Access): SessionOwner {
    return {
      started: () => {
        this.#hasBegun = true;
        subscriber.begin();
        this.#announceViewers();
        this.#pace();
      },
      input: (pieces) => {
        if (subscriber === this.#writer) this.#write(pieces, subscriber.session);
      },
      command: () => {
        if (access !== 'view-only') this.#take(subscriber);
        else subscriber.session.notify({ kind: 'role', role: 'viewer', reason: mayNotTake });
      },
      drained: () => {
        subscriber.catchUp();
        this.#pace();
      },
      left: () => this.#leave(subscriber),
    };
  }

  #onData(chunk: Buffer): void {
    if (this.#meeting) void this.#meet(this.#meeting, chunk);
    else this.#publish(chunk);
    this.#pace();
  }

  async #meet(meeting: PastMeeting, chunk: Buffer): Promise<void> {
    if (!meeting.add(chunk)) return;
    const { bytes, repeated } = await meeting.met();
    this.#meeting = undefined;
    if (this.#end) return;
    this.#repeated = repeated;
    if (bytes.length > 0) this.#publish(bytes);
    this.#pace();
  }

  /** What it said last is shown before. */
  async #guestEnded(end: SessionEnd): Promise<void> {
    if (this.#meeting?.hasBegun) await this.#meeting.met();
    this.close(end);
  }

  #publish(received: Buffer): void {
    const chunk = received.subarray(this.#repeated);
    this.#repeated -= received.length - chunk.length;
    if (chunk.length === 0) return;
    const at = this.#scrollback.end;
    this.#scrollback.append(chunk);
    for (const subscriber of this.#subscribers) subscriber.offer(chunk, at);
  }

  #write(pieces: readonly Buffer[], session: Session): void {
    for (const piece of pieces) this.#guest.write(piece);
    if (this.#guest.writableNeedDrain) session.pauseInput();
  }

  /** The guest waits for the writer only. */
  #pace(): void {
    if (!this.#hasBegun || this.#meeting?.isFull || this.#writer?.session.isFull) this.#guest.pause();
    else if (this.#guest.isPaused()) this.#guest.resume();
  }

  #take(subscriber: Subscriber): void {
    if (subscriber === this.#writer) return;
    this.#makeWriter(subscriber);
    subscriber.session.notify({ kind: 'role', role: 'writer', reason: 'you have taken over the console' });
    this.#announceViewers();
    this.#pace();
  }

  #makeWriter(subscriber: Subscriber): void {
    const old = this.#writer;
    this.#writer = subscriber;
    subscriber.become('writer');
    if (!old) return;
    old.become('viewer');
    old.session.resumeInput();
    const reason = 'another session has taken over the console';
    if (old.session.isAware) old.session.notify({ kind: 'role', role: 'viewer', reason });
    else old.session.end(sessionEnd('takenOver', reason));
  }

  #leave(subscriber: Subscriber): void {
    subscriber.leave();
    this.#subscribers.delete(subscriber);
    if (this.#writer === subscriber) this.#writer = undefined;
    if (this.#end) return;
    if (subscriber.session.isAware) this.#resumableUntilMs = this.#clock.monotonicMs() + this.#options.lingerMs;
    this.#announceViewers();
    this.#pace();
    this.#closeUnlessNeeded();
  }

  #closeUnlessNeeded(): void {
    this.#cancelLinger?.();
    if (this.#end || this.#held > 0 || this.#subscribers.size > 0) return;
    const leftMs = this.#resumableUntilMs - this.#clock.monotonicMs();
    const close = () => this.close(sessionEnd('leaving', 'nobody uses this console'));
    if (leftMs > 0) this.#cancelLinger = this.#clock.schedule(leftMs, close);
    else close();
  }

  #announceViewers(): void {
    if (this.#cancelAnnounce) return;
    this.#cancelAnnounce = this.#clock.schedule(viewersPauseMs, () => {
      this.#cancelAnnounce = undefined;
      const count = this.#subscribers.size - (this.#writer ? 1 : 0);
      for (const { session } of this.#subscribers) session.notify({ kind: 'viewers', count });
    });
  }
}
