import type { VirtualMachineInstance } from '../../api/index.ts';
import type { DomainRef } from '../../libvirt/index.ts';
import { type ConverterOptions, memoryChange, shapedVmi, wantedCpus } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor } from '../ports.ts';

export interface GuestSizeOptions {
  readonly domainName: string;
  /** CPUs that the pod may use. */
  readonly cpuSet: readonly number[];
}

export interface GuestSizeDeps {
  readonly hypervisor: Pick<
    Hypervisor,
    'lookup' | 'xml' | 'setVcpus' | 'pinVcpu' | 'pinEmulator' | 'attachDevice' | 'updateDevice'
  >;
  /** One change of the domain at a time. */
  readonly lock: { run<T>(name: string, work: () => Promise<T>): Promise<T> };
}

/** With it upstream's functional tests let the launcher refuse memory. */
const failAnnotation = 'kubevirt.io/func-test-memory-hotplug-fail';

/** More or fewer vCPUs, and more memory, for a guest that runs (upstream: pkg/virt-launcher/virtwrap/manager.go). */
export class GuestSize {
  readonly #options: GuestSizeOptions;
  readonly #deps: GuestSizeDeps;

  constructor(options: GuestSizeOptions, deps: GuestSizeDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Where the CPUs do not do, nothing is changed at all; upstream finds that out when the vCPUs are plugged in. */
  setVcpus(given: VirtualMachineInstance, options: ConverterOptions): Promise<void> {
    const { hypervisor, lock } = this.#deps;
    const { domainName, cpuSet } = this.#options;
    return lock.run('UpdateVCPUs', async () => {
      const { count, placement } = wantedCpus(shapedVmi(given), { cpuSet, options });
      const domain = await existingDomain(hypervisor, domainName);
      await hypervisor.setVcpus(domain, count);
      for (const [vcpu, cpu] of placement?.vcpus.entries() ?? []) await hypervisor.pinVcpu(domain, vcpu, [cpu]);
      if (placement?.emulator) await hypervisor.pinEmulator(domain, placement.emulator);
    });
  }

  /** The guest takes the memory when it likes; libvirt's event about it brings the agent the new size. */
  setMemory(given: VirtualMachineInstance): Promise<void> {
    const { hypervisor, lock } = this.#deps;
    return lock.run('UpdateGuestMemory', async () => {
      const vmi = shapedVmi(given);
      if (vmi.metadata.annotations?.[failAnnotation] !== undefined)
        throw new LauncherError('NOT_SUPPORTED', failAnnotation);
      const domain = await existingDomain(hypervisor, this.#options.domainName);
      await this.#change(domain, vmi);
    });
  }

  async #change(domain: DomainRef, vmi: VirtualMachineInstance): Promise<void> {
    const { hypervisor } = this.#deps;
    const { kind, xml } = memoryChange(vmi, await hypervisor.xml(domain));
    // libvirt changes `requested` of what runs only; the definition keeps what the device was plugged in with.
    if (kind === 'update') await hypervisor.updateDevice(domain, xml, { persistent: false });
    else await hypervisor.attachDevice(domain, xml, { persistent: true });
  }
}
