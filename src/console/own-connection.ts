import type { Socket } from 'node:net';
import { type SessionEnd, sessionEnd } from './close.ts';
import { onGuestEnd } from './guest-connection.ts';
import type { RfbClientStream } from './rfb-client-stream.ts';
import type { Session } from './session.ts';
import type { StreamKind } from './stream-request.ts';

/** A connection to the guest that belongs to one session: of a screen or of USB redirection. */
export class OwnConnection {
  readonly kind: StreamKind;
  readonly #guest: Socket;
  #session: Session | undefined;
  #client: RfbClientStream | undefined;
  #end: SessionEnd | undefined;

  constructor(kind: StreamKind, guest: Socket) {
    this.kind = kind;
    this.#guest = guest;
    guest.pause();
    onGuestEnd(guest, kind, (end) => this.#guestEnded(end));
  }

  get isOpen(): boolean {
    return this.#end === undefined;
  }

  /** From `begin` on. Without a `client` everything goes through as it is. */
  bind(session: Session, client: RfbClientStream | undefined): void {
    this.#session = session;
    this.#client = client;
    // What the client sends at once may fill the guest's socket before the session has begun.
    this.#guest.on('drain', () => session.resumeInput());
    if (this.#end) session.end(this.#end);
  }

  begin(): void {
    const session = this.#session;
    if (!session) return;
    this.#guest.on('data', (chunk: Buffer) => {
      session.send(chunk);
      if (session.isFull) this.#guest.pause();
    });
    this.#guest.resume();
  }

  input(pieces: readonly Buffer[]): void {
    const client = this.#client;
    this.#write(client ? pieces.flatMap((piece) => client.push(piece)) : pieces);
    if (client?.problem) this.#session?.end(sessionEnd('unsupported', `a viewer cannot be served: ${client.problem}`));
    else if (this.#guest.writableNeedDrain) this.#session?.pauseInput();
  }

  drained(): void {
    this.#guest.resume();
  }

  becomeViewer(): void {
    this.#write(this.#client?.becomeViewer() ?? []);
    if (this.#client?.problem) this.#session?.end(sessionEnd('takenOver', 'another session has taken over'));
  }

  becomeWriter(): void {
    this.#client?.becomeWriter();
  }

  close(): void {
    this.#guest.destroy();
  }

  #write(pieces: readonly Buffer[]): void {
    if (pieces.length > 1) this.#guest.cork();
    for (const piece of pieces) this.#guest.write(piece);
    if (pieces.length > 1) this.#guest.uncork();
  }

  #guestEnded(end: SessionEnd): void {
    if (this.#end) return;
    this.#end = end;
    this.#guest.destroy();
    this.#session?.end(end);
  }
}
