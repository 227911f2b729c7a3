import { type Clock, errorMessage, withDeadline } from '../base/index.ts';

export interface HealthDeps {
  /** `GET /version` of the API server; anything that it says. */
  readonly askVersion: (signal: AbortSignal) => Promise<unknown>;
  /** How often the watch of the CA bundle has failed: after a failure the version is asked for again, as upstream does. */
  readonly watchFailures: () => number;
  /** `resourceVersion` of the KubeVirt object; empty: none. */
  readonly configVersion: () => string;
  /** Why the agent is not ready; empty: it is. */
  readonly notReady: () => readonly string[];
  readonly lastSuccesses: () => readonly { readonly what: string; readonly lastSuccessMs: number | undefined }[];
  readonly clock: Clock;
}

export interface HealthAnswer {
  readonly status: 200 | 500 | 503;
  readonly body: object;
}

/** A probe is answered after this at the latest, whatever the API server does. */
const waitMs = 1_000;
const askTimeoutMs = 5_000;
/** A failure is as good as a new one for this long. */
const failureHoldsMs = 1_000;

/**
 * `/healthz` is upstream's (pkg/healthz): it fails while the API server does not answer its version, and upstream's DaemonSet
 * ends the agent then. `/livez` only says that this process answers, so that no agent is ended because the API server is away;
 * `/readyz` says whether it serves. Neither waits for a launcher, and the last two wait for nothing.
 */
export class Health {
  readonly #deps: HealthDeps;
  readonly #stopping = new AbortController();
  #version: unknown;
  #failuresThen = 0;
  #asking: Promise<void> | undefined;
  #failure: { readonly message: string; readonly atMs: number } | undefined;

  constructor(deps: HealthDeps) {
    this.#deps = deps;
  }

  stop(): void {
    this.#stopping.abort(new Error('health is not served any more'));
  }

  async healthz(): Promise<HealthAnswer> {
    if (this.#deps.watchFailures() !== this.#failuresThen) this.#version = undefined;
    if (this.#version === undefined) await this.#ask();
    const rest = { 'config-resource-version': this.#deps.configVersion(), lastSuccessSecondsAgo: this.#ages() };
    if (this.#version !== undefined) {
      return { status: 200, body: { apiserver: { connectivity: 'ok', version: this.#version }, ...rest } };
    }
    const error = this.#failure?.message ?? `no answer in ${waitMs} ms`;
    return { status: 500, body: { apiserver: { connectivity: 'failed', error }, ...rest } };
  }

  livez(): HealthAnswer {
    return { status: 200, body: { alive: true, lastSuccessSecondsAgo: this.#ages() } };
  }

  readyz(): HealthAnswer {
    const because = this.#deps.notReady();
    const ready = because.length === 0;
    const body = { ready, ...(ready ? {} : { because }), lastSuccessSecondsAgo: this.#ages() };
    return { status: ready ? 200 : 503, body };
  }

  /** One question for all who ask meanwhile. */
  async #ask(): Promise<void> {
    const { clock } = this.#deps;
    const isFresh = this.#failure && clock.monotonicMs() - this.#failure.atMs < failureHoldsMs;
    if (!this.#asking && isFresh) return;
    this.#asking ??= this.#askOnce().finally(() => {
      this.#asking = undefined;
    });
    const asking = this.#asking;
    await new Promise<void>((resolve) => {
      const cancel = clock.schedule(waitMs, resolve);
      void asking.then(() => {
        cancel();
        resolve();
      });
    });
  }

  async #askOnce(): Promise<void> {
    const { askVersion, watchFailures, clock } = this.#deps;
    const failures = watchFailures();
    try {
      const version = await withDeadline({ timeoutMs: askTimeoutMs, signal: this.#stopping.signal, clock }, (signal) =>
        askVersion(signal),
      );
      if (typeof version !== 'object' || version === null) throw new Error('the API server answers no version');
      this.#version = version;
      this.#failuresThen = failures;
      this.#failure = undefined;
    } catch (error) {
      this.#failure = { message: errorMessage(error), atMs: clock.monotonicMs() };
    }
  }

  #ages(): Record<string, number | null> {
    const nowMs = this.#deps.clock.monotonicMs();
    const entries = this.#deps
      .lastSuccesses()
      .map(({ what, lastSuccessMs }) => [
        what,
        lastSuccessMs === undefined ? null : Math.round((nowMs - lastSuccessMs) / 100) / 10,
      ]);
    return Object.fromEntries(entries);
  }
}
