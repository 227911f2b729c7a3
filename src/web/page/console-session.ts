import { type ConsoleNotice, type ConsoleRole, parseNotice } from '../console-notice.ts';
import { retryAfterMs } from './backoff.ts';

/** What is to be shown. */
export type ConsoleState =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'attached'; readonly role: ConsoleRole; readonly viewers: number; readonly reason?: string }
  /** The machine goes on at another node, and the console follows it there. */
  | { readonly kind: 'following'; readonly reason: string }
  /** Tried again by itself. */
  | { readonly kind: 'waiting'; readonly reason: string; readonly inMs: number }
  /** Not tried again until the user asks. */
  | { readonly kind: 'ended'; readonly reason: string };

export interface ConsoleEvents {
  state(state: ConsoleState): void;
  /** The line was opened anew, or this is the first one: what was shown before is of another. */
  fresh(): void;
  /** The same guest, on another node: what was shown before stays. `reason`: where it is now. */
  moved(reason: string): void;
  /** Guest bytes; `replayed`: of the past, nothing may be answered to them. */
  output(bytes: Uint8Array, replayed: boolean): void;
  lost(bytes: number): void;
}

/** What is used of a browser's WebSocket. */
export interface ConsoleSocket {
  binaryType: string;
  readonly bufferedAmount: number;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  close(code?: number): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
}

export interface ConsoleSessionDeps {
  readonly events: ConsoleEvents;
  /** `query` goes behind the console's address. */
  readonly connect: (query: URLSearchParams) => ConsoleSocket;
  /** Why a connection is refused, as far as a browser can learn it; rejects or stays empty when there is no answer. */
  readonly explain: () => Promise<string>;
  readonly schedule: (ms: number, callback: () => void) => () => void;
  readonly chance: () => number;
}

export const consoleProtocol = 'session.virt-handler.io';

/** The size that a guest assumes: a serial line has none. */
export const serialSize = { columns: 80, rows: 24 };

/** One message from a person is not larger than this; a long paste is several. */
const pieceBytes = 65_536;
/** Closed by the server for good: the guest closed its end, or the VM is another one. */
const ends: ReadonlySet<number> = new Set([1000, 4003]);
const tooSlow = 4002;
const moved = 4004;

type Access = 'take' | 'take-if-free' | 'view';

/**
 * The serial console over connections that come and go: asks to write only if no other session does, reads on where it was
 * when it comes again, and publishes its state.
 */
export class ConsoleSession {
  readonly #deps: ConsoleSessionDeps;
  #socket: ConsoleSocket | undefined;
  #cancelRetry: (() => void) | undefined;
  #line = '';
  #offset = 0;
  #replayLeft = 0;
  /** The server has said where we are. */
  #isAttached = false;
  #role: ConsoleRole = 'viewer';
  #viewers = 0;
  /** Why the role is what it is. */
  #reason: string | undefined;
  /** Set while the guest is followed to another node, where lines have other names. */
  #follows: string | undefined;
  #failures = 0;
  #wantsToRead = false;
  #hasClosed = false;

  constructor(deps: ConsoleSessionDeps) {
    this.#deps = deps;
  }

  /** Also after it has ended or while it waits. `readOnly` stays until the next call. */
  open(readOnly = this.#wantsToRead): void {
    this.#wantsToRead = readOnly;
    this.#drop();
    this.#failures = 0;
    this.#connect(readOnly ? 'view' : 'take-if-free');
  }

  /** Its guest is known to be elsewhere by now. */
  follow(reason: string): void {
    this.#drop();
    this.#failures = 0;
    this.#follow(reason);
  }

  close(): void {
    this.#hasClosed = true;
    this.#drop();
  }

