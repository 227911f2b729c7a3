import { isDeepStrictEqual } from 'node:util';
import type { KubeObject, ResourceType } from '../api/index.ts';
import {
  type Clock,
  CodedError,
  type Logger,
  silentLogger,
  sleep,
  systemClock,
  withDeadline,
  withOwnEnding,
} from '../base/index.ts';
import type { CallOptions, KubeClient } from './client.ts';
import { isKubeError } from './errors.ts';
import { getIfThere } from './if-there.ts';
import { Informer } from './informer.ts';
import { fieldSelector } from './paths.ts';

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
  readonly client: Pick<KubeClient, 'get' | 'create' | 'update' | 'list' | 'watch'>;
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

/** A lease is looked at so long after its time is over. */
const expiryGraceMs = 50;

const leases: ResourceType = {
  group: 'coordination.k8s.io',
  version: 'v1',
  resource: 'leases',
  kind: 'Lease',
  namespaced: true,
};

/** Who does not hold the lease, or no longer for sure, writes nothing. */
export class NotLeadingError extends CodedError<'NOT_LEADING'> {}

/** What became of a lease that was held. `reason`: for people. */
export type LeaseEnd = { readonly kind: 'released' } | { readonly kind: 'lost'; readonly reason: string };

/**
 * One leader among processes by a Lease. Times of others are never compared with our clock, only watched for change. Who waits watches
 * the lease, so that one that is given back is taken at once, and one that is not renewed when its time is over.
 */
export class LeaderElector {
  readonly #options: LeaderElectorOptions;
  readonly #client: LeaderElectorDeps['client'];
  readonly #clock: Clock;
  readonly #log: Logger;
  #seen: { readonly spec: Lease['spec']; readonly sinceMs: number } | undefined;
  #holder = '';
  /** When the last renewal that succeeded was sent, by both clocks; undefined: the lease is not held. */
  #renewed: { readonly monotonicMs: number; readonly wallMs: number } | undefined;
  /** Named by the lease, while this process believed to hold it. */
  #successor: string | undefined;

  constructor(options: LeaderElectorOptions, deps: LeaderElectorDeps) {
    this.#options = options;
    this.#client = deps.client;
    this.#clock = deps.clock ?? systemClock;
    this.#log = deps.log ?? silentLogger;
  }

  /** The lease is held, and was renewed within the deadline. */
  get isLeading(): boolean {
    return this.#leftMs() > 0;
  }

  /** For a client whose writes are the leader's: throws NotLeadingError as soon as another process may lead, also in one that had been stopped for a while. */
  readonly guard = (): void => {
    if (this.isLeading) return;
    const { namespace, name } = this.#options;
    throw new NotLeadingError('NOT_LEADING', `lease ${namespace}/${name} is not held: nothing is written`);
  };

