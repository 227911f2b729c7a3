import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { errorMessage } from '../../base/index.ts';

/** What a program of a thread is given besides its port, as `workerData`. */
export interface ThreadData {
  /** Path of the library of native calls. */
  readonly koffi: string;
  /** Its first number is the id of the call that was given up last: the rest of that call is not to be done. */
  readonly abandoned: Int32Array;
}

/** Of the thread's heap: it runs one small function. */
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 };

export interface ThreadEvents<Answer> {
  readonly answered: (answer: Answer) => void;
  readonly ended: (why: string) => void;
}

/** One thread, which is given one call at a time: `{ id, order }` to its port, and an answer back. */
export class PoolThread<Order, Answer> {
  readonly ended: Promise<void>;
  readonly #worker: Worker;
  readonly #abandoned = new Int32Array(new SharedArrayBuffer(4));
  #id = 0;
  #why = 'it ended by itself';

  constructor(program: string, own: object, events: ThreadEvents<Answer>) {
    const koffi = createRequire(import.meta.url).resolve('koffi');
    const workerData = { ...own, koffi, abandoned: this.#abandoned } satisfies ThreadData;
    // Options of this program, as for its heap, are not the thread's; nor are descriptors that it opens for others, which would end with it.
    const options = { eval: true, env: {}, execArgv: [], resourceLimits, trackUnmanagedFds: false, workerData };
    this.#worker = new Worker(program, options);
    this.#worker.unref();
    this.#worker.on('message', (answer: Answer) => {
      this.#worker.unref();
      events.answered(answer);
    });
    this.#worker.on('error', (error) => {
      this.#why = errorMessage(error);
    });
    this.ended = new Promise((resolve) => {
      this.#worker.once('exit', () => {
        events.ended(this.#why);
        resolve();
      });
    });
  }

  give(order: Order): void {
    this.#worker.ref();
    this.#worker.postMessage({ id: ++this.#id, order });
  }

  /** What is left of its call is not done. It is waited for by no one. */
  abandon(): void {
    Atomics.store(this.#abandoned, 0, this.#id);
    this.#worker.unref();
  }

  /** Does not wait for a call that is held by the kernel; `ended` does. */
  end(): void {
    void this.#worker.terminate();
  }
}
