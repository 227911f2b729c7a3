import { KubeError } from '../../../src/kube/index.ts';
import type { Life } from '../engine/scheduler.ts';
import type { Label, Watcher, WatchItem } from './sim-api.ts';
import type { SimKubeClientDeps } from './sim-kube-client.ts';

type Pulled = WatchItem | 'end' | 'expired';

const periodMs = 60_000;
/** Keeps the order of two items of one moment. */
const gapMs = 0.001;

/** What comes over one open watch: in order, each item after a while, a bookmark every minute. */
export class WatchStream implements Watcher {
  readonly label: Label;
  readonly #deps: SimKubeClientDeps;
  readonly #signal: AbortSignal | undefined;
  readonly #cancels = new Set<() => void>();
  readonly #arrived: (Pulled | Error)[] = [];
  #lastMs = 0;
  #heardMs: number;
  #wake: (() => void) | undefined;
  #closed = false;
  readonly #onAbort = () => this.#arrive(abortError(this.#signal));

  constructor(deps: SimKubeClientDeps, label: Label, signal: AbortSignal | undefined) {
    this.label = label;
    this.#deps = deps;
    this.#signal = signal;
    this.#heardMs = deps.scheduler.nowMs;
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    deps.streams.add(this);
  }

  /** The agent that watches. */
  get life(): Life {
    return this.#deps.life;
  }

  push(item: WatchItem): void {
    this.#later('watch event', item);
  }

  /** 410 in the middle of the stream. */
  expire(): void {
    this.#later('watch expires', 'expired');
  }

  cut(): void {
    this.#later('watch breaks', new KubeError('UNREACHABLE', 'watch broke'));
  }

  /** The server's end of the watch, a bookmark on the way, and the client's patience with silence. */
  endAt(endMs: number, idleTimeoutMs: number): void {
    const { scheduler, api, trouble } = this.#deps;
    this.#heardMs = scheduler.nowMs;
    const look = () => {
      if (scheduler.nowMs >= endMs) this.#later('watch ends', 'end');
      else if (scheduler.nowMs - this.#heardMs >= idleTimeoutMs) {
        this.#arrive(new KubeError('TIMEOUT', `watch: no byte for ${idleTimeoutMs} ms`));
      } else if (scheduler.nowMs >= trouble.silentUntilMs) {
        this.#later('bookmark', { type: 'BOOKMARK', version: api.version });
      }
      this.#after(periodMs, 'watch period', look);
    };
    this.#after(periodMs, 'watch period', look);
  }

  /** Throws what broke the stream. */
  async next(): Promise<Pulled> {
    while (this.#arrived.length === 0) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const item = this.#arrived.shift();
    // Not as it arrives: what comes before the answer to the watch is taken all at once.
    this.#deps.onNews();
    if (item instanceof Error) throw item;
    return item ?? 'end';
  }

  close(): void {
    this.#closed = true;
    this.#signal?.removeEventListener('abort', this.#onAbort);
    for (const cancel of this.#cancels) cancel();
    this.#deps.api.watchers.delete(this);
    this.#deps.streams.delete(this);
  }

  /** In a silent time nothing arrives; it comes when that is over. */
  #later(label: string, item: Pulled | Error): void {
    const { scheduler, chance, trouble, life } = this.#deps;
    if (this.#closed || life.dead) return;
    const fromMs = Math.max(scheduler.nowMs, trouble.silentUntilMs);
    this.#lastMs = Math.max(this.#lastMs + gapMs, fromMs + chance.latencyMs());
    this.#after(this.#lastMs - scheduler.nowMs, label, () => this.#arrive(item));
  }

  #after(ms: number, label: string, run: () => void): void {
    const { scheduler, life } = this.#deps;
    if (this.#closed) return;
    const cancel = scheduler.after(ms, label, life, () => {
      this.#cancels.delete(cancel);
      run();
    });
    this.#cancels.add(cancel);
  }

  #arrive(item: Pulled | Error): void {
    this.#heardMs = this.#deps.scheduler.nowMs;
    this.#arrived.push(item);
    this.#wake?.();
    this.#wake = undefined;
  }
}

function abortError(signal: AbortSignal | undefined): Error {
  return signal?.reason instanceof Error ? signal.reason : new Error('aborted');
}
