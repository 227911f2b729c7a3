import type { Socket } from 'node:net';
import { errorCode } from '../base/index.ts';
import { type SessionEnd, sessionEnd } from './close.ts';
import type { StreamKind } from './stream-request.ts';

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
