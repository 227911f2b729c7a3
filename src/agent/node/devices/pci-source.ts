import path from 'node:path';
import { deviceVariable } from '../../../api/index.ts';
import type { Allocation, PluginDevice } from '../../../device-plugin/index.ts';
import type { DeviceRoots, DeviceSource, WatchedPaths } from './device-source.ts';
import type { PciResource } from './host-devices.ts';
import { IommuGroups } from './iommu-groups.ts';
import { attribute, isThere, linkName, namesIn, numaNodes, uevent } from './sysfs.ts';
import { checkGroup, vfioDevices, vfioDir } from './vfio.ts';

/** Events of `/dev/vfio` say when a driver takes a device; this is for what they do not say. */
const rescanMs = 300_000;

/**
 * PCI devices that are bound to vfio-pci, or NVIDIA's virtual functions with a vGPU type. What a pod gets is an IOMMU group, with
 * all of its devices that the selectors name: the kernel gives them to one guest only.
 */
export class PciSource implements DeviceSource {
  readonly rescanMs = rescanMs;
  readonly #resource: PciResource;
  readonly #roots: DeviceRoots;
  #groups = new IommuGroups();

  constructor(resource: PciResource, roots: DeviceRoots) {
    this.#resource = resource;
    this.#roots = roots;
  }

  async scan(): Promise<PluginDevice[]> {
    const groups = new IommuGroups();
    for (const address of await namesIn(this.#devicesDir)) {
      const group = await this.#groupOf(address);
      if (group !== undefined) await groups.add(group, address, () => numaNodes(this.#dirOf(address)));
    }
    this.#groups = groups;
    return groups.devices(this.#roots.devDir);
  }

  async allocate(ids: readonly string[]): Promise<Allocation> {
    await Promise.all(ids.map((id) => checkGroup(this.#roots.devDir, id)));
    const addresses = this.#groups.membersOf(ids);
    const own = await Promise.all(addresses.map((address) => this.#deviceFiles(address)));
    return {
      envs: { [deviceVariable('pci', this.#resource.resource)]: addresses.join(',') },
      devices: vfioDevices([...ids, ...own.flat()]),
    };
  }

  watchedPaths(): WatchedPaths {
    return { directories: [path.join(this.#roots.devDir, vfioDir)] };
  }

  get #devicesDir(): string {
    return path.join(this.#roots.sysDir, 'bus/pci/devices');
  }

  #dirOf(address: string): string {
    return path.join(this.#devicesDir, address);
  }

  /** The IOMMU group of a device that may be given away; undefined: it may not. */
  async #groupOf(address: string): Promise<string | undefined> {
    const directory = this.#dirOf(address);
    const id = (await uevent(directory)).get('PCI_ID')?.toLowerCase();
    if (id === undefined || !this.#resource.selectors.includes(id)) return undefined;
    const driver = await linkName(directory, 'driver');
    const isReady = driver === 'vfio-pci' || (driver === 'nvidia' && (await isVirtualGpu(directory)));
    return isReady ? linkName(directory, 'iommu_group') : undefined;
  }

  /** A device has a file of its own, too, since Linux 6.2: `vfio-dev/vfio3` is `/dev/vfio/devices/vfio3`. */
  async #deviceFiles(address: string): Promise<string[]> {
    const names = await namesIn(path.join(this.#dirOf(address), 'vfio-dev'));
    return names.map((name) => `devices/${name}`);
  }
}

/** A virtual function, not the card, that has a vGPU type. */
async function isVirtualGpu(directory: string): Promise<boolean> {
  if (await isThere(path.join(directory, 'sriov_totalvfs'))) return false;
  const type = await attribute(directory, 'nvidia/current_vgpu_type');
  return type !== undefined && type !== '' && type !== '0';
}
