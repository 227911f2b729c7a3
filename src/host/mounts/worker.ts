import { closeSync, constants, openSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import { errorMessage } from '../../base/index.ts';
import { MountError } from './errors.ts';
import { type MountAnswer, type MountOrder, mountThread } from './thread.ts';

export interface MountWorkerOptions {
  /** Of one call: the kernel waits for no disk in any of them. */
  readonly deadlineMs?: number;
  /** A thread takes some megabytes: one that has nothing to do ends after this time. */
  readonly idleMs?: number;
  /** In place of `mountThread`, as text. */
  readonly program?: string;
}

/** Opens a descriptor that is closed for its caller. */
export type OpenDescriptor = (opening: () => number) => number;

const defaultDeadlineMs = 10_000;
const defaultIdleMs = 60_000;

/** Of the thread's heap: it runs one small function. */
const resourceLimits = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2 };

const threadProgram = `const { parentPort, workerData } = require('node:worker_threads');
(${mountThread.toString()})(require(workerData.koffi), parentPort, workerData.ownDescriptors);`;

/** Namespaces of other processes can only be read, so an opened one can be kept. Throws the system's error. */
export function openMountNamespace(pid: number): number {
  return openSync(`/proc/${pid}/ns/mnt`, constants.O_RDONLY);
}

/**
 * Calls the thread that mounts; one is started at the first call, and after one has ended. A thread that does not answer in time
 * is given up with all that wait for it.
 */
export class MountWorker {
  readonly #options: MountWorkerOptions;
  #running: RunningThread | undefined;
  #idle: NodeJS.Timeout | undefined;
  #waiting = 0;

  constructor(options: MountWorkerOptions = {}) {
    this.#options = options;
  }

  /**
   * `make` opens what its order names; all of it is closed when the thread is done with it. Rejects with MountError, or with what
   * `make` throws.
   */
  async call(make: (open: OpenDescriptor) => MountOrder): Promise<MountAnswer> {
    const descriptors: number[] = [];
    this.#waiting++;
    clearTimeout(this.#idle);
    try {
      const thread = await this.#thread();
      const order = make((opening) => {
        const descriptor = opening();
        descriptors.push(descriptor);
        return descriptor;
      });
      return await thread.call(order, this.#options.deadlineMs ?? defaultDeadlineMs);
    } finally {
      for (const descriptor of descriptors) closeSync(descriptor);
      this.#waiting--;
      if (this.#waiting === 0) this.#endWhenIdle();
    }
  }

  /** Ends the thread; a later call starts another one. */
  async stop(): Promise<void> {
    clearTimeout(this.#idle);
    const running = this.#running;
    this.#running = undefined;
    await running?.stop();
  }

  #endWhenIdle(): void {
    this.#idle = setTimeout(() => void this.stop(), this.#options.idleMs ?? defaultIdleMs).unref();
  }

  async #thread(): Promise<RunningThread> {
    if (this.#running?.hasEnded) this.#running = undefined;
    try {
      // Threads for files are started by the first thread that needs one, in its namespaces: not by the one that mounts.
      if (!this.#running) await stat('/');
      this.#running ??= new RunningThread(this.#options.program ?? threadProgram);
      return this.#running;
    } catch (cause) {
      const problem = `the thread that mounts cannot be started: ${errorMessage(cause)}`;
      throw new MountError('THREAD_ENDED', problem, { cause });
    }
  }
}

/** Calls are answered one after the other, in their order. */
class RunningThread {
  readonly #worker: Worker;
  readonly #calls = new Map<number, (answer: MountAnswer | MountError) => void>();
  readonly #ended: Promise<void>;
  #lastId = 0;
  #why = 'it ended by itself';
  hasEnded = false;

  constructor(program: string) {
    const koffi = createRequire(import.meta.url).resolve('koffi');
    const ownDescriptors = openSync('/proc/self/fd', constants.O_RDONLY | constants.O_DIRECTORY);
    // Options of this program, as for its heap, are not the thread's.
    const options = { eval: true, env: {}, execArgv: [], resourceLimits, workerData: { koffi, ownDescriptors } };
    this.#worker = new Worker(program, options);
    this.#worker.unref();
    this.#worker.on('message', (answer: MountAnswer) => this.#finish(answer.id, answer));
    this.#worker.on('error', (error) => {
      this.#why = errorMessage(error);
    });
    this.#ended = new Promise((resolve) => {
      this.#worker.once('exit', () => {
        closeSync(ownDescriptors);
        this.#end();
        resolve();
      });
    });
  }

  async call(order: MountOrder, deadlineMs: number): Promise<MountAnswer> {
    const id = ++this.#lastId;
    const late = setTimeout(() => {
      this.#why = `no answer within ${deadlineMs} ms`;
      void this.stop();
    }, deadlineMs);
    try {
      return await new Promise((resolve, reject) => {
        this.#calls.set(id, (answer) => (answer instanceof MountError ? reject(answer) : resolve(answer)));
        this.#worker.ref();
        this.#worker.postMessage({ id, order });
      });
    } finally {
      clearTimeout(late);
    }
  }

  async stop(): Promise<void> {
    this.hasEnded = true;
    void this.#worker.terminate();
    await this.#ended;
  }

  #end(): void {
    this.hasEnded = true;
    const problem = `the thread that mounts has ended (${this.#why}): the next call starts another one`;
    for (const id of [...this.#calls.keys()]) this.#finish(id, new MountError('THREAD_ENDED', problem));
  }

  #finish(id: number, answer: MountAnswer | MountError): void {
    this.#calls.get(id)?.(answer);
    this.#calls.delete(id);
    if (this.#calls.size === 0) this.#worker.unref();
  }
}
