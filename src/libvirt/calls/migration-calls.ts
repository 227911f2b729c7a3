import type { DomainRef } from '../domain.ts';
import { procedures } from '../procedures.ts';
import type { TypedParam } from '../typed-params.ts';
import type { LibvirtCallOptions } from './connection-calls.ts';
import { DeviceCalls } from './device-calls.ts';

/** Where a domain goes, and how. What is left out is libvirt's default. */
export interface MigrationTarget {
  /** Of the target's daemon, as the source's daemon reaches it: `qemu+unix:///session?socket=/path`. */
  readonly connectUri: string;
  /** Where the target's QEMU listens for the memory: `unix:///path`, `tcp://host:port`. */
  readonly migrateUri?: string;
  /** Where it listens for disks. */
  readonly disksUri?: string;
  /** Target devices (`vda`) that are copied; none is read-only, libvirt refuses the migration for such a one. */
  readonly disks?: readonly string[];
  readonly destinationName?: string;
  readonly destinationXml?: string;
  readonly persistentXml?: string;
  /** 0 is no limit. */
  readonly bandwidthMiBps?: number;
  readonly postCopyBandwidthMiBps?: number;
  /** With `MigrateFlag.PARALLEL`. */
  readonly parallelConnections?: number;
}

/** Live migration from one daemon to another (virDomainMigrateToURI3 with PEER2PEER). */
export abstract class MigrationCalls extends DeviceCalls {
  /**
   * Resolves when the domain runs on the target. The daemons speak with one another, so this is one call that takes as long as the
   * migration does, without a limit unless `timeoutMs` is given: make it on a connection of its own, and end it by `abortJob` on
   * another one (giving up the wait ends nothing). Whether a failure was an abort is not to be seen from its error: a migration that is
   * aborted while its streams hang fails with OPERATION_FAILED. After `CONNECTION_LOST` the daemon, where it lives, goes on.
   * `flags`: `MigrateFlag`.
   */
  async migrate(
    domain: DomainRef,
    { connectUri, ...target }: MigrationTarget,
    flags: number,
    options?: LibvirtCallOptions,
  ): Promise<void> {
    const args = { domain, connectUri, params: migrationParams(target), cookie: Buffer.alloc(0), flags };
    const unlimited = { timeoutMs: Number.POSITIVE_INFINITY };
    await this.invoke(procedures.domainMigratePerform, args, { ...unlimited, ...options });
  }

  /** From then on the guest runs on the target and fetches what is missing. Only of a migration with `MigrateFlag.POSTCOPY`. */
  startPostCopy(domain: DomainRef, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainMigrateStartPostCopy, { domain, flags: 0 }, options);
  }

  /** The longest pause that QEMU aims at for the switch to the target. */
  setMaxDowntime(domain: DomainRef, milliseconds: number, options?: LibvirtCallOptions): Promise<void> {
    const args = { domain, milliseconds: BigInt(milliseconds), flags: 0 };
    return this.invoke(procedures.domainMigrateSetMaxDowntime, args, options);
  }

  async getMaxDowntime(domain: DomainRef, options?: LibvirtCallOptions): Promise<number> {
    return Number((await this.invoke(procedures.domainMigrateGetMaxDowntime, { domain, flags: 0 }, options)).value);
  }

  /** In MiB/s, also of a migration that is under way. `flags`: `MaxSpeedFlag`. */
  setMaxSpeed(domain: DomainRef, mebibytesPerSecond: number, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    const args = { domain, mebibytesPerSecond: BigInt(mebibytesPerSecond), flags };
    return this.invoke(procedures.domainMigrateSetMaxSpeed, args, options);
  }

  /** In MiB/s; libvirt tells no limit by a huge number. `flags`: `MaxSpeedFlag`. */
  async getMaxSpeed(domain: DomainRef, flags = 0, options?: LibvirtCallOptions): Promise<number> {
    return Number((await this.invoke(procedures.domainMigrateGetMaxSpeed, { domain, flags }, options)).value);
  }
}

/** By the names and types of libvirt's VIR_MIGRATE_PARAM_*: a wrong type is refused by the daemon. */
function migrationParams(target: Omit<MigrationTarget, 'connectUri'>): readonly TypedParam[] {
  const texts = {
    migrate_uri: target.migrateUri,
    disks_uri: target.disksUri,
    destination_name: target.destinationName,
    destination_xml: target.destinationXml,
    persistent_xml: target.persistentXml,
  };
  const speeds = { bandwidth: target.bandwidthMiBps, 'bandwidth.postcopy': target.postCopyBandwidthMiBps };
  return [
    ...Object.entries(texts).flatMap(([field, value]) =>
      value === undefined ? [] : [{ field, type: 'string' as const, value }],
    ),
    ...(target.disks ?? []).map((value) => ({ field: 'migrate_disks', type: 'string' as const, value })),
    ...Object.entries(speeds).flatMap(([field, value]) =>
      value === undefined ? [] : [{ field, type: 'ullong' as const, value: BigInt(value) }],
    ),
    ...(target.parallelConnections === undefined
      ? []
      : [{ field: 'parallel.connections', type: 'int' as const, value: target.parallelConnections }]),
  ];
}
