import { maxHeadBytes, measureMessage } from './rfb-message-size.ts';

/** The pseudo-encoding of more than seven mouse buttons. */
const wideButtonsEncoding = -316;
const none = 1;
const vncAuthentication = 2;

/**
 * Where the stream is. `whole` are the bytes collected in the head until it can be decided. `untouched`: nothing is looked at
 * any more.
 */
type State =
  | { readonly at: 'version' | 'security' | 'authentication' | 'init' | 'message'; readonly whole: number }
  | { readonly at: 'body'; left: number; readonly passes: boolean; readonly isEncodings: boolean }
  | { readonly at: 'untouched' };

export interface RfbClientOptions {
  /** Nothing that the client does may reach the guest. */
  readonly isViewer: boolean;
  /** It is never going to be a viewer: its messages need not be followed. */
  readonly staysWriter: boolean;
}

/**
 * What a VNC client sends (RFC 6143), cut into its messages: sharing the screen is asked for whatever the client wants, as QEMU
 * would else end all other connections; and a viewer's keys, pointer, clipboard and power commands do not reach the guest.
 */
export class RfbClientStream {
  readonly #staysWriter: boolean;
  readonly #head = Buffer.alloc(maxHeadBytes);
  readonly #held = new HeldInput();
  #have = 0;
  #state: State = { at: 'version', whole: 12 };
  #isViewer: boolean;
  #hasWideButtons = false;
  #word = 0;
  #wordBytes = 0;
  #problem: string | undefined;
  /** Waits for the end of a message that is under way. */
  #letGo: Buffer[] = [];

  constructor({ isViewer, staysWriter }: RfbClientOptions) {
    this.#isViewer = isViewer;
    this.#staysWriter = staysWriter;
  }

  /** Why a viewer cannot go on: what it sends next could be anything. */
  get problem(): string | undefined {
    return this.#isViewer ? this.#problem : undefined;
  }

  /** What of `chunk` goes to the guest. */
  push(chunk: Buffer): Buffer[] {
    const passed: Buffer[] = [];
    let at = 0;
    while (at < chunk.length && !this.problem) {
      const state = this.#state;
      if (state.at === 'untouched') {
        passed.push(chunk.subarray(at));
        break;
      }
      if (state.at === 'body') at += this.#body(state, chunk.subarray(at), passed);
      else at += this.#collect(state, chunk.subarray(at), passed);
    }
    return passed;
  }

