import type { VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger } from '../../base/index.ts';
import { type DomainRef, isLibvirtError } from '../../libvirt/index.ts';
import {
  type ConverterOptions,
  type DeviceChange,
  type InterfaceContext,
  interfaceChanges,
  interfaceXml,
} from '../domain/index.ts';
import type { Hypervisor } from '../ports.ts';
import type { PodNetwork } from './pod-network.ts';

export interface NicSyncDeps {
  readonly hypervisor: Pick<Hypervisor, 'xml' | 'attachDevice' | 'detachDevice' | 'updateDevice'>;
  /** Absent with QEMU's user networking. */
  readonly network: Pick<PodNetwork, 'links' | 'setUp' | 'keepOnly'> | undefined;
  readonly log: Logger;
  readonly clock: Clock;
}

/** Also in the definition, so that it is the same after a migration. */
const both = { persistent: true };
const liveOnly = { persistent: false };
/** libvirt waits 5 s for a guest that does not let go, and so does the agent with it. */
const askAgainMs = 60_000;

/**
 * Network devices of a running domain as the VMI has them: plugs and unplugs them, takes their links up and down (upstream's
 * `virtwrap/network`). A repeated call changes nothing.
 */
export class NicSync {
  readonly #deps: NicSyncDeps;
  /** When the guest was asked to let go of a device that it still has. */
  readonly #asked = new Map<string, number>();

  constructor(deps: NicSyncDeps) {
    this.#deps = deps;
  }

  async sync(domain: DomainRef, vmi: VirtualMachineInstance, options: ConverterOptions): Promise<void> {
    const changes = interfaceChanges(vmi, await this.#deps.hypervisor.xml(domain), options);
    await this.#keepServing(vmi, changes.present);
    if (vmi.status?.phase !== 'Running') return;
    for (const name of changes.plug) await this.#plug(domain, vmi, options, name);
    await this.#unplugAll(domain, changes.unplug);
    for (const change of changes.relink) await this.#relink(domain, change);
  }

  /** After this launcher began anew: its guest's servers must go on. A guest that runs is not refused for it. */
  async #keepServing(vmi: VirtualMachineInstance, present: readonly string[]): Promise<void> {
    const { network, log } = this.#deps;
    if (!network) return;
    try {
      const links = await network.links();
      network.keepOnly(vmi, links, present);
      await network.setUp(vmi, links, present);
    } catch (error) {
      log.warn({ err: errorMessage(error) }, 'network of the running guest is not served');
    }
  }

  async #plug(domain: DomainRef, vmi: VirtualMachineInstance, options: ConverterOptions, name: string): Promise<void> {
    const { hypervisor, network, log } = this.#deps;
    const links = await network?.links();
    const context: InterfaceContext = { network: network ? 'tap' : 'user', options, ...(links && { links }) };
    if (network && links) await network.setUp(vmi, links, [name]);
    const xml = interfaceXml(vmi, name, context);
    await hypervisor.attachDevice(domain, xml, both);
    log.info({ interface: name }, 'network device plugged in');
  }

  /** The guest lets go of them when it wants to; the event that one is gone updates the Domain object. */
  async #unplugAll(domain: DomainRef, changes: readonly DeviceChange[]): Promise<void> {
    for (const name of this.#asked.keys()) {
      if (!changes.some((change) => change.name === name)) this.#asked.delete(name);
    }
    for (const change of changes) {
      const nowMs = this.#deps.clock.monotonicMs();
      if (nowMs - (this.#asked.get(change.name) ?? -askAgainMs) < askAgainMs) continue;
      await this.#unplug(domain, change);
      this.#asked.set(change.name, nowMs);
    }
  }

  /** The definition lets go at the first time, and is no longer asked when the guest did not. Upstream's fails then for ever. */
  async #unplug(domain: DomainRef, { name, xml }: DeviceChange): Promise<void> {
    const { hypervisor, log } = this.#deps;
    try {
      await hypervisor.detachDevice(domain, xml, both);
    } catch (error) {
      if (!isLibvirtError(error, 'DEVICE_MISSING')) throw error;
      await hypervisor.detachDevice(domain, xml, liveOnly);
    }
    log.info({ interface: name }, 'network device is being unplugged');
  }

  async #relink(domain: DomainRef, { name, xml }: DeviceChange): Promise<void> {
    await this.#deps.hypervisor.updateDevice(domain, xml, both);
    this.#deps.log.info({ interface: name }, 'link state of a network device changed');
  }
}
