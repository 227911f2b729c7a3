import type { DomainSpec } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger, memberAt, sleep, systemClock } from '../../base/index.ts';
import { type JobStats, JobType, type TypedParams } from '../../libvirt/index.ts';
import { parseDomainXml } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import type { GuestStore } from '../guest-agent/index.ts';
import { existingDomain, type Hypervisor } from '../ports.ts';
import { type DomainStats, domainStats, measuredDirtyRate } from './domain-stats.ts';

export interface StatsCollectorDeps {
  readonly hypervisor: Pick<
    Hypervisor,
    'lookup' | 'stats' | 'memoryStats' | 'vcpuPins' | 'xml' | 'measureDirtyRate' | 'jobStats'
  >;
  readonly guest: GuestStore;
  readonly log: Logger;
  readonly clock?: Clock;
}

/** Upstream's refresh period; here a sample is only taken when a caller asks and the last one is older. */
const maxAgeMs = 3250;
const dirtyRateSeconds = 1;
const dirtyRateTries = 10;

/** Statistics of the domain, cached as upstream caches them. Without a caller there is no work. */
export class StatsCollector {
  readonly #domainName: string;
  readonly #deps: StatsCollectorDeps;
  readonly #clock: Clock;
  #sample: { readonly takenMs: number; readonly stats: Promise<DomainStats> } | undefined;
  #measurement: Promise<bigint> | undefined;

  constructor(options: { readonly domainName: string }, deps: StatsCollectorDeps) {
    this.#domainName = options.domainName;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
  }

  /** Throws `empty DomainStats` when no domain runs. */
  current(): Promise<DomainStats> {
    const nowMs = this.#clock.monotonicMs();
    if (!this.#sample || nowMs - this.#sample.takenMs >= maxAgeMs) {
      const sample = { takenMs: nowMs, stats: this.#take() };
      this.#sample = sample;
      // A failure is not kept.
      sample.stats.catch(() => {
        if (this.#sample === sample) this.#sample = undefined;
      });
    }
    return this.#sample.stats;
  }

  /** Measures for one second; callers meanwhile share the result. In MiB/s. */
  dirtyRate(): Promise<bigint> {
    this.#measurement ??= this.#measureDirtyRate().finally(() => {
      this.#measurement = undefined;
    });
    return this.#measurement;
  }

  async #measureDirtyRate(): Promise<bigint> {
    const { hypervisor } = this.#deps;
    const domain = await existingDomain(hypervisor, this.#domainName);
    await hypervisor.measureDirtyRate(domain, dirtyRateSeconds);
    for (let tries = 0; tries < dirtyRateTries; tries++) {
      await sleep(tries === 0 ? dirtyRateSeconds * 1000 : 200, undefined, this.#clock);
      const rate = measuredDirtyRate((await this.#own()).params);
      if (rate !== undefined) return rate;
    }
    throw new LauncherError('AGENT_FAILED', 'the dirty rate was not measured in time');
  }

  async #own(): Promise<{ domain: Awaited<ReturnType<Hypervisor['stats']>>[number]['domain']; params: TypedParams }> {
    const records = await this.#deps.hypervisor.stats();
    const own = records.find(({ domain }) => domain.name === this.#domainName);
    if (!own) throw new LauncherError('DOMAIN_NOT_FOUND', 'empty DomainStats');
    return own;
  }

  async #take(): Promise<DomainStats> {
    const { hypervisor, guest } = this.#deps;
    const { domain, params } = await this.#own();
    const [memory, cpuMap, aliases, job] = await Promise.all([
      this.#optional(hypervisor.memoryStats(domain)),
      this.#optional(hypervisor.vcpuPins(domain)),
      this.#optional(hypervisor.xml(domain).then(aliasesByTarget)),
      this.#optional(hypervisor.jobStats(domain).then(paramsOfJob)),
    ]);
    const { load } = guest.facts;
    return domainStats({
      domain,
      params,
      memory: memory ?? new Map(),
      cpuMap,
      load,
      aliases: aliases ?? new Map(),
      job,
    });
  }

  /** One part that fails leaves its values unset. */
  async #optional<T>(part: Promise<T>): Promise<T | undefined> {
    try {
      return await part;
    } catch (error) {
      this.#deps.log.debug({ err: errorMessage(error) }, 'part of the statistics is not available');
      return undefined;
    }
  }
}

function paramsOfJob({ type, params }: JobStats): TypedParams | undefined {
  return type === JobType.BOUNDED || type === JobType.UNBOUNDED ? params : undefined;
}

function aliasesByTarget(xml: string): Map<string, string> {
  const { Disks, Interfaces } = (parseDomainXml(xml) as Pick<DomainSpec, 'Devices'>).Devices;
  const found = new Map<string, string>();
  for (const { Target, Alias } of Disks ?? []) if (Alias && Target.Device) found.set(Target.Device, Alias.Name);
  for (const { Target, Alias } of Interfaces ?? []) {
    const device = targetDevice(Target);
    if (Alias && device) found.set(device, Alias.Name);
  }
  return found;
}

function targetDevice(target: unknown): string | undefined {
  const device = memberAt(target, 'Device');
  return typeof device === 'string' ? device : undefined;
}
