import { cpuIndexes, cpumapOf } from '../cpumap.ts';
import type { DomainRef } from '../domain.ts';
import { procedures } from '../procedures.ts';
import type { LibvirtCallOptions } from './connection-calls.ts';
import { DomainCalls } from './domain-calls.ts';

export interface BlockInfo {
  readonly allocationBytes: bigint;
  readonly capacityBytes: bigint;
  readonly physicalBytes: bigint;
}

export interface DiskErrorInfo {
  /** Target device (`vda`). */
  readonly disk: string;
  /** `DiskError`. */
  readonly error: number;
}

/** Changes of a domain's devices, disks, vCPUs and memory. */
export abstract class DeviceCalls extends DomainCalls {
  /** `flags`: `AffectFlag`. */
  attachDevice(domain: DomainRef, xml: string, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainAttachDevice, { domain, xml, flags }, options);
  }

  /** Asks for removal; the event `deviceRemoved` says that it happened. `flags`: `AffectFlag`. */
  detachDevice(domain: DomainRef, xml: string, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainDetachDevice, { domain, xml, flags }, options);
  }

  /** Asks for removal, as `detachDevice`, and does not wait for it. `flags`: `AffectFlag`. */
  detachDeviceAlias(domain: DomainRef, alias: string, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainDetachDeviceAlias, { domain, alias, flags }, options);
  }

  /** `flags`: `AffectFlag`. */
  updateDevice(domain: DomainRef, xml: string, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainUpdateDevice, { domain, xml, flags }, options);
  }

  /** `size` is in KiB, or in bytes with `BlockResizeFlag.BYTES`. */
  blockResize(domain: DomainRef, disk: string, size: bigint, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainBlockResize, { domain, disk, size, flags }, options);
  }

  /** `disk` is a target device or a source path. */
  blockInfo(domain: DomainRef, disk: string, options?: LibvirtCallOptions): Promise<BlockInfo> {
    return this.invoke(procedures.domainGetBlockInfo, { domain, path: disk, flags: 0 }, options);
  }

  /** Disks that have an I/O error now. */
  async getDiskErrors(domain: DomainRef, options?: LibvirtCallOptions): Promise<readonly DiskErrorInfo[]> {
    const procedure = procedures.domainGetDiskErrors;
    const { count } = await this.invoke(procedure, { domain, maxErrors: 0, flags: 0 }, options);
    if (count <= 0) return [];
    const maxErrors = Math.min(count, 256);
    return (await this.invoke(procedure, { domain, maxErrors, flags: 0 }, options)).errors;
  }

  /** `flags`: `VcpuFlag`. */
  setVcpus(domain: DomainRef, count: number, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainSetVcpus, { domain, count, flags }, options);
  }

  /** `flags`: `VcpuFlag`. */
  async getVcpus(domain: DomainRef, flags = 0, options?: LibvirtCallOptions): Promise<number> {
    return (await this.invoke(procedures.domainGetVcpus, { domain, flags }, options)).value;
  }

  /** Balloon target. `flags`: `AffectFlag` (4: maximum). */
  setMemory(domain: DomainRef, memoryKiB: bigint, flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainSetMemory, { domain, memoryKiB, flags }, options);
  }

  /** How often the balloon driver reports. `flags`: `AffectFlag`. */
  setMemoryStatsPeriod(
    domain: DomainRef,
    periodSeconds: number,
    flags = 0,
    options?: LibvirtCallOptions,
  ): Promise<void> {
    return this.invoke(procedures.domainSetMemoryStatsPeriod, { domain, periodSeconds, flags }, options);
  }

  /** Pins one vCPU to host CPUs (by index). `flags`: `AffectFlag`. */
  pinVcpu(
    domain: DomainRef,
    vcpu: number,
    cpus: readonly number[],
    flags = 0,
    options?: LibvirtCallOptions,
  ): Promise<void> {
    return this.invoke(procedures.domainPinVcpu, { domain, vcpu, cpumap: cpumapOf(cpus), flags }, options);
  }

  /** Pins the emulator threads to host CPUs (by index). `flags`: `AffectFlag`. */
  pinEmulator(domain: DomainRef, cpus: readonly number[], flags = 0, options?: LibvirtCallOptions): Promise<void> {
    return this.invoke(procedures.domainPinEmulator, { domain, cpumap: cpumapOf(cpus), flags }, options);
  }

  /** Per vCPU the host CPUs (by index) it may run on. `flags`: `AffectFlag`. */
  async getVcpuPinInfo(
    domain: DomainRef,
    flags = 0,
    options?: LibvirtCallOptions,
  ): Promise<readonly (readonly number[])[]> {
    const { nodes, sockets, cores, threads } = await this.getNodeInfo(options);
    const { vcpus } = await this.getInfo(domain, options);
    const mapBytes = Math.ceil((nodes * sockets * cores * threads) / 8);
    const args = { domain, maps: vcpus, mapBytes, flags };
    const { cpumaps, count } = await this.invoke(procedures.domainGetVcpuPinInfo, args, options);
    return Array.from({ length: Math.min(count, vcpus) }, (_, vcpu) =>
      cpuIndexes(cpumaps.subarray(vcpu * mapBytes, (vcpu + 1) * mapBytes)),
    );
  }
}
