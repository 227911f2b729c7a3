import type { Key, LauncherTarget } from '../../../api/index.ts';
import { type Clock, Listeners, sameJson, withDeadline } from '../../../base/index.ts';
import type { GuestAgentAnswer, GuestAgents, LauncherConnections } from '../ports.ts';

export interface GuestAgentCacheOptions {
  /** A call that takes longer is given up. */
  readonly timeoutMs: number;
  /** After an answer; an agent that is replaced disconnects, so this is only for one that is reconfigured. */
  readonly refreshMs: number;
  /** After no answer, or one in which the launcher has not heard from the agent yet; doubled up to `refreshMs`. */
  readonly retryMs: number;
}

const defaults: GuestAgentCacheOptions = { timeoutMs: 5_000, refreshMs: 300_000, retryMs: 5_000 };

export interface GuestAgentCacheDeps {
  readonly launchers: Pick<LauncherConnections, 'connect'>;
  readonly clock: Clock;
}

interface Entry {
  readonly target: LauncherTarget;
  readonly ended: AbortController;
  answer: GuestAgentAnswer | undefined;
  waitMs: number;
  cancelTimer: (() => void) | undefined;
}

/**
 * One answer per VMI and connection of its agent, asked for in the background. Upstream asks in every pass and holds its
 * worker for up to 5 s, so a hanging agent blocks every write of its VMI's status. An entry goes with the
 * agent's connection, and the call under way with it.
 */
export class GuestAgentCache implements GuestAgents {
  readonly #options: GuestAgentCacheOptions;
  readonly #deps: GuestAgentCacheDeps;
  readonly #entries = new Map<Key, Entry>();
  readonly #listeners = new Listeners<[key: Key]>();

  constructor(options: Partial<GuestAgentCacheOptions>, deps: GuestAgentCacheDeps) {
    this.#options = { ...defaults, ...options };
    this.#deps = deps;
  }

  view(target: LauncherTarget, connected: boolean): GuestAgentAnswer | undefined {
    const known = this.#entries.get(target.key);
    if (known && known.target.uid === target.uid && connected) return known.answer;
    this.#forget(target.key);
    if (connected && target.uid !== '') this.#begin(target);
    return undefined;
  }

  onChange(listener: (key: Key) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Guests with a connected agent. */
  get size(): number {
    return this.#entries.size;
  }

  /** Gives up every call. Nothing is asked any more, until the next `view`. */
  stop(): void {
    for (const key of [...this.#entries.keys()]) this.#forget(key);
  }

  #begin(target: LauncherTarget): void {
    const { retryMs } = this.#options;
    const entry: Entry = {
      target,
      ended: new AbortController(),
      answer: undefined,
      waitMs: retryMs,
      cancelTimer: undefined,
    };
    this.#entries.set(target.key, entry);
    void this.#ask(entry);
  }

  /** Never rejects. */
  async #ask(entry: Entry): Promise<void> {
    const { refreshMs, retryMs, timeoutMs } = this.#options;
    const answer = await this.#answerOf(entry, timeoutMs);
    if (entry.ended.signal.aborted) return;
    const isNews = answer !== undefined && !sameJson(answer, entry.answer);
    if (isNews) entry.answer = answer;
    const hasHeard = answer !== undefined && (answer.version !== '' || answer.commands !== undefined);
    const waitMs = hasHeard ? refreshMs : entry.waitMs;
    entry.waitMs = hasHeard ? retryMs : Math.min(entry.waitMs * 2, refreshMs);
    entry.cancelTimer = this.#deps.clock.schedule(waitMs, () => void this.#ask(entry));
    if (isNews) this.#listeners.notify(entry.target.key);
  }

  async #answerOf({ target, ended }: Entry, timeoutMs: number): Promise<GuestAgentAnswer | undefined> {
    const { launchers, clock } = this.#deps;
    try {
      return await withDeadline({ timeoutMs, signal: ended.signal, clock }, async (signal) => {
        const calls = await launchers.connect(target, signal);
        return calls.getGuestInfo(signal);
      });
    } catch {
      // An agent that does not answer says nothing about itself; the part that needs its launcher reports that.
      return undefined;
    }
  }

  #forget(key: Key): void {
    const entry = this.#entries.get(key);
    if (!entry) return;
    this.#entries.delete(key);
    entry.cancelTimer?.();
    entry.ended.abort(new Error('the guest agent is not connected any more'));
  }
}
