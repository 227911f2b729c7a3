import type { Key } from '../../api/index.ts';
import { type Clock, errorCode, errorMessage } from '../../base/index.ts';

/** How far one claim is filled by this process. */
export type FillState =
  | { readonly kind: 'none' }
  /** Others are filled first. */
  | { readonly kind: 'queued' }
  /** `share` from 0 to 1; undefined: not known. */
  | { readonly kind: 'running'; readonly share: number | undefined }
  | { readonly kind: 'filled' }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string; readonly atMs: number };

export interface Filling {
  readonly signal: AbortSignal;
  readonly onProgress: (share: number) => void;
}

interface Job {
  readonly uid: string;
  state: FillState;
  readonly ending: AbortController;
  done: Promise<void>;
}

/** So many at a time: each takes a CPU and the disk. */
const maxAtOnce = 2;
/** Progress is written to the API server no more often. */
const progressMs = 1_000;

/** What fills claims now, by their keys; another claim of the same name is another one. Nothing of it outlives this process: what was not whole is begun anew. */
export class Fillings {
  readonly #jobs = new Map<string, Job>();
  readonly #failures = new Map<string, number>();
  readonly #waiting: (() => void)[] = [];
  readonly #clock: Clock;
  #running = 0;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  stateOf(key: Key, uid: string): FillState {
    const job = this.#jobs.get(key);
    return job?.uid === uid ? job.state : { kind: 'none' };
  }

  /** Tries that have failed. */
  failuresOf(uid: string): number {
    return this.#failures.get(uid) ?? 0;
  }

  /** Begins, unless it is under way; `changed` is called whenever `stateOf` says something new. Resolves with the state that it ends with. */
  async start(
    key: Key,
    uid: string,
    fill: (filling: Filling) => Promise<void>,
    changed: () => void,
  ): Promise<FillState> {
    const known = this.#jobs.get(key);
    if (known?.uid === uid && known.state.kind !== 'failed') {
      await known.done;
      return known.state;
    }
    if (known && known.uid !== uid) await this.forget(key);
    const job: Job = { uid, state: { kind: 'queued' }, ending: new AbortController(), done: Promise.resolve() };
    this.#jobs.set(key, job);
    job.done = this.#run(job, fill, changed);
    await job.done;
    return job.state;
  }

  /** Ends what is under way for it, and forgets it. Resolves when nothing of it runs any more. */
  async forget(key: Key): Promise<void> {
    const job = this.#jobs.get(key);
    if (!job) return;
    this.#jobs.delete(key);
    job.ending.abort(new Error('the claim is not filled any more'));
    await job.done;
    this.#failures.delete(job.uid);
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#jobs.keys()].map((key) => this.forget(key)));
  }

  async #run(job: Job, fill: (filling: Filling) => Promise<void>, changed: () => void): Promise<void> {
    const { uid } = job;
    const { signal } = job.ending;
    const become = (state: FillState) => {
      job.state = state;
      if (!signal.aborted) changed();
    };
    await this.#turn();
    let toldMs = Number.NEGATIVE_INFINITY;
    const onProgress = (share: number) => {
      job.state = { kind: 'running', share };
      if (this.#clock.monotonicMs() - toldMs < progressMs) return;
      toldMs = this.#clock.monotonicMs();
      become(job.state);
    };
    try {
      signal.throwIfAborted();
      become({ kind: 'running', share: undefined });
      await fill({ signal, onProgress });
      become({ kind: 'filled' });
    } catch (error) {
      this.#failures.set(uid, this.failuresOf(uid) + 1);
      const atMs = this.#clock.monotonicMs();
      become({ kind: 'failed', code: errorCode(error) ?? 'FAILED', message: errorMessage(error), atMs });
    } finally {
      this.#running--;
      this.#waiting.shift()?.();
    }
  }

  async #turn(): Promise<void> {
    if (this.#running >= maxAtOnce) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#running++;
  }
}
