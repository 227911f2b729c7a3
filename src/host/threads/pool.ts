import { closeSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { errorMessage } from '../../base/index.ts';
import { ThreadError } from './errors.ts';
import { PoolThread } from './thread.ts';

export interface ThreadPoolOptions {
  /** For messages: what its threads do, as in "the thread that mounts". */
  readonly does: string;
  /** Text of a CommonJS program that answers each `{ id, order }` of its port. */
  readonly program: string;
  readonly data?: object;
  /** Of one call, from the question on. */
  readonly deadlineMs?: number;
  /** A thread that is at one call for longer is left to it, and others go on with another thread. */
  readonly patienceMs?: number;
  /** A thread takes some megabytes: those that have nothing to do end after this time. */
  readonly idleMs?: number;
  readonly maxThreads?: number;
  /** Calls of one owner that were given up and have not ended. */
  readonly maxHeldPerOwner?: number;
}

/** Opens a descriptor that is closed for its caller when the call has truly ended. */
export type OpenDescriptor = (opening: () => number) => number;

export interface ThreadCall<Order, Answer> {
  /** On whose behalf it is, as a VM: what holds one owner's calls costs that owner. */
  readonly owner: string;
  /** In words, what it is about. */
  readonly about: string;
  /** Called when a thread takes it. What it throws is the call's rejection. */
  readonly make: (open: OpenDescriptor) => Order;
  /** Of an answer that came too late. */
  readonly discard?: (answer: Answer) => void;
}

interface Pending<Order, Answer> {
  readonly call: ThreadCall<Order, Answer>;
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
  readonly timer: NodeJS.Timeout;
}

interface Running<Order, Answer> {
  readonly pending: Pending<Order, Answer>;
  readonly descriptors: readonly number[];
  readonly patience: NodeJS.Timeout;
  state: 'quick' | 'slow' | 'held';
}

interface Slot<Order, Answer> {
  readonly thread: PoolThread<Order, Answer>;
  running?: Running<Order, Answer> | undefined;
}

const defaults = { deadlineMs: 10_000, patienceMs: 250, idleMs: 60_000, maxThreads: 24, maxHeldPerOwner: 2, data: {} };

/**
 * Calls that the kernel may not come back from, each on a thread at a time. One thread does them all as long as they are quick;
 * one that is held by a call is left to it, until the call ends or for ever: no thread can be ended out of the kernel. How many
 * are held is bounded, for each owner and in all; beyond that calls are refused at once.
 */
export class ThreadPool<Order, Answer> {
  readonly #options: Required<ThreadPoolOptions>;
  readonly #slots = new Set<Slot<Order, Answer>>();
  #waiting: Pending<Order, Answer>[] = [];
  #idle: NodeJS.Timeout | undefined;
  #prepared: Promise<unknown> | undefined;
  #leaves = false;

  constructor(options: ThreadPoolOptions) {
    this.#options = { ...defaults, ...options };
  }

  /** In words, what the calls are about that were given up and have not ended. */
  get held(): readonly string[] {
    return this.#held().map(({ pending }) => pending.call.about);
  }

  /** Rejects with ThreadError, or with what `make` throws. */
  async call(call: ThreadCall<Order, Answer>): Promise<Answer> {
    clearTimeout(this.#idle);
    // Threads for files are started by the first thread that needs one, in its namespaces: not by one of these.
    this.#prepared ??= stat('/').catch(() => undefined);
    await this.#prepared;
    const refusal = this.#refusal(call);
    if (refusal) throw refusal;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.#giveUp(pending), this.#options.deadlineMs);
      const pending: Pending<Order, Answer> = { call, resolve, reject, timer };
      this.#waiting.push(pending);
      this.#goOn();
    });
  }

  /** Ends the threads, but for those that are held: nothing waits for these. A later call starts another one. */
  async stop(): Promise<void> {
    clearTimeout(this.#idle);
    await Promise.all(
      [...this.#slots].map((slot) => {
        slot.thread.end();
        if (slot.running?.state === 'held') return undefined;
        if (!slot.running) this.#slots.delete(slot);
        return slot.thread.ended;
      }),
    );
  }

  #held(): Running<Order, Answer>[] {
    return [...this.#slots].flatMap(({ running }) => (running?.state === 'held' ? running : []));
  }

  #refusal({ owner, about }: ThreadCall<Order, Answer>): ThreadError | undefined {
    const { does, maxThreads, maxHeldPerOwner } = this.#options;
    const held = this.#held();
    const own = held.filter(({ pending }) => pending.call.owner === owner);
    const isItself = own.some(({ pending }) => pending.call.about === about);
    const which = isItself || own.length >= maxHeldPerOwner ? own : held.length >= maxThreads ? held : [];
    if (which.length === 0) return undefined;
    const shown = [...new Set(which.map(({ pending }) => pending.call.about))].slice(0, 8).join(', ');
    const problem = `${which.length} of the threads that ${does} are held by storage that does not answer (${shown})`;
    return new ThreadError('THREADS_HELD', `${problem}: this goes on when it answers`);
  }

  #goOn(): void {
    for (;;) {
      const next = this.#waiting.find((pending) => this.#mayRun(pending));
      const slot = next && this.#slot();
      if (!slot) break;
      this.#waiting = this.#waiting.filter((pending) => pending !== next);
      this.#run(slot, next);
    }
    const isBusy =
      this.#waiting.length > 0 || [...this.#slots].some(({ running }) => running && running.state !== 'held');
    clearTimeout(this.#idle);
    if (!isBusy && this.#slots.size > 0) this.#endWhenIdle();
  }

  /** Calls of one owner that come at once are not held at once: those that may become so count as well. */
  #mayRun({ call: { owner } }: Pending<Order, Answer>): boolean {
    const own = [...this.#slots].filter(({ running }) => running && running.pending.call.owner === owner);
    return own.filter(({ running }) => running?.state !== 'quick').length < this.#options.maxHeldPerOwner;
  }

  /** Undefined: one is free soon, or no more are allowed. */
  #slot(): Slot<Order, Answer> | undefined {
    const slots = [...this.#slots];
    const free = slots.find(({ running }) => !running);
    if (free || slots.some(({ running }) => running?.state === 'quick')) return free;
    return slots.length < this.#options.maxThreads ? this.#start() : undefined;
  }

  #start(): Slot<Order, Answer> | undefined {
    try {
      const slot: Slot<Order, Answer> = {
        thread: new PoolThread<Order, Answer>(this.#options.program, this.#options.data, {
          answered: (answer) => this.#end(slot, ({ resolve }) => resolve(answer), answer),
          ended: (why) => {
            this.#slots.delete(slot);
            const problem = `the thread that ${this.#options.does} has ended (${why}): the next call starts another one`;
            this.#end(slot, ({ reject }) => reject(new ThreadError('THREAD_ENDED', problem)));
          },
        }),
      };
      this.#slots.add(slot);
      return slot;
    } catch (cause) {
      const problem = `the thread that ${this.#options.does} cannot be started: ${errorMessage(cause)}`;
      for (const pending of this.#waiting.splice(0)) {
        clearTimeout(pending.timer);
        pending.reject(new ThreadError('THREAD_ENDED', problem, { cause }));
      }
      return undefined;
    }
  }

  #run(slot: Slot<Order, Answer>, pending: Pending<Order, Answer>): void {
    const descriptors: number[] = [];
    try {
      const order = pending.call.make((opening) => {
        const descriptor = opening();
        descriptors.push(descriptor);
        return descriptor;
      });
      const patience = setTimeout(() => this.#losePatience(slot), this.#options.patienceMs).unref();
      slot.running = { pending, descriptors, patience, state: 'quick' };
      slot.thread.give(order);
    } catch (error) {
      for (const descriptor of descriptors) closeSync(descriptor);
      clearTimeout(pending.timer);
      pending.reject(error);
    }
  }

  #losePatience({ running }: Slot<Order, Answer>): void {
    if (running) running.state = 'slow';
    this.#goOn();
  }

  /** Descriptors stay open as long as the thread may still use their numbers. */
  #giveUp(pending: Pending<Order, Answer>): void {
    const { does, deadlineMs } = this.#options;
    this.#waiting = this.#waiting.filter((each) => each !== pending);
    const slot = [...this.#slots].find(({ running }) => running?.pending === pending);
    const why = slot ? 'no answer' : 'no thread was free';
    if (slot?.running) {
      slot.running.state = 'held';
      slot.thread.abandon();
      this.#leaveWithoutHeld();
    }
    const problem = `the thread that ${does} was given up (${why} within ${deadlineMs} ms, ${pending.call.about})`;
    pending.reject(new ThreadError('THREAD_LATE', problem));
    this.#goOn();
  }

  #end(slot: Slot<Order, Answer>, settle: (pending: Pending<Order, Answer>) => void, answer?: Answer): void {
    const { running } = slot;
    slot.running = undefined;
    if (running) {
      clearTimeout(running.patience);
      clearTimeout(running.pending.timer);
      for (const descriptor of running.descriptors) closeSync(descriptor);
      if (running.state !== 'held') settle(running.pending);
      else if (answer !== undefined) running.pending.call.discard?.(answer);
    }
    this.#goOn();
  }

  #endWhenIdle(): void {
    this.#idle = setTimeout(() => {
      for (const slot of [...this.#slots].filter(({ running }) => !running)) {
        this.#slots.delete(slot);
        slot.thread.end();
      }
    }, this.#options.idleMs).unref();
  }

  /** Node.js waits for its threads when it ends, and these do not end. */
  #leaveWithoutHeld(): void {
    if (this.#leaves) return;
    this.#leaves = true;
    process.once('exit', (code) => {
      if (this.#held().length === 0) return;
      const koffi = createRequire(import.meta.url)('koffi');
      koffi.load(null).func('void _exit(int code)')(code);
    });
  }
}