  /** From now on a viewer; gives what lets go of all keys and buttons. */
  becomeViewer(): Buffer[] {
    this.#isViewer = true;
    const letGo = this.#held.release();
    if (this.#problem !== undefined) return [];
    if (this.#state.at !== 'body' || !this.#state.passes) return letGo;
    this.#letGo = letGo;
    return [];
  }

  becomeWriter(): void {
    this.#isViewer = false;
  }

  #collect(state: Extract<State, { whole: number }>, chunk: Buffer, passed: Buffer[]): number {
    const taken = chunk.copy(this.#head, this.#have, 0, Math.min(chunk.length, state.whole - this.#have));
    this.#have += taken;
    if (this.#have < state.whole) return taken;
    const head = this.#head.subarray(0, this.#have);
    if (state.at === 'message') this.#message(head, passed);
    else {
      this.#state = this.#handshake(state.at, head);
      this.#pass(head, passed);
    }
    return taken;
  }

  #handshake(at: 'version' | 'security' | 'authentication' | 'init', head: Buffer): State {
    if (at === 'version') {
      const minor = /^RFB 003\.(\d{3})\n$/.exec(head.toString('latin1'))?.[1];
      if (minor === undefined) return this.#lost('this is not version 3 of the RFB protocol');
      // Before 3.7 the server alone chose, and QEMU's of a virtual machine has no password.
      return Number(minor) < 7 ? { at: 'init', whole: 1 } : { at: 'security', whole: 1 };
    }
    if (at === 'security') {
      if (head[0] === none) return { at: 'init', whole: 1 };
      if (head[0] === vncAuthentication) return { at: 'authentication', whole: 16 };
      return this.#lost(`security type ${head[0]} cannot be followed`);
    }
    if (at === 'authentication') return { at: 'init', whole: 1 };
    head[0] = 1;
    return this.#staysWriter ? { at: 'untouched' } : { at: 'message', whole: 1 };
  }

  #message(head: Buffer, passed: Buffer[]): void {
    const size = measureMessage(head, this.#hasWideButtons);
    if (size.kind === 'unsure') {
      this.#state = { at: 'message', whole: size.needsBytes };
      return;
    }
    if (size.kind === 'unknown') {
      this.#state = this.#lost(`message type ${head[0]} is not known, so what follows it cannot be told apart`);
      if (!this.#isViewer) this.#pass(head, passed);
      return;
    }
    if (size.bytes > head.length && size.bytes <= maxHeadBytes && size.isInput) {
      this.#state = { at: 'message', whole: size.bytes };
      return;
    }
    this.#begin(head, size.bytes, !this.#isViewer || !size.isInput, passed);
  }

  #begin(head: Buffer, bytes: number, passes: boolean, passed: Buffer[]): void {
    const isEncodings = head[0] === 2;
    if (isEncodings) {
      this.#hasWideButtons = false;
      this.#wordBytes = 0;
    }
    const left = bytes - head.length;
    if (passes) {
      if (left === 0) this.#held.watch(head);
      this.#pass(head, passed);
    }
    this.#have = 0;
    this.#state = left > 0 ? { at: 'body', left, passes, isEncodings } : { at: 'message', whole: 1 };
  }

  #body(state: Extract<State, { at: 'body' }>, chunk: Buffer, passed: Buffer[]): number {
    const piece = chunk.subarray(0, state.left);
    if (state.passes) passed.push(piece);
    if (state.isEncodings) this.#readEncodings(piece);
    state.left -= piece.length;
    if (state.left > 0) return piece.length;
    passed.push(...this.#letGo.splice(0));
    this.#state = { at: 'message', whole: 1 };
    return piece.length;
  }

  #readEncodings(piece: Buffer): void {
    for (const byte of piece) {
      this.#word = (this.#word << 8) | byte;
      this.#wordBytes = (this.#wordBytes + 1) % 4;
      if (this.#wordBytes === 0 && this.#word === wideButtonsEncoding) this.#hasWideButtons = true;
    }
  }

  #pass(head: Buffer, passed: Buffer[]): void {
    passed.push(Buffer.from(head));
    this.#have = 0;
  }

  #lost(problem: string): State {
    this.#problem = problem;
    return { at: 'untouched' };
  }
}

/** More keys than a person holds down. */
const maxKeys = 64;

/**
 * Keys and mouse buttons that a client holds down. When it may no longer send anything, no other client would ever let go of them.
 */
class HeldInput {
  readonly #keys = new Map<string, Buffer>();
  #pointer: Buffer | undefined;

  /** Looks at one whole message. */
  watch(message: Buffer): void {
    if (message[0] === 4) this.#key(message, message[1] !== 0, 1, 2);
    else if (message[0] === 255 && message[1] === 0) this.#key(message, message.readUInt16BE(2) !== 0, 2, 4);
    else if (message[0] === 5) this.#watchPointer(message);
  }

  /** The messages that let go of everything; after that nothing is held. */
  release(): Buffer[] {
    const messages = [...this.#keys.values(), ...(this.#pointer ? [this.#pointer] : [])];
    this.#keys.clear();
    this.#pointer = undefined;
    return messages;
  }

  #key(message: Buffer, isDown: boolean, flagBytes: 1 | 2, keyAt: number): void {
    const key = message.toString('latin1', keyAt);
    if (!isDown) this.#keys.delete(key);
    else if (this.#keys.size < maxKeys) this.#keys.set(key, cleared(message, keyAt === 2 ? 1 : 2, flagBytes));
  }

  #watchPointer(message: Buffer): void {
    const buttons = message.readUInt8(1) | (message.length > 6 ? message.readUInt8(6) << 8 : 0);
    // The event that lets go is of the short kind: a long one is known by its button bit.
    this.#pointer = buttons === 0 ? undefined : cleared(message.subarray(0, 6), 1, 1);
  }
}

function cleared(message: Buffer, at: number, bytes: number): Buffer {
  const copy = Buffer.from(message);
  copy.fill(0, at, at + bytes);
  return copy;
}
