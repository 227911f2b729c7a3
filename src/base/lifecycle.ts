import { type Clock, systemClock } from './clock.ts';

/** Whatever has `start` has `stop`. `stop` is safe to call without a finished `start`. */
export interface Component {
  readonly name: string;
  start(signal: AbortSignal): Promise<void>;
  stop(): Promise<void>;
}

export interface LifecycleOptions {
  /** Longest time one component may take to stop. */
  readonly stopTimeoutMs: number;
  readonly clock?: Clock;
}

/** Starts components in order and stops the started ones in reverse, each with a deadline; collects their errors. */
export class Lifecycle {
  readonly #components: readonly Component[];
  readonly #options: LifecycleOptions;
  readonly #started: Component[] = [];

  constructor(components: readonly Component[], options: LifecycleOptions = { stopTimeoutMs: 10_000 }) {
    this.#components = components;
    this.#options = options;
  }

  /** When a component fails to start, those before it are stopped and the error is thrown. */
  async start(signal: AbortSignal): Promise<void> {
    for (const component of this.#components) {
      try {
        signal.throwIfAborted();
        this.#started.push(component);
        await component.start(signal);
      } catch (cause) {
        await this.stop().catch(() => undefined);
        throw new Error(`${component.name} did not start`, { cause });
      }
    }
  }

  async stop(): Promise<void> {
    const errors: unknown[] = [];
    for (const component of this.#started.splice(0).reverse()) {
      try {
        await this.#stopOne(component);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw new AggregateError(errors, `${errors.length} component(s) did not stop cleanly`);
  }

  async #stopOne(component: Component): Promise<void> {
    const { stopTimeoutMs, clock = systemClock } = this.#options;
    let cancel: () => void = () => undefined;
    const late = new Promise<never>((_, reject) => {
      const error = () => new Error(`${component.name} did not stop in ${stopTimeoutMs} ms`);
      cancel = clock.schedule(stopTimeoutMs, () => reject(error()));
    });
    try {
      await Promise.race([component.stop(), late]);
    } finally {
      cancel();
    }
  }
}
