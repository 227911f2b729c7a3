import type { DomainRef } from '../domain.ts';
import { isLibvirtError } from '../error.ts';
import { procedures } from '../procedures.ts';
import { type TypedParams, typedParamMap } from '../typed-params.ts';
import { ConnectionCalls, type LibvirtCallOptions } from './connection-calls.ts';

export interface DomainStateInfo {
  /** `DomainState`. */
  readonly state: number;
  /** Meaning depends on the state (remote_protocol.x of libvirt). */
  readonly reason: number;
}

export interface DomainInfo {
  readonly state: number;
  readonly maxMemoryKiB: bigint;
  readonly memoryKiB: bigint;
  readonly vcpus: number;
  readonly cpuTimeNs: bigint;
}

export interface DomainStatsRecord {
  readonly domain: DomainRef;
  readonly params: TypedParams;
}

export interface JobStats {
  /** `JobType`. */
  readonly type: number;
  readonly params: TypedParams;
}

/** A domain's life and what is known about it. */
export abstract class DomainCalls extends ConnectionCalls {
  /** Starts a defined domain; the result has the new id. `flags`: `CreateFlag`. */
  async createDomain(domain: DomainRef, flags = 0, options?: LibvirtCallOptions): Promise<DomainRef> {
    return (await this.invoke(procedures.domainCreateWithFlags, { domain, flags }, options)).domain;
  }

  /** `flags`: `XmlFlag`. */
  async getXmlDesc(domain: DomainRef, flags = 0, options?: LibvirtCallOptions): Promise<string> {
    return (await this.invoke(procedures.domainGetXmlDesc, { domain, flags }, options)).value;
  }

  getState(domain: DomainRef, options?: LibvirtCallOptions): Promise<DomainStateInfo> {
    return this.invoke(procedures.domainGetState, { domain, flags: 0 }, options);
  }

  getInfo(domain: DomainRef, options?: LibvirtCallOptions): Promise<DomainInfo> {
    return this.invoke(procedures.domainGetInfo, { domain }, options);
  }

  async isPersistent(domain: DomainRef, options?: LibvirtCallOptions): Promise<boolean> {
    return (await this.invoke(procedures.domainIsPersistent, { domain }, options)).value === 1;
  }

  suspend(domain: DomainRef, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainSuspend, { domain }, options);
  }

  resume(domain: DomainRef, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainResume, { domain }, options);
  }

  reset(domain: DomainRef, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainReset, { domain, flags: 0 }, options);
  }

  /** Asks the guest; success says only that it was asked. `flags`: `ShutdownFlag`. */
  reboot(domain: DomainRef, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainReboot, { domain, flags }, options);
  }

  /** Asks the guest; success says only that it was asked. `flags`: `ShutdownFlag`. */
  shutdown(domain: DomainRef, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainShutdown, { domain, flags }, options);
  }

  /** `flags`: `DestroyFlag`. A stopped domain: OPERATION_INVALID. */
  destroy(domain: DomainRef, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainDestroy, { domain, flags }, options);
  }

  /** `flags`: `UndefineFlag`. A running domain becomes transient. */
  undefine(domain: DomainRef, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainUndefine, { domain, flags }, options);
  }

  /** Statistics of all domains that `flags` (`ListFlag`, `StatsFlag`) select, or of `domains`. `stats`: `StatsGroup`. */
  async getAllDomainStats(
    stats: number,
    flags = 0,
    domains: readonly DomainRef[] = [],
    options?: LibvirtCallOptions,
  ): Promise<readonly DomainStatsRecord[]> {
    const { records } = await this.invoke(procedures.connectGetAllDomainStats, { domains, stats, flags }, options);
    return records.map(({ domain, params }) => ({ domain, params: typedParamMap(params) }));
  }

  /** By `MemoryStatTag`; sizes in KiB. */
  async memoryStats(domain: DomainRef, options?: LibvirtCallOptions): Promise<ReadonlyMap<number, bigint>> {
    const args = { domain, maxStats: 13, flags: 0 };
    const { stats } = await this.invoke(procedures.domainMemoryStats, args, options);
    return new Map(stats.map(({ tag, value }) => [tag, value]));
  }

  /** `flags`: `JobStatsFlag`. */
  async getJobStats(domain: DomainRef, flags = 0, options?: LibvirtCallOptions): Promise<JobStats> {
    const { type, params } = await this.invoke(procedures.domainGetJobStats, { domain, flags }, options);
    return { type, params: typedParamMap(params) };
  }

  abortJob(domain: DomainRef, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainAbortJob, { domain }, options);
  }

  /** Starts a measurement; its result comes with `StatsGroup.DIRTYRATE`. */
  startDirtyRateCalc(domain: DomainRef, seconds: number, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainStartDirtyRateCalc, { domain, seconds, flags: 0 }, options);
  }

  /** The daemon writes the file `to`. `format`: `DumpFormat`; `flags`: `DumpFlag`. Give it a long `timeoutMs`. */
  coreDumpWithFormat(
    domain: DomainRef,
    to: string,
    format: number,
    flags: number,
    options?: LibvirtCallOptions,
  ): Promise<void> {
    return this.invoke(procedures.domainCoreDump, { domain, to, format, flags }, options);
  }

  /**
   * `type`: `MetadataType`; for ELEMENT `uri` is its namespace. `flags`: `AffectFlag`. Undefined when nothing is set.
   */
  async getMetadata(
    domain: DomainRef,
    type: number,
    uri?: string,
    flags = 0,
    options?: LibvirtCallOptions,
  ): Promise<string | undefined> {
    try {
      return (await this.invoke(procedures.domainGetMetadata, { domain, type, uri, flags }, options)).value;
    } catch (error) {
      if (isLibvirtError(error, 'NO_DOMAIN_METADATA')) return undefined;
      throw error;
    }
  }

  /** Sets or, without `metadata`, removes. For ELEMENT `key` is the prefix and `uri` the namespace. */
  setMetadata(
    domain: DomainRef,
    change: { readonly type: number; readonly metadata?: string; readonly key?: string; readonly uri?: string },
    flags = 0,
    options?: LibvirtCallOptions,
  ): Promise<void> {
    const { type, metadata, key, uri } = change;
    return this.invoke(procedures.domainSetMetadata, { domain, type, metadata, key, uri, flags }, options);
  }
}
