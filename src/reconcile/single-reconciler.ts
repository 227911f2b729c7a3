import { type BackoffOptions, type Clock, errorCode, errorMessage, type Logger } from '../base/index.ts';
import { KeyedQueue, type KeyResult, type QueueCounts, type QueueObserver } from './keyed-queue.ts';

export interface SingleReconcilerOptions {
  /** The one thing that is looked after: the name of a node, the path of a file. */
  readonly name: string;
  readonly backoff: Omit<BackoffOptions, 'random'>;
  /** Constant message of the log line of a failure, as in: KSM could not be brought about. */
  readonly failedMessage: string;
}

export interface SingleReconcilerDeps {
  /** Observes, decides, acts. Throws, or gives `retry`, for a failure: it is tried again after back-off. */
  readonly reconcile: (signal: AbortSignal) => Promise<KeyResult>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random?: (() => number) | undefined;
  readonly observer?: QueueObserver | undefined;
}

/**
 * The single-object form of `Reconciler`, for a service that looks after one thing of its node: one serial actor, woken by what
 * it follows. The first failure of its kind is a warning in the log, its repetitions are for debugging.
 *
 *     start: this.#reconciler.follow(settings.select(…, () => this.#reconciler.wake()), node.onChange(…));
 *     stop:  await this.#reconciler.stop();
 */
export class SingleReconciler {
  readonly #options: SingleReconcilerOptions;
  readonly #deps: SingleReconcilerDeps;
  readonly #queue: KeyedQueue;
  readonly #subscriptions: (() => void)[] = [];
  #problem: string | undefined;

  constructor(options: SingleReconcilerOptions, deps: SingleReconcilerDeps) {
    const { clock, random, observer } = deps;
    this.#options = options;
    this.#deps = deps;
    this.#queue = new KeyedQueue(
      { concurrency: 1, backoff: { ...options.backoff, ...(random && { random }) } },
      {
        run: (_name, signal) => this.#run(signal),
        onError: (_name, error, retryInMs) => this.#failed(error, retryInMs),
        clock,
        ...(observer && { observer }),
      },
    );
  }

  get counts(): QueueCounts {
    return this.#queue.counts;
  }

  /** The reconcile under way. */
  get unfinished(): { readonly totalMs: number; readonly longestMs: number } {
    return this.#queue.unfinished;
  }

  /** What went wrong last; undefined: the last reconcile succeeded. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** The last reconcile failed, and its back-off runs or is over just now. */
  get isFailing(): boolean {
    return this.#queue.status(this.#options.name).failures > 0;
  }

  /** Ends of subscriptions; `stop` calls them. */
  follow(...subscriptions: readonly (() => void)[]): void {
    this.#subscriptions.push(...subscriptions);
  }

  /** Reconciles soon; ends any delay and back-off. */
  wake(): void {
    this.#queue.add(this.#options.name);
  }

  /** Reconciles after this time; an earlier time is kept. */
  wakeAfter(ms: number): void {
    this.#queue.addAfter(this.#options.name, ms);
  }

  /** No new reconcile; the signal of the one under way is aborted, and its end awaited. */
  async stop(): Promise<void> {
    for (const end of this.#subscriptions.splice(0)) end();
    await this.#queue.stop();
  }

  async #run(signal: AbortSignal): Promise<KeyResult> {
    const result = await this.#deps.reconcile(signal);
    if (result.kind === 'done') this.#problem = undefined;
    return result;
  }

  #failed(error: unknown, retryInMs: number): void {
    const { failedMessage } = this.#options;
    const reason = errorMessage(error);
    const level = reason === this.#problem ? 'debug' : 'warn';
    this.#problem = reason;
    this.#deps.log[level]({ code: errorCode(error), reason, retryInMs }, failedMessage);
  }
}
