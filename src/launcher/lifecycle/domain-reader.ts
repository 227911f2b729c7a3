import type { Domain } from '../../api/index.ts';
import { type Clock, rfc3339, systemClock } from '../../base/index.ts';
import { type DomainRef, isLibvirtError } from '../../libvirt/index.ts';
import {
  type DomainParts,
  domainFromXml,
  domainStatus,
  nonExistent,
  type StatusAndReason,
  type VmiIdentity,
} from '../domain/index.ts';
import type { GuestStore } from '../guest-agent/index.ts';
import type { Hypervisor } from '../ports.ts';
import type { MetadataCache } from './metadata.ts';

interface Panics {
  readonly last: NonNullable<DomainParts['guestPanicInfo']>;
  readonly count: number;
}

export interface DomainReaderDeps {
  readonly hypervisor: Pick<Hypervisor, 'lookup' | 'state' | 'xml'>;
  readonly metadata: MetadataCache;
  readonly guest: GuestStore;
  readonly clock?: Clock;
}

/** Makes the Domain object out of what libvirt, the metadata and the guest agent say now. */
export class DomainReader {
  readonly #identity: VmiIdentity;
  readonly #domainName: string;
  readonly #deps: DomainReaderDeps;
  readonly #clock: Clock;
  #panics: Panics | undefined;

  constructor(options: { readonly identity: VmiIdentity; readonly domainName: string }, deps: DomainReaderDeps) {
    this.#identity = options.identity;
    this.#domainName = options.domainName;
    this.#deps = deps;
    this.#clock = deps.clock ?? systemClock;
  }

  /** The guest has panicked; the Domain object carries that from now on. */
  notePanic(info: Panics['last']): void {
    this.#panics = { last: info, count: (this.#panics?.count ?? 0) + 1 };
  }

  /**
   * For an event: there is always one; a domain that libvirt does not know carries a deletion time, from which the agent knows
   * that it is gone.
   */
  async readForEvent(): Promise<Domain> {
    const found = await this.#read();
    const base = { ...this.#parts(), uid: this.#identity.uid };
    if (found) return domainFromXml({ ...base, ...found });
    return domainFromXml({ ...base, state: nonExistent, deletionTimestamp: rfc3339(this.#clock.now()) });
  }

  /** For GetDomain: undefined when there is none, and no UID outside the metadata, as upstream's. */
  async readCurrent(): Promise<Domain | undefined> {
    const found = await this.#read();
    return found && domainFromXml({ ...this.#parts(), ...found });
  }

  #parts(): Omit<DomainParts, 'state'> {
    const { interfaces, osInfo, fsFreezeStatus } = this.#deps.guest.facts;
    const { namespace, name } = this.#identity;
    const metadata = this.#deps.metadata.metadata;
    const panics = this.#panics && { guestPanicInfo: this.#panics.last, panicCount: this.#panics.count };
    return { namespace, name, metadata, interfaces, osInfo, fsFreezeStatus, ...panics };
  }

  /** A domain may vanish between two questions: then it is gone. */
  async #read(): Promise<{ state: StatusAndReason; xml?: string } | undefined> {
    const domain = await this.#deps.hypervisor.lookup(this.#domainName);
    if (!domain) return undefined;
    try {
      const { state, reason } = await this.#deps.hypervisor.state(domain);
      const xml = await this.#xml(domain);
      return { state: domainStatus(state, reason), ...(xml !== undefined && { xml }) };
    } catch (error) {
      if (isLibvirtError(error, 'NO_DOMAIN')) return undefined;
      throw error;
    }
  }

  /** Not given during a migration: the spec stays empty then. */
  async #xml(domain: DomainRef): Promise<string | undefined> {
    try {
      return await this.#deps.hypervisor.xml(domain);
    } catch (error) {
      if (isLibvirtError(error, 'OPERATION_INVALID')) return undefined;
      throw error;
    }
  }
}
