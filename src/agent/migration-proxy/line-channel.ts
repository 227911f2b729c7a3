import type { Socket } from 'node:net';
import type { Clock } from '../../base/index.ts';

export interface LineChannelHandlers {
  readonly onLine: (line: string) => void;
  /** Once, whoever ended it; `reason`: why this side did. */
  readonly onEnd: (reason: string | undefined) => void;
}

/** Certificates with whole bundles of authorities are some 100 kB. */
const maxLineLength = 1024 * 1024;
/** A line that was begun is whole by then. */
const lineMs = 10_000;
/** What the other end has not taken yet. */
const maxWaitingBytes = 4 * maxLineLength;

/** JSON documents both ways over one connection, a line each. Whoever sends too much, takes too little or leaves a line half loses the connection. */
export class LineChannel {
  readonly #socket: Socket;
  readonly #clock: Clock;
  readonly #handlers: LineChannelHandlers;
  #begun = '';
  #cancelLate: (() => void) | undefined;
  #reason: string | undefined;

  constructor(socket: Socket, { clock, ...handlers }: LineChannelHandlers & { readonly clock: Clock }) {
    this.#socket = socket;
    this.#clock = clock;
    this.#handlers = handlers;
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => this.#take(text));
    socket.on('error', () => undefined);
    socket.once('close', () => {
      this.#cancelLate?.();
      handlers.onEnd(this.#reason);
    });
  }

  get isOpen(): boolean {
    return !this.#socket.destroyed;
  }

  send(document: object): void {
    if (this.#socket.destroyed) return;
    this.#socket.write(`${JSON.stringify(document)}\n`);
    if (this.#socket.writableLength > maxWaitingBytes) this.end('it does not take what it is sent');
  }

  end(reason: string): void {
    this.#reason ??= reason;
    this.#socket.destroy();
  }

  #take(text: string): void {
    const [first = '', ...others] = text.split('\n');
    this.#begun += first;
    for (const next of others) {
      if (this.#begun.length > maxLineLength) break;
      this.#cancelLate?.();
      this.#cancelLate = undefined;
      this.#handlers.onLine(this.#begun);
      if (this.#socket.destroyed) return;
      this.#begun = next;
    }
    if (this.#begun.length > maxLineLength) this.end('its message is too long');
    else if (this.#begun !== '') {
      this.#cancelLate ??= this.#clock.schedule(lineMs, () => this.end('its message is not whole'));
    }
  }
}
