import type { DomainRef } from '../domain.ts';
import { isLibvirtError } from '../error.ts';
import { type Procedure, procedures } from '../procedures.ts';
import { type TypedParams, typedParamMap } from '../typed-params.ts';

export interface LibvirtCallOptions {
  /** Aborts the wait (`CALL_ABORTED`); the daemon may still carry the call out. */
  readonly signal?: AbortSignal;
  /** Longest wait for the answer (`CALL_TIMEOUT`); the client's `callTimeoutMs` unless given, none with `Infinity`. */
  readonly timeoutMs?: number;
}

export interface NodeInfo {
  readonly model: string;
  readonly memoryKiB: bigint;
  readonly cpus: number;
  readonly mhz: number;
  readonly nodes: number;
  readonly sockets: number;
  readonly cores: number;
  readonly threads: number;
}

export interface DomainCapabilitiesQuery {
  readonly emulator?: string;
  readonly arch?: string;
  readonly machine?: string;
  readonly virttype?: string;
}

/** Calls on the connection, and how a domain is found, defined and listed. Every failure is a `LibvirtError`. */
export abstract class ConnectionCalls {
  /** Sends one call and waits for its reply. */
  abstract invoke<Args, Reply>(
    procedure: Procedure<Args, Reply>,
    args: Args,
    options?: LibvirtCallOptions,
  ): Promise<Reply>;

  /** Version of the daemon: major * 1000000 + minor * 1000 + micro. */
  async getLibVersion(options?: LibvirtCallOptions): Promise<number> {
    return Number((await this.invoke(procedures.connectGetLibVersion, undefined, options)).value);
  }

  /** Version of the hypervisor, same form (QEMU 7.2.22: 7002022). */
  async getVersion(options?: LibvirtCallOptions): Promise<number> {
    return Number((await this.invoke(procedures.connectGetVersion, undefined, options)).value);
  }

  /** Driver: `QEMU` or `Test` / `TEST`. */
  async getType(options?: LibvirtCallOptions): Promise<string> {
    return (await this.invoke(procedures.connectGetType, undefined, options)).value;
  }

  async getUri(options?: LibvirtCallOptions): Promise<string> {
    return (await this.invoke(procedures.connectGetUri, undefined, options)).value;
  }

  async getHostname(options?: LibvirtCallOptions): Promise<string> {
    return (await this.invoke(procedures.connectGetHostname, undefined, options)).value;
  }

  getNodeInfo(options?: LibvirtCallOptions): Promise<NodeInfo> {
    return this.invoke(procedures.nodeGetInfo, undefined, options);
  }

  /** XML `<capabilities>`. */
  async getCapabilities(options?: LibvirtCallOptions): Promise<string> {
    return (await this.invoke(procedures.connectGetCapabilities, undefined, options)).value;
  }

  /** XML `<domainCapabilities>`; what is not given is chosen by libvirt. */
  async getDomainCapabilities(query: DomainCapabilitiesQuery = {}, options?: LibvirtCallOptions): Promise<string> {
    const { emulator, arch, machine, virttype } = query;
    const args = { emulator, arch, machine, virttype, flags: 0 };
    return (await this.invoke(procedures.connectGetDomainCapabilities, args, options)).value;
  }

  /** AMD SEV of this machine; names of libvirt-host.h (`pdh`, `cert-chain`). Fails where a guest cannot have it. */
  async getSevInfo(options?: LibvirtCallOptions): Promise<TypedParams> {
    return typedParamMap((await this.invoke(procedures.nodeGetSevInfo, { count: 0, flags: 0 }, options)).params);
  }

  /** `flags`: `ListFlag`; 0 lists all. */
  async listAllDomains(flags = 0, options?: LibvirtCallOptions): Promise<readonly DomainRef[]> {
    return (await this.invoke(procedures.connectListAllDomains, { needResults: 1, flags }, options)).domains;
  }

  /** Undefined when there is no such domain. */
  async lookupDomainByName(name: string, options?: LibvirtCallOptions): Promise<DomainRef | undefined> {
    return found(this.invoke(procedures.domainLookupByName, { name }, options));
  }

  /** `uuid` is the 36-character form. Undefined when there is no such domain. */
  async lookupDomainByUuid(uuid: string, options?: LibvirtCallOptions): Promise<DomainRef | undefined> {
    return found(this.invoke(procedures.domainLookupByUuid, { uuid }, options));
  }

  /** Undefined when no running domain has this id. */
  async lookupDomainById(id: number, options?: LibvirtCallOptions): Promise<DomainRef | undefined> {
    return found(this.invoke(procedures.domainLookupById, { id }, options));
  }

  /** Defines a persistent domain or replaces its definition. `flags`: `DefineFlag`. */
  async defineXml(xml: string, flags = 0, options?: LibvirtCallOptions): Promise<DomainRef> {
    return (await this.invoke(procedures.domainDefineXml, { xml, flags }, options)).domain;
  }

  /** Starts a transient domain. `flags`: `CreateFlag`. */
  async createXml(xml: string, flags = 0, options?: LibvirtCallOptions): Promise<DomainRef> {
    return (await this.invoke(procedures.domainCreateXml, { xml, flags }, options)).domain;
  }
}

async function found(lookup: Promise<{ readonly domain: DomainRef }>): Promise<DomainRef | undefined> {
  try {
    return (await lookup).domain;
  } catch (error) {
    if (isLibvirtError(error, 'NO_DOMAIN')) return undefined;
    throw error;
  }
}
