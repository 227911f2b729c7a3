import { isDeepStrictEqual } from 'node:util';
import type { KubeObject, ResourceType } from '../api/index.ts';
import { type Clock, type Logger, silentLogger, sleep, systemClock } from '../base/index.ts';
import type { CallOptions, KubeClient } from './client.ts';
import { isKubeError } from './errors.ts';
import { getIfThere } from './if-there.ts';

export interface LeaderElectorOptions {
  readonly namespace: string;
  readonly name: string;
  /** Different for each process. */
  readonly identity: string;
  /** A leader that is silent for this long is one no more. */
  readonly durationMs: number;
  /** A leader that cannot renew for this long gives up; shorter than `durationMs`. */
  readonly renewDeadlineMs: number;
  readonly retryPeriodMs: number;
}

export interface LeaderElectorDeps {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'update'>;
  readonly clock?: Clock;
  readonly log?: Logger;
}

interface Lease extends KubeObject {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

const leases: ResourceType = {
  group: 'coordination.k8s.io',
  version: 'v1',
  resource: 'leases',
  kind: 'Lease',
  namespaced: true,
};

/** One leader among processes by a Lease. Times of others are never compared with our clock, only watched for change. */
export class LeaderElector {
  readonly #options: LeaderElectorOptions;
  readonly #client: LeaderElectorDeps['client'];
  readonly #clock: Clock;
  readonly #log: Logger;
  #seen: { readonly spec: Lease['spec']; readonly sinceMs: number } | undefined;
  #holder = '';

  constructor(options: LeaderElectorOptions, deps: LeaderElectorDeps) {
    this.#options = options;
    this.#client = deps.client;
    this.#clock = deps.clock ?? systemClock;
    this.#log = deps.log ?? silentLogger;
  }

  /** Resolves when this process holds the lease; rejects with the signal's reason. */
  async acquire(signal: AbortSignal): Promise<void> {
    for (;;) {
      if (await this.#tryOnce(signal)) return;
      await sleep(this.#options.retryPeriodMs, signal, this.#clock);
    }
  }

  /** Renews until the signal ends it, then gives the lease back. Resolves `lost` when it could not be kept. */
  async hold(signal: AbortSignal): Promise<'released' | 'lost'> {
    let renewedMs = this.#clock.monotonicMs();
    while (!signal.aborted) {
      await sleep(this.#options.retryPeriodMs, signal, this.#clock).catch(() => undefined);
      if (signal.aborted) break;
      if (await this.#tryOnce(signal)) renewedMs = this.#clock.monotonicMs();
      else if (this.#clock.monotonicMs() - renewedMs >= this.#options.renewDeadlineMs) return 'lost';
    }
    await this.#release().catch((error: unknown) =>
      this.#log.debug({ err: error }, 'the lease could not be given back'),
    );
    return 'released';
  }

  /** True when the lease is ours now. A server that does not answer counts as no. */
  async #tryOnce(signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#takeOrRenew(signal);
    } catch (error) {
      if (!signal.aborted && !isKubeError(error, 'CONFLICT', 'ALREADY_EXISTS')) {
        this.#log.warn({ err: error }, 'the lease could not be read or written');
      }
      return false;
    }
  }

  async #takeOrRenew(signal: AbortSignal): Promise<boolean> {
    const { identity, durationMs, retryPeriodMs } = this.#options;
    const call = { signal, timeoutMs: Math.max(retryPeriodMs, 1_000) };
    const old = await this.#read(call);
    const nowMs = this.#clock.monotonicMs();
    const time = microTime(this.#clock.now());
    const leaseDurationSeconds = Math.ceil(durationMs / 1000);
    if (!old) {
      const spec = {
        holderIdentity: identity,
        leaseDurationSeconds,
        acquireTime: time,
        renewTime: time,
        leaseTransitions: 0,
      };
      await this.#client.create<Lease>(leases, this.#object(spec), call);
      return true;
    }
    const { spec = {} } = old;
    if (!this.#seen || !isDeepStrictEqual(this.#seen.spec, spec)) this.#seen = { spec, sinceMs: nowMs };
    const isOurs = spec.holderIdentity === identity;
    if (!isOurs && spec.holderIdentity && nowMs - this.#seen.sinceMs < durationMs) {
      if (this.#holder !== spec.holderIdentity) this.#log.info({ holder: spec.holderIdentity }, 'another one leads');
      this.#holder = spec.holderIdentity;
      return false;
    }
    const taken = isOurs ? {} : { acquireTime: time, leaseTransitions: (spec.leaseTransitions ?? 0) + 1 };
    const wanted = { ...spec, ...taken, holderIdentity: identity, leaseDurationSeconds, renewTime: time };
    await this.#client.update<Lease>(leases, { ...old, spec: wanted }, call);
    return true;
  }

  async #release(): Promise<void> {
    const old = await this.#read({ timeoutMs: 1_000 });
    if (old?.spec?.holderIdentity !== this.#options.identity) return;
    const spec = { ...old.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(this.#clock.now()) };
    await this.#client.update<Lease>(leases, { ...old, spec }, { timeoutMs: 1_000 });
  }

  #read(call: CallOptions): Promise<Lease | undefined> {
    return getIfThere<Lease>(this.#client, leases, this.#options, call);
  }

  #object(spec: Lease['spec']): Lease {
    const { name, namespace } = this.#options;
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name, namespace },
      ...(spec ? { spec } : {}),
    };
  }
}

/** RFC 3339 with six digits, as a Lease wants it. */
function microTime(time: Date): string {
  return time.toISOString().replace('Z', '000Z');
}
