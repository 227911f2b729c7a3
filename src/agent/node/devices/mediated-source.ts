import path from 'node:path';
import { deviceVariable } from '../../../api/index.ts';
import type { Allocation, PluginDevice } from '../../../device-plugin/index.ts';
import type { DeviceRoots, DeviceSource, WatchedPaths } from './device-source.ts';
import { type MediatedResource, typeName } from './host-devices.ts';
import { IommuGroups } from './iommu-groups.ts';
import { attribute, linkName, linkTarget, namesIn, numaNodes } from './sysfs.ts';
import { checkGroup, vfioDevices, vfioDir } from './vfio.ts';

const rescanMs = 300_000;

/** Mediated devices that exist: parts of a card, each in an IOMMU group of its own. */
export class MediatedSource implements DeviceSource {
  readonly rescanMs = rescanMs;
  readonly #resource: MediatedResource;
  readonly #roots: DeviceRoots;
  #groups = new IommuGroups();

  constructor(resource: MediatedResource, roots: DeviceRoots) {
    this.#resource = resource;
    this.#roots = roots;
  }

  async scan(): Promise<PluginDevice[]> {
    const groups = new IommuGroups();
    for (const uuid of await namesIn(this.#devicesDir)) {
      const directory = path.join(this.#devicesDir, uuid);
      const type = await typeOf(directory);
      const group = await linkName(directory, 'iommu_group');
      if (type === undefined || group === undefined || !this.#resource.types.includes(type)) continue;
      await groups.add(group, uuid, () => this.#numaNodes(directory));
    }
    this.#groups = groups;
    return groups.devices(this.#roots.devDir);
  }

  async allocate(ids: readonly string[]): Promise<Allocation> {
    await Promise.all(ids.map((id) => checkGroup(this.#roots.devDir, id)));
    const uuids = this.#groups.membersOf(ids);
    return {
      envs: { [deviceVariable('mdev', this.#resource.resource)]: uuids.join(',') },
      devices: vfioDevices(ids),
    };
  }

  watchedPaths(): WatchedPaths {
    return { directories: [path.join(this.#roots.devDir, vfioDir)] };
  }

  get #devicesDir(): string {
    return path.join(this.#roots.sysDir, 'bus/mdev/devices');
  }

  /** Of the card: the link of a device goes through its directory. */
  async #numaNodes(device: string): Promise<readonly number[] | undefined> {
    const parent = (await linkTarget(device))?.split('/').at(-2);
    return parent === undefined ? undefined : numaNodes(path.join(this.#roots.sysDir, 'bus/pci/devices', parent));
  }
}

async function typeOf(device: string): Promise<string | undefined> {
  const name = await attribute(device, 'mdev_type/name');
  return name === undefined ? linkName(device, 'mdev_type') : typeName(name);
}
