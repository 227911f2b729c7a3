import type { Clock, Logger } from '../base/index.ts';

const quietMs = 60_000;
const maxKinds = 50;

/** Logs the first of a kind at once and then at most one line a minute for it: a port scanner must not fill the log. */
export class RefusalLog {
  readonly #log: Logger;
  readonly #clock: Clock;
  readonly #kinds = new Map<string, { loggedMs: number; more: number }>();
  #total = 0;

  constructor({ log, clock }: { readonly log: Logger; readonly clock: Clock }) {
    this.#log = log;
    this.#clock = clock;
  }

  get total(): number {
    return this.#total;
  }

  note(code: string, reason: string, peer: string | undefined): void {
    this.#total++;
    const nowMs = this.#clock.monotonicMs();
    const key = this.#kinds.has(code) || this.#kinds.size < maxKinds ? code : 'OTHER';
    const kind = this.#kinds.get(key);
    if (kind && nowMs - kind.loggedMs < quietMs) {
      kind.more++;
      return;
    }
    this.#log.warn({ code, reason, peer, ...(kind && kind.more > 0 && { more: kind.more }) }, 'a client was refused');
    this.#kinds.set(key, { loggedMs: nowMs, more: 0 });
  }
}
