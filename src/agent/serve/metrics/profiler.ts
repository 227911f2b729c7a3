import { Session } from 'node:inspector';
import { type Clock, CodedError } from '../../../base/index.ts';

/** The profiler cannot do this now; the message says why. */
export class ProfilerError extends CodedError<'BUSY' | 'NOT_STARTED' | 'OFF' | 'RUNNING' | 'TOO_LARGE'> {}

export interface ProfilerOptions {
  /** What is not ended by a request is ended after this: profiles grow in memory. */
  readonly longestMs: number;
  /** A profile is forgotten this long after its end. */
  readonly keptMs: number;
  /** Of a profile as JSON; a larger one is thrown away. */
  readonly maxBytes: number;
}

export const profilerDefaults: ProfilerOptions = { longestMs: 120_000, keptMs: 600_000, maxBytes: 16 * 1024 * 1024 };

/** V8's inspector, as much of it as is used. */
export interface ProfilerSession {
  post(method: string, params?: object): Promise<unknown>;
  close(): void;
}

export interface ProfilerDeps {
  readonly isAllowed: () => boolean;
  readonly openSession: () => ProfilerSession;
  readonly clock: Clock;
}

type Profiles = Readonly<Record<'cpu' | 'heap', string>>;

type State =
  | { readonly kind: 'idle' }
  | { readonly kind: 'starting' | 'ending' }
  | { readonly kind: 'running'; readonly session: ProfilerSession; readonly cancelEnd: () => void }
  | { readonly kind: 'ended'; readonly result: Profiles | ProfilerError; readonly cancelForget: () => void };

const idle: State = { kind: 'idle' };
/** Twice as seldom as usual: half the samples and half the cost. */
const cpuIntervalMicroseconds = 2_000;
const heapIntervalBytes = 128 * 1024;

/**
 * Profiles of this process for upstream's routes (pkg/monitoring/profiler), when `clusterProfiler` asks for it: CPU (V8's
 * `.cpuprofile`) and memory (`.heapprofile`: who allocated how much). Never a heap snapshot, which would have every secret of the
 * agent in it. Any client that reaches the port may ask, as virt-api does without a certificate: so one at a time, for a bounded time, of
 * a bounded size.
 */
export class Profiler {
  readonly #options: ProfilerOptions;
  readonly #deps: ProfilerDeps;
  #state: State = idle;
  #starting: Promise<void> | undefined;
  #ending: Promise<Profiles | ProfilerError> | undefined;

  constructor(options: ProfilerOptions, deps: ProfilerDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** What it holds: nothing of V8 unless `running`. */
  get state(): State['kind'] {
    return this.#state.kind;
  }

  /** Forgets the last profile. Rejects with what V8 says when it cannot, and is as if it had not been asked then. */
  async start(): Promise<void> {
    this.#assertAllowed();
    const { kind } = this.#state;
    if (kind !== 'idle' && kind !== 'ended') {
      throw new ProfilerError('RUNNING', 'a profile is being taken: stop it first');
    }
    this.#starting = this.#begin().finally(() => {
      this.#starting = undefined;
    });
    await this.#starting;
    // It was switched off meanwhile.
    if (!this.#deps.isAllowed()) await this.close();
  }

  async #begin(): Promise<void> {
    const session = this.#deps.openSession();
    this.#become({ kind: 'starting' });
    try {
      await session.post('Profiler.enable');
      await session.post('Profiler.setSamplingInterval', { interval: cpuIntervalMicroseconds });
      await session.post('Profiler.start');
      await session.post('HeapProfiler.startSampling', { samplingInterval: heapIntervalBytes });
    } catch (error) {
      session.close();
      this.#become(idle);
      throw error;
    }
    const cancelEnd = this.#deps.clock.schedule(this.#options.longestMs, () => void this.#end().catch(() => undefined));
    this.#become({ kind: 'running', session, cancelEnd });
  }

  async stop(): Promise<void> {
    this.#assertAllowed();
    if (this.#state.kind !== 'running') {
      throw new ProfilerError('NOT_STARTED', 'no profile is being taken: start one first');
    }
    const result = await this.#end();
    if (result instanceof ProfilerError) throw result;
  }

  /** Type → base64, of the last profile that was ended. */
  dump(): { readonly pprofData: Profiles } {
    this.#assertAllowed();
    if (this.#state.kind !== 'ended') {
      throw new ProfilerError('NOT_STARTED', 'there is no profile: start one, then stop it');
    }
    const { result } = this.#state;
    if (result instanceof ProfilerError) throw result;
    return { pprofData: result };
  }

  /** The agent leaves, or profiles are no longer allowed: what was taken is forgotten. */
  async close(): Promise<void> {
    await this.#starting?.catch(() => undefined);
    await this.#end().catch(() => undefined);
    if (this.#state.kind === 'ended') this.#become(idle);
  }

  /** Undefined: no profile is being taken. */
  async #end(): Promise<Profiles | ProfilerError | undefined> {
    if (this.#state.kind !== 'running') return this.#ending;
    this.#ending = this.#endOf(this.#state.session).finally(() => {
      this.#ending = undefined;
    });
    return this.#ending;
  }

  async #endOf(session: ProfilerSession): Promise<Profiles | ProfilerError> {
    this.#become({ kind: 'ending' });
    let next: State = idle;
    try {
      const cpu = await session.post('Profiler.stop');
      const heap = await session.post('HeapProfiler.stopSampling');
      const result = this.#bounded({ cpu: textOf(cpu), heap: textOf(heap) });
      const cancelForget = this.#deps.clock.schedule(this.#options.keptMs, () => this.#become(idle));
      next = { kind: 'ended', result, cancelForget };
      return result;
    } finally {
      session.close();
      this.#become(next);
    }
  }

  #bounded(texts: Profiles): Profiles | ProfilerError {
    const { maxBytes } = this.#options;
    const length = texts.cpu.length + texts.heap.length;
    if (length > maxBytes) {
      return new ProfilerError(
        'TOO_LARGE',
        `the profile has ${length} bytes, more than ${maxBytes}: take a shorter one`,
      );
    }
    const encoded = (text: string) => Buffer.from(text).toString('base64');
    return { cpu: encoded(texts.cpu), heap: encoded(texts.heap) };
  }

  #become(next: State): void {
    const before = this.#state;
    if (before.kind === 'running') before.cancelEnd();
    if (before.kind === 'ended') before.cancelForget();
    this.#state = next;
  }

  #assertAllowed(): void {
    if (this.#deps.isAllowed()) return;
    const field = 'spec.configuration.developerConfiguration.clusterProfiler';
    throw new ProfilerError('OFF', `the profiler is off: set ${field} of the KubeVirt object to true`);
  }
}

/** Of this process. */
export function inspectorSession(): ProfilerSession {
  const session = new Session();
  session.connect();
  return {
    post: (method, params = {}) =>
      new Promise((resolve, reject) => {
        session.post(method, params, (error, result) => (error ? reject(asError(error)) : resolve(result)));
      }),
    close: () => session.disconnect(),
  };
}

/** V8's own errors are plain objects. */
function asError(error: unknown): Error {
  if (error instanceof Error) return error;
  const { message } = error as { readonly message?: unknown };
  return new Error(`the profiler of V8 refuses: ${String(message)}`);
}

function textOf(answer: unknown): string {
  const profile = (answer as { readonly profile?: unknown } | undefined)?.profile;
  return JSON.stringify(profile ?? {});
}
