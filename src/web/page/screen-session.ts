import { retryAfterMs } from './backoff.ts';

export type ScreenState =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'connected'; readonly readOnly: boolean; readonly reason?: string }
  /** The machine goes on at another node, and the screen follows it there. */
  | { readonly kind: 'following'; readonly reason: string }
  | { readonly kind: 'waiting'; readonly reason: string; readonly inMs: number }
  | { readonly kind: 'ended'; readonly reason: string };

/** A connection that was tried: over, with what the websocket said. */
export interface ScreenEnd {
  readonly hasOpened: boolean;
  readonly code: number;
  readonly reason: string;
}

export interface ScreenDeps {
  readonly state: (state: ScreenState) => void;
  /** Shows the screen until it is over or the returned function is called. */
  readonly connect: (query: URLSearchParams, on: { ready: () => void; over: (end: ScreenEnd) => void }) => () => void;
  readonly explain: () => Promise<string>;
  readonly schedule: (ms: number, callback: () => void) => () => void;
  readonly chance: () => number;
}

type Access = 'take' | 'take-if-free' | 'view';

const ends: ReadonlySet<number> = new Set([1000, 4003]);
const takenOver = 4001;
const tooSlow = 4002;
const moved = 4004;

/** The screen over connections that come and go: asks politely for keyboard and mouse, else watches. */
export class ScreenSession {
  readonly #deps: ScreenDeps;
  #disconnect: (() => void) | undefined;
  #access: Access = 'take-if-free';
  #cancelRetry: (() => void) | undefined;
  #follows: string | undefined;
  #failures = 0;
  #wantsToWatch = false;
  /** Why it only watches. */
  #reason: string | undefined;
  #hasClosed = false;

  constructor(deps: ScreenDeps) {
    this.#deps = deps;
  }

  open(readOnly = this.#wantsToWatch): void {
    this.#wantsToWatch = readOnly;
    this.#begin(readOnly ? 'view' : 'take-if-free', undefined);
  }

  /** Its guest is known to be elsewhere by now. */
  follow(reason: string): void {
    this.#drop();
    this.#failures = 0;
    this.#follow(this.#access, reason);
  }

  /** Takes keyboard and mouse; the session that had them is notified. */
  take(): void {
    this.#wantsToWatch = false;
    this.#begin('take', undefined);
  }

  close(): void {
    this.#hasClosed = true;
    this.#drop();
  }

  #begin(access: Access, reason: string | undefined): void {
    this.#drop();
    this.#failures = 0;
    this.#reason = reason;
    this.#connect(access);
  }

  #connect(access: Access): void {
    if (this.#hasClosed) return;
    this.#access = access;
    const follows = this.#follows;
    this.#deps.state(follows === undefined ? { kind: 'connecting' } : { kind: 'following', reason: follows });
    this.#disconnect = this.#deps.connect(new URLSearchParams({ access }), {
      ready: () => this.#ready(access),
      over: (end) => {
        this.#disconnect = undefined;
        this.#over(access, end);
      },
    });
  }

  #ready(access: Access): void {
    this.#failures = 0;
    this.#follows = undefined;
    const readOnly = access === 'view';
    const state = { kind: 'connected', readOnly } as const;
    this.#deps.state(readOnly && this.#reason !== undefined ? { ...state, reason: this.#reason } : state);
  }

  #over(access: Access, { hasOpened, code, reason }: ScreenEnd): void {
    if (this.#hasClosed) return;
    // Refused, for a reason that browsers keep from pages; mostly because another session has keyboard and mouse.
    if (!hasOpened && access === 'take-if-free') {
      this.#reason = 'somebody else has keyboard and mouse';
      this.#connect('view');
    } else if (!hasOpened) void this.#refused();
    else if (code === moved) this.#follow(access, reason || 'the virtual machine goes on at another node');
    else if (code === takenOver) this.#begin('view', reason || 'another session has taken over the screen');
    else if (ends.has(code))
      this.#deps.state({ kind: 'ended', reason: reason || 'the virtual machine closed its screen' });
    else if (code === tooSlow) this.#retry(reason || 'this browser was too slow');
    else this.#retry(reason || 'the connection was lost');
  }

  /** As what it was: one that watches does not get keyboard and mouse by being faster. */
  #follow(access: Access, reason: string): void {
    this.#follows = reason;
    this.#connect(access === 'view' ? 'view' : 'take-if-free');
  }

  async #refused(): Promise<void> {
    const reason = await this.#deps.explain().catch(() => '');
    if (!this.#disconnect) this.#retry(reason || 'the screen cannot be opened now');
  }

  #retry(reason: string): void {
    if (this.#hasClosed) return;
    const inMs = retryAfterMs(this.#failures++, this.#deps.chance());
    this.#deps.state({ kind: 'waiting', reason, inMs });
    this.#cancelRetry = this.#deps.schedule(inMs, () => this.#connect(this.#wantsToWatch ? 'view' : 'take-if-free'));
  }

  #drop(): void {
    this.#cancelRetry?.();
    this.#disconnect?.();
    this.#disconnect = undefined;
  }
}