  /** Becomes the writer; the session that was it is notified. */
  take(): void {
    this.#wantsToRead = false;
    if (this.#isAttached) this.#socket?.send(JSON.stringify({ kind: 'take' }));
    else {
      this.#drop();
      this.#connect('take');
    }
  }

  /** What a person types; nothing of it is sent by a viewer. */
  input(bytes: Uint8Array<ArrayBuffer>): void {
    if (!this.#isAttached || this.#role !== 'writer') return;
    for (let at = 0; at < bytes.length; at += pieceBytes) this.#socket?.send(bytes.subarray(at, at + pieceBytes));
  }

  #connect(access: Access): void {
    if (this.#hasClosed) return;
    const follows = this.#follows;
    this.#deps.events.state(follows === undefined ? { kind: 'connecting' } : { kind: 'following', reason: follows });
    const query = new URLSearchParams({ access });
    if (this.#line !== '') {
      query.set('line', this.#line);
      query.set('from', String(this.#offset));
    }
    const socket = this.#deps.connect(query);
    this.#socket = socket;
    this.#isAttached = false;
    let hasOpened = false;
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => {
      hasOpened = true;
    };
    socket.onmessage = ({ data }: { readonly data: unknown }) => {
      if (typeof data === 'string') this.#notice(data);
      else if (data instanceof ArrayBuffer) this.#output(new Uint8Array(data));
    };
    socket.onclose = ({ code, reason }: { readonly code: number; readonly reason: string }) => {
      this.#socket = undefined;
      this.#isAttached = false;
      if (hasOpened) this.#lost(code, reason);
      // Refused, for a reason that browsers keep from pages; mostly because another session writes.
      else if (access === 'take-if-free') this.#connect('view');
      else void this.#refused();
    };
  }

  #notice(text: string): void {
    const notice = parseNotice(text);
    if (notice?.kind === 'attached') this.#attached(notice);
    else if (notice?.kind === 'role') this.#setRole(notice.role, notice.reason);
    else if (notice?.kind === 'viewers') {
      this.#viewers = notice.count;
      this.#setRole(this.#role, this.#reason);
    }
  }

  #attached({ role, line, offset, replayed, lost }: Extract<ConsoleNotice, { kind: 'attached' }>): void {
    this.#isAttached = true;
    this.#failures = 0;
    const follows = this.#follows;
    this.#follows = undefined;
    if (follows !== undefined) this.#deps.events.moved(follows);
    else if (line !== this.#line) this.#deps.events.fresh();
    else if (lost > 0) this.#deps.events.lost(lost);
    this.#line = line;
    this.#offset = offset;
    this.#replayLeft = replayed;
    this.#setRole(role);
  }

  #setRole(role: ConsoleRole, reason?: string): void {
    this.#role = role;
    this.#reason = reason;
    const state = { kind: 'attached', role, viewers: this.#viewers } as const;
    this.#deps.events.state(reason === undefined ? state : { ...state, reason });
  }

  #output(bytes: Uint8Array): void {
    const replayed = Math.min(this.#replayLeft, bytes.length);
    this.#replayLeft -= replayed;
    this.#offset += bytes.length;
    if (replayed > 0) this.#deps.events.output(bytes.subarray(0, replayed), true);
    if (replayed < bytes.length) this.#deps.events.output(bytes.subarray(replayed), false);
  }

  #lost(code: number, reason: string): void {
    if (this.#hasClosed) return;
    if (code === moved) this.#follow(reason || 'the virtual machine goes on at another node');
    else if (ends.has(code))
      this.#deps.events.state({ kind: 'ended', reason: reason || 'the virtual machine closed its console' });
    else if (code === tooSlow) this.#connect('view');
    else this.#retry(reason || 'the connection was lost');
  }

  /** As what it was: a viewer does not become the writer by being faster. */
  #follow(reason: string): void {
    this.#follows = reason;
    this.#connect(this.#wantsToRead || this.#role === 'viewer' ? 'view' : 'take-if-free');
  }

  async #refused(): Promise<void> {
    const reason = await this.#deps.explain().catch(() => '');
    if (!this.#socket) this.#retry(reason || 'the console cannot be opened now');
  }

  #retry(reason: string): void {
    if (this.#hasClosed) return;
    const inMs = retryAfterMs(this.#failures++, this.#deps.chance());
    this.#deps.events.state({ kind: 'waiting', reason, inMs });
    this.#cancelRetry = this.#deps.schedule(inMs, () => this.#connect(this.#wantsToRead ? 'view' : 'take-if-free'));
  }

  #drop(): void {
    this.#cancelRetry?.();
    const socket = this.#socket;
    this.#socket = undefined;
    this.#isAttached = false;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close(1000);
  }
}
