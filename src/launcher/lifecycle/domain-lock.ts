import type { Clock } from '../../base/index.ts';
import { LauncherError } from '../errors.ts';

/**
 * The domain modify lock of upstream's `manager.go`: one change of the domain at a time, in the order of the requests. Unlike
 * upstream a request does not wait for ever behind a hung one.
 */
export class DomainLock {
  readonly #maxWaitMs: number;
  readonly #clock: Clock;
  readonly #refuse: (name: string) => void;
  #tail: Promise<void> = Promise.resolve();
  #holder: string | undefined;

  /** `refuse` throws when a change must not begin now; it is asked when the change has its turn. */
  constructor(
    options: { readonly maxWaitMs: number },
    deps: { readonly clock: Clock; readonly refuse?: (name: string) => void },
  ) {
    this.#maxWaitMs = options.maxWaitMs;
    this.#clock = deps.clock;
    this.#refuse = deps.refuse ?? (() => undefined);
  }

  /** Runs `work` alone. Throws BUSY when it could not begin in time; `work` is then never run. */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tail;
    const { promise: done, resolve: release } = newGate();
    this.#tail = before.then(() => done);
    try {
      await this.#turn(before, name);
      this.#refuse(name);
      return await this.#hold(name, work);
    } finally {
      release();
    }
  }

  async #hold<T>(name: string, work: () => Promise<T>): Promise<T> {
    this.#holder = name;
    try {
      return await work();
    } finally {
      this.#holder = undefined;
    }
  }

  #turn(before: Promise<void>, name: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.#clock.schedule(this.#maxWaitMs, () => {
        const seconds = this.#maxWaitMs / 1000;
        reject(
          new LauncherError('BUSY', `${name}: ${this.#holder ?? 'another change'} is still running after ${seconds} s`),
        );
      });
      void before.then(() => {
        cancel();
        resolve();
      });
    });
  }
}

function newGate(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
