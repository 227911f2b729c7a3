import type { PluginDevice } from '../../../device-plugin/index.ts';
import { isThere } from './sysfs.ts';
import { groupFile } from './vfio.ts';

interface Group {
  readonly members: string[];
  readonly numaNodes: readonly number[] | undefined;
}

/** Devices by their IOMMU group: a group is what the kernel gives to one guest, and what the kubelet knows of. */
export class IommuGroups {
  readonly #groups = new Map<string, Group>();

  /** `numaNodes` is asked for the first member only. */
  async add(group: string, member: string, numaNodes: () => Promise<readonly number[] | undefined>): Promise<void> {
    const known = this.#groups.get(group);
    if (known) known.members.push(member);
    else this.#groups.set(group, { members: [member], numaNodes: await numaNodes() });
  }

  /** In the order in which they were added; healthy while the group's file is there. */
  async devices(devDir: string): Promise<PluginDevice[]> {
    const devices = [...this.#groups].map(async ([id, { numaNodes }]) => {
      const isHealthy = await isThere(groupFile(devDir, id));
      return { id, isHealthy, ...(numaNodes && { numaNodes }) };
    });
    return Promise.all(devices);
  }

  membersOf(groups: readonly string[]): string[] {
    return groups.flatMap((group) => this.#groups.get(group)?.members ?? []);
  }
}
