import type { VirtualMachineInstance } from '../../api/index.ts';
import { type Clock, errorMessage, type Logger, sleep } from '../../base/index.ts';
import { type DeviceChange, lackedSriovDevices, type SriovContext, shapedVmi } from '../domain/index.ts';
import { LauncherError } from '../errors.ts';
import { existingDomain, type Hypervisor } from '../ports.ts';

export interface HostDevicePlugDeps {
  readonly hypervisor: Pick<Hypervisor, 'lookup' | 'xml' | 'attachDevice'>;
  /** One change of the domain at a time. */
  readonly lock: { run<T>(name: string, work: () => Promise<T>): Promise<T> };
  /** Which devices of the machine the pod has. */
  readonly findSriovDevices: (vmi: VirtualMachineInstance) => Promise<SriovContext>;
  readonly log: Logger;
  readonly clock: Clock;
}

/** What fails sooner is the caller's answer. To plug a device into a large guest, whose memory is locked for it, may take longer. */
const answerMs = 2_000;
const advice = 'the device must be bound to vfio-pci on this node, and free';

/**
 * Gives a guest that runs the SR-IOV devices of its pod that it lacks: a migration takes them from it (upstream: HotplugHostDevices of
 * `pkg/virt-launcher/virtwrap/manager.go`). A repeated order plugs nothing twice.
 */
export class HostDevicePlug {
  readonly #options: { readonly domainName: string };
  readonly #deps: HostDevicePlugDeps;
  #isUnderWay = false;

  constructor(options: { readonly domainName: string }, deps: HostDevicePlugDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /**
   * Resolves when it is done, or goes on in the background. Throws BUSY, in upstream's words, while an earlier order is carried out;
   * HOTPLUG_FAILED, DOMAIN_NOT_FOUND and MIGRATING where it has failed soon; upstream logs that only.
   */
  async order(given: VirtualMachineInstance): Promise<void> {
    if (this.#isUnderWay) throw new LauncherError('BUSY', 'hot-plug host-devices is in progress');
    this.#isUnderWay = true;
    const work = this.#deps.lock.run('HotplugHostDevices', () => this.#plugAll(shapedVmi(given)));
    const over = work.finally(() => {
      this.#isUnderWay = false;
    });
    const answered = new AbortController();
    over.catch((error: unknown) => {
      this.#deps.log.warn({ err: errorMessage(error) }, 'network devices of the machine cannot be given to the guest');
    });
    try {
      await Promise.race([over, sleep(answerMs, answered.signal, this.#deps.clock).catch(() => undefined)]);
    } finally {
      answered.abort();
    }
  }

  /** One that fails keeps no other one away. */
  async #plugAll(vmi: VirtualMachineInstance): Promise<void> {
    const { hypervisor, findSriovDevices } = this.#deps;
    const domain = await existingDomain(hypervisor, this.#options.domainName);
    const { devices, refusals } = lackedSriovDevices(vmi, await hypervisor.xml(domain), await findSriovDevices(vmi));
    const failures: string[] = [];
    for (const device of devices) {
      await this.#plug(domain, device).catch((error: unknown) => {
        failures.push(`${device.name}: ${errorMessage(error)}`);
      });
    }
    const plugged = failures.length > 0 ? [`${failures.join('; ')}: ${advice}`] : [];
    const problems = [...refusals.map(errorMessage), ...plugged];
    if (problems.length === 0) return;
    throw new LauncherError('HOTPLUG_FAILED', `failed to hot-plug host-devices: ${problems.join('; ')}`);
  }

  /** Also in the definition, so that it is the same after a reboot. */
  async #plug(domain: Parameters<Hypervisor['xml']>[0], { name, xml }: DeviceChange): Promise<void> {
    await this.#deps.hypervisor.attachDevice(domain, xml, { persistent: true });
    this.#deps.log.info({ interface: name }, 'network device of the machine plugged in');
  }
}
