import { Session } from 'node:inspector';
import { type Clock, CodedError } from '../../base/index.ts';

/** The profiler cannot do this now; the message says why. */
export class ProfilerError extends CodedError<'OFF' | 'NOT_STARTED' | 'RUNNING'> {}

/** What nobody ends is ended after this: profiles grow in memory. */
const longestMs = 300_000;

/**
 * Profiles of this process for upstream's routes (spec 30 §2), when `clusterProfiler` asks for it: CPU (V8's `.cpuprofile`) and
 * memory (`.heapprofile`: who allocated how much). Never a heap snapshot, which would have every secret of the agent in it.
 */
export class Profiler {
  readonly #isAllowed: () => boolean;
  readonly #clock: Clock;
  #session: Session | undefined;
  #cancelEnd: (() => void) | undefined;
  #profiles: Readonly<Record<string, string>> | undefined;

  constructor(deps: { readonly isAllowed: () => boolean; readonly clock: Clock }) {
    this.#isAllowed = deps.isAllowed;
    this.#clock = deps.clock;
  }

  async start(): Promise<void> {
    this.#assertAllowed();
    if (this.#session) throw new ProfilerError('RUNNING', 'a profile is being taken: stop it first');
    const session = new Session();
    this.#session = session;
    this.#profiles = undefined;
    this.#cancelEnd = this.#clock.schedule(longestMs, () => void this.#end().catch(() => undefined));
    session.connect();
    await post(session, 'Profiler.enable');
    await post(session, 'Profiler.start');
    await post(session, 'HeapProfiler.startSampling');
  }

  async stop(): Promise<void> {
    this.#assertAllowed();
    if (!this.#session) throw new ProfilerError('NOT_STARTED', 'no profile is being taken: start one first');
    await this.#end();
  }

  /** Type → base64, of the last profile that was ended. */
  dump(): { readonly pprofData: Readonly<Record<string, string>> } {
    this.#assertAllowed();
    if (!this.#profiles) throw new ProfilerError('NOT_STARTED', 'there is no profile: start one, then stop it');
    return { pprofData: this.#profiles };
  }

  /** The agent leaves. */
  async close(): Promise<void> {
    await this.#end();
    this.#profiles = undefined;
  }

  async #end(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    this.#cancelEnd?.();
    if (!session) return;
    try {
      const cpu = await post(session, 'Profiler.stop');
      const heap = await post(session, 'HeapProfiler.stopSampling');
      this.#profiles = { cpu: encoded(cpu), heap: encoded(heap) };
    } finally {
      session.disconnect();
    }
  }

  #assertAllowed(): void {
    if (this.#isAllowed()) return;
    const field = 'spec.configuration.developerConfiguration.clusterProfiler';
    throw new ProfilerError('OFF', `the profiler is off: set ${field} of the KubeVirt object to true`);
  }
}

function post(session: Session, method: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    session.post(method, (error, result) => (error ? reject(error) : resolve(result)));
  });
}

function encoded(answer: unknown): string {
  const profile = (answer as { readonly profile?: unknown } | undefined)?.profile;
  return Buffer.from(JSON.stringify(profile ?? {})).toString('base64');
}