  /** Resolves when this process holds the lease; rejects with the signal's reason. */
  async acquire(signal: AbortSignal): Promise<void> {
    const watch = new Informer<Lease>(
      {
        type: leases,
        namespace: this.#options.namespace,
        fieldSelector: fieldSelector({ 'metadata.name': this.#options.name }),
      },
      { client: this.#client, clock: this.#clock, log: this.#log },
    );
    let wake: () => void = () => undefined;
    const changed = () => wake();
    watch.addHandlers({ added: changed, updated: changed, deleted: changed });
    await watch.start();
    try {
      for (;;) {
        const woken = new Promise<void>((resolve) => {
          wake = resolve;
        });
        if (await this.#tryOnce(signal)) return;
        await this.#pause(woken, signal);
      }
    } finally {
      await watch.stop();
    }
  }

  /** Renews until the signal ends it, then gives the lease back. It is lost when it could not be renewed in time, or names another process. */
  async hold(signal: AbortSignal): Promise<LeaseEnd> {
    while (!signal.aborted) {
      const pauseMs = Math.min(this.#options.retryPeriodMs, this.#leftMs());
      await sleep(pauseMs, signal, this.#clock).catch(() => undefined);
      if (signal.aborted) break;
      if (await this.#renewInTime(signal)) continue;
      const reason = this.#whyLost();
      if (reason === undefined || signal.aborted) continue;
      this.#renewed = undefined;
      return { kind: 'lost', reason };
    }
    this.#renewed = undefined;
    await this.#release().catch((error: unknown) =>
      this.#log.debug({ err: error }, 'the lease could not be given back'),
    );
    return { kind: 'released' };
  }

  /**
   * Until the lease counts as lost; 0: it does. The monotonic clock stands still while the machine is suspended, and the wall clock may be set: the
   * one that has gone further counts, as a lease that is lost for nothing costs a moment and one that is held by two costs more.
   */
  #leftMs(): number {
    if (this.#renewed === undefined) return 0;
    const { monotonicMs, wallMs } = this.#now();
    const passedMs = Math.max(monotonicMs - this.#renewed.monotonicMs, wallMs - this.#renewed.wallMs);
    return Math.max(0, this.#options.renewDeadlineMs - passedMs);
  }

  #now() {
    return { monotonicMs: this.#clock.monotonicMs(), wallMs: this.#clock.now().getTime() };
  }

  /** An API server that does not answer takes no longer than there is left. */
  async #renewInTime(signal: AbortSignal): Promise<boolean> {
    const timeoutMs = this.#leftMs();
    if (timeoutMs === 0) return false;
    const renew = (ending: AbortSignal) => this.#tryOnce(ending);
    return withDeadline({ timeoutMs, signal, clock: this.#clock }, renew).catch(() => false);
  }

  #whyLost(): string | undefined {
    if (this.#successor !== undefined) return `${this.#successor} holds it`;
    return this.isLeading ? undefined : `it could not be renewed for ${this.#options.renewDeadlineMs} ms`;
  }

  /** Until the lease changes, its time is over, or it is time to look in any case: a watch may be silent. */
  async #pause(woken: Promise<void>, signal: AbortSignal): Promise<void> {
    const { durationMs, retryPeriodMs } = this.#options;
    const endsMs = this.#seen ? this.#seen.sinceMs + durationMs : Number.POSITIVE_INFINITY;
    const waitMs = Math.min(retryPeriodMs, Math.max(expiryGraceMs, endsMs - this.#clock.monotonicMs() + expiryGraceMs));
    await withOwnEnding(signal, async (ending) => {
      await Promise.race([woken, sleep(waitMs, ending.signal, this.#clock).catch(() => undefined)]);
      ending.abort();
    });
    signal.throwIfAborted();
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
    const now = this.#now();
    this.#successor = undefined;
    const time = microTime(new Date(now.wallMs));
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
      this.#renewed = now;
      return true;
    }
    const { spec = {} } = old;
    if (!this.#seen || !isDeepStrictEqual(this.#seen.spec, spec)) this.#seen = { spec, sinceMs: now.monotonicMs };
    const isOurs = spec.holderIdentity === identity;
    if (!isOurs && spec.holderIdentity && this.#renewed !== undefined) {
      this.#successor = spec.holderIdentity;
      return false;
    }
    if (!isOurs && spec.holderIdentity && now.monotonicMs - this.#seen.sinceMs < durationMs) {
      if (this.#holder !== spec.holderIdentity) this.#log.info({ holder: spec.holderIdentity }, 'another one leads');
      this.#holder = spec.holderIdentity;
      return false;
    }
    const taken = isOurs ? {} : { acquireTime: time, leaseTransitions: (spec.leaseTransitions ?? 0) + 1 };
    const wanted = { ...spec, ...taken, holderIdentity: identity, leaseDurationSeconds, renewTime: time };
    await this.#client.update<Lease>(leases, { ...old, spec: wanted }, call);
    this.#renewed = now;
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
