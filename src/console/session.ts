import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import { type Clock, errorCode } from '../base/index.ts';
import { type SessionEnd, sessionEnd } from './close.ts';
import { KeepAlive } from './keep-alive.ts';
import { type ConsoleCommand, maxCommandBytes, type Notice, parseCommand, type Role } from './notices.ts';

/** More than any session has waiting because of the guest. */
const maxUnreadBytes = 524_288;

/** What a session is joined to; each call comes from one session only, none after `left`. */
export interface SessionOwner {
  /** The 101 answer is on its way: bytes may follow. */
  started(): void;
  /** Bytes for the guest. The pieces are the owner's. */
  input(pieces: readonly Buffer[]): void;
  command(command: ConsoleCommand): void;
  /** It was `isFull` and no longer is. */
  drained(): void;
  /** The session has ended, once, on either side. */
  left(): void;
}

export interface SessionOptions {
  readonly isAware: boolean;
  readonly pingIntervalMs: number;
  /** What the client is told of an end on this side; the same unless something more is known. */
  readonly explainEnd?: (end: SessionEnd) => SessionEnd;
}

/**
 * One websocket: bytes out with the wish to stop when it is full, bytes in that can be held back, keep-alive, one end. It
 * knows nothing of others.
 */
export class Session {
  readonly isAware: boolean;
  /** With more bytes than this waiting in this process the session is full. */
  fullAtBytes = 65_536;
  /** Set by its owner. */
  role: Role = 'writer';
  readonly #websocket: WebSocket;
  readonly #socket: Duplex;
  readonly #keepAlive: KeepAlive;
  readonly #sent = () => this.#onSent();
  readonly #onEnd: (end: SessionEnd) => void;
  readonly #explainEnd: (end: SessionEnd) => SessionEnd;
  #owner: SessionOwner | undefined;
  #isStarted = false;
  #isFull = false;
  #hasEnded = false;
  #receivedBytes = 0;
  #sentBytes = 0;
  #sends = 0;

  /** `onEnd` is called once, before the connection is closed. */
  constructor(options: SessionOptions, { websocket, socket, clock, onEnd }: SessionDeps) {
    this.isAware = options.isAware;
    this.#websocket = websocket;
    this.#socket = socket;
    this.#onEnd = onEnd;
    this.#explainEnd = options.explainEnd ?? ((end) => end);
    websocket.binaryType = 'fragments';
    websocket.on('message', (data, isBinary) => this.#onMessage(data, isBinary));
    websocket.on('error', (error) => this.#finish(brokenRule(error)));
    websocket.on('close', (code, reason) => this.#finish({ code, reason: reason.toString('utf8') }));
    if (socket instanceof Socket) socket.setKeepAlive(true, 15_000);
    this.#keepAlive = new KeepAlive(options.pingIntervalMs, clock, {
      heard: () => (socket instanceof Socket ? socket.bytesRead : this.#receivedBytes),
      // What is sent while more waits moves only because the peer reads.
      moved: () => (this.#isFull ? this.#sends : undefined),
      isDeaf: () => websocket.isPaused,
      ping: () => websocket.ping(),
      giveUp: () => websocket.terminate(),
    });
  }

  /**
   * Begins. An empty write ends after the 101 answer before it, which therefore has a TLS record of its own: virt-api throws
   * away what shares that record.
   */
  join(owner: SessionOwner): void {
    if (this.#hasEnded) {
      owner.left();
      return;
    }
    this.#owner = owner;
    this.#socket.write('', () => {
      if (this.#hasEnded) return;
      this.#isStarted = true;
      owner.started();
    });
  }

  /** No byte should be sent now; `drained` or `started` follows. */
  get isFull(): boolean {
    return this.#isFull || !this.#isStarted;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Waiting in this process. */
  get bufferedBytes(): number {
    return this.#websocket.bufferedAmount;
  }

  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  get sentBytes(): number {
    return this.#sentBytes;
  }

  /** The chunk must not change afterwards. */
  send(chunk: Buffer): void {
    if (this.#websocket.readyState !== this.#websocket.OPEN) return;
    this.#sentBytes += chunk.length;
    this.#websocket.send(chunk, this.#sent);
    if (this.#websocket.bufferedAmount > this.fullAtBytes) this.#isFull = true;
  }

  /** To those who understand notices, once they have begun; to others nothing. */
  notify(notice: Notice): void {
    if (!this.isAware || !this.#isStarted || this.#websocket.readyState !== this.#websocket.OPEN) return;
    // The guest can be made to wait, but not clients that take a console from each other.
    if (this.bufferedBytes > maxUnreadBytes) this.end(sessionEnd('tooSlow', 'too slow: notices were not read'));
    else this.#websocket.send(JSON.stringify(notice));
  }

  /** Takes nothing in until `resumeInput`. */
  pauseInput(): void {
    this.#websocket.pause();
  }

  resumeInput(): void {
    this.#websocket.resume();
  }

  /** Says why and closes; the connection ends within seconds even when the peer does nothing. */
  end(end: SessionEnd): void {
    if (this.#hasEnded) return;
    const explained = this.#explainEnd(end);
    this.#finish(explained);
    this.#websocket.resume();
    this.#websocket.close(explained.code, explained.reason);
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    const owner = this.#owner;
    if (this.#hasEnded || owner === undefined) return;
    if (isBinary) {
      const pieces = data as Buffer[];
      for (const piece of pieces) this.#receivedBytes += piece.length;
      owner.input(pieces);
    } else if (this.isAware) this.#onText(data as Buffer, owner);
  }

  #onText(text: Buffer, owner: SessionOwner): void {
    const command = text.length > maxCommandBytes ? 'too-big' : parseCommand(text);
    if (command === 'too-big') this.end(sessionEnd('tooBig', `a text message has at most ${maxCommandBytes} bytes`));
    else if (command === 'malformed') this.end(sessionEnd('unsupported', 'text messages are JSON objects with a kind'));
    else if (command !== 'unknown') owner.command(command);
  }

  #onSent(): void {
    this.#sends++;
    if (!this.#isFull || this.#hasEnded) return;
    if (this.#websocket.bufferedAmount > this.fullAtBytes / 2) return;
    this.#isFull = false;
    this.#owner?.drained();
  }

  #finish(end: SessionEnd): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#keepAlive.stop();
    this.#owner?.left();
    this.#owner = undefined;
    this.#onEnd(end);
  }
}

/** The library has sent the code already. */
function brokenRule(error: Error): SessionEnd {
  const isTooBig = errorCode(error) === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH';
  return sessionEnd(isTooBig ? 'tooBig' : 'protocol', error.message);
}

export interface SessionDeps {
  readonly websocket: WebSocket;
  /** Below the websocket. */
  readonly socket: Duplex;
  readonly clock: Clock;
  readonly onEnd: (end: SessionEnd) => void;
}
