import type { Socket } from 'node:net';
import { type Clock, errorCode, errorMessage, withDeadline } from '../base/index.ts';
import type { PlainAnswer } from '../http/index.ts';
import { type SessionEnd, sessionEnd } from './close.ts';
import { type StreamKind, StreamRefusal, type StreamRequest } from './stream-request.ts';

export const closedMeanwhile: PlainAnswer = {
  httpStatus: 502,
  message: 'the virtual machine closed the connection',
};

/** Connects to guests within a time limit, and gives up on all of a VMI, or on all, when asked to. */
export class GuestConnector {
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #waiting = new Map<AbortController, string>();

  constructor(timeoutMs: number, clock: Clock) {
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /** Gives a socket that has not ended. Rejects with what `stream.open` rejects with, or with a DOMException `TimeoutError`, or with the reason of `giveUp`. */
  async connect(stream: StreamRequest): Promise<Socket> {
    const waiting = new AbortController();
    this.#waiting.set(waiting, stream.uid);
    try {
      const limits = { timeoutMs: this.#timeoutMs, signal: waiting.signal, clock: this.#clock };
      const guest = await withDeadline(limits, (signal) => unlessAborted(stream.open(signal), signal));
      // It was connected, and had no listener yet when it closed: no event of it follows any more.
      if (guest.destroyed || guest.readableEnded) throw new Error(closedMeanwhile.message);
      return guest;
    } finally {
      this.#waiting.delete(waiting);
    }
  }

  giveUp(reason: StreamRefusal, uid?: string): void {
    for (const [waiting, ofUid] of this.#waiting) if (uid === undefined || uid === ofUid) waiting.abort(reason);
  }
}

/** What a client is answered when there is no connection to the guest. */
export function answerOf(error: unknown): PlainAnswer {
  if (error instanceof StreamRefusal) return { httpStatus: error.httpStatus, message: error.message };
  if (error instanceof DOMException && error.name === 'TimeoutError') {
    return { httpStatus: 504, message: 'the virtual machine did not answer in time' };
  }
  return { httpStatus: 502, message: errorMessage(error) };
}

/** Does not wait for an `open` that does not look at the signal; a socket that comes too late is closed. */
function unlessAborted(opening: Promise<Socket>, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    opening.then(
      (socket) => {
        signal.removeEventListener('abort', onAbort);
        if (signal.aborted) socket.on('error', () => undefined).destroy();
        resolve(socket);
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort);
        reject(error);
      },
    );
    if (signal.aborted) onAbort();
  });
}

const names: Readonly<Record<StreamKind, string>> = {
  console: 'console',
  vnc: 'screen',
  usbredir: 'USB redirection',
};

/** What Linux says when the other end is gone and has left something unread. */
const endedByGuest: readonly string[] = ['ECONNRESET', 'EPIPE'];

/** Calls back whenever the guest's end is found to be over, maybe more than once; all it sent was given out before, if it was read. */
export function onGuestEnd(guest: Socket, kind: StreamKind, ended: (end: SessionEnd) => void): void {
  const closed = sessionEnd('guestClosed', `the virtual machine closed its ${names[kind]}`);
  guest.on('end', () => ended(closed));
  guest.on('error', (error) => {
    if (endedByGuest.includes(errorCode(error) ?? '')) ended(closed);
    else
      ended(sessionEnd('internal', `the connection to the virtual machine's ${names[kind]} failed: ${error.message}`));
  });
  guest.on('close', () => ended(closed));
}
