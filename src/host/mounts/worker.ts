import { closeSync, constants, openSync } from 'node:fs';
import { type OpenDescriptor, ThreadError, ThreadPool, type ThreadPoolOptions } from '../threads/index.ts';
import { MountError } from './errors.ts';
import { type MountAnswer, type MountOrder, type MountThreadData, mountThread } from './thread.ts';

/** `program`: in place of `mountThread`. */
export type MountWorkerOptions = Partial<Omit<ThreadPoolOptions, 'does' | 'data'>>;

const threadProgram = `const { parentPort, workerData } = require('node:worker_threads');
(${mountThread.toString()})(require(workerData.koffi), require('node:fs'), parentPort, workerData);`;

/** Namespaces of other processes can only be read, so an opened one can be kept. Throws the system's error. */
export function openMountNamespace(pid: number): number {
  return openSync(`/proc/${pid}/ns/mnt`, constants.O_RDONLY);
}

/** Calls of the thread that mounts. One that is held by the kernel holds neither its caller nor what others mount. */
export class MountWorker {
  readonly #options: MountWorkerOptions;
  #open: { readonly threads: ThreadPool<MountOrder, MountAnswer>; readonly ownDescriptors: number } | undefined;

  constructor(options: MountWorkerOptions = {}) {
    this.#options = options;
  }

  /** `owner`: whose calls are refused while earlier ones are held. Rejects with MountError, or with what `make` throws. */
  async call(make: (open: OpenDescriptor) => MountOrder, owner = '', about = owner): Promise<MountAnswer> {
    try {
      return await this.#threads().call({ owner, about, make });
    } catch (cause) {
      if (!(cause instanceof ThreadError)) throw cause;
      throw new MountError(cause.code === 'THREADS_HELD' ? 'THREADS_HELD' : 'THREAD_ENDED', cause.message, { cause });
    }
  }

  /** Ends the threads; a later call starts another one. */
  async stop(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    await open?.threads.stop();
    // Of a thread that is held: it goes with the process.
    if (open && open.threads.held.length === 0) closeSync(open.ownDescriptors);
  }

  #threads(): ThreadPool<MountOrder, MountAnswer> {
    if (this.#open) return this.#open.threads;
    const ownDescriptors = openSync('/proc/self/fd', constants.O_RDONLY | constants.O_DIRECTORY);
    const data: MountThreadData = { ownDescriptors };
    const threads = new ThreadPool<MountOrder, MountAnswer>({
      program: threadProgram,
      ...this.#options,
      does: 'mounts',
      data,
    });
    this.#open = { threads, ownDescriptors };
    return threads;
  }
}
