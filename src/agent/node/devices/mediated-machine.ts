import { constants } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../../base/index.ts';
import type { DeviceRoots } from './device-source.ts';
import { typeName } from './host-devices.ts';
import type { MediatedDevice, MediatedMachine, MediatedOrder, MediatedParent, MediatedType } from './mediated-plan.ts';
import { attribute, linkName, linkTarget, namesIn } from './sysfs.ts';

/** Cards that can be divided and their parts, as the kernel shows them, and the two writes that change that. */
export class MediatedSysfs {
  readonly #sysDir: string;

  constructor({ sysDir }: Pick<DeviceRoots, 'sysDir'>) {
    this.#sysDir = sysDir;
  }

  /** Rejects when it cannot be known what there is. */
  async read(): Promise<MediatedMachine> {
    const parents = (await namesIn(this.#parentsDir)).map((parent) => this.#parent(parent));
    const devices = (await namesIn(this.#devicesDir)).map((uuid) => this.#device(uuid));
    return {
      parents: await Promise.all(parents),
      devices: (await Promise.all(devices)).filter((device) => device !== undefined),
    };
  }

  /** Rejects with the system's error, of the driver mostly: no more instances, no licence, another type on the card. */
  async create({ parent, type }: Pick<MediatedOrder, 'parent' | 'type'>, uuid: string): Promise<void> {
    await write(path.join(this.#parentsDir, parent, 'mdev_supported_types', type, 'create'), uuid);
  }

  /** Waits without limit for the process that has it open: ask before whether one has. */
  async remove(uuid: string): Promise<void> {
    await write(path.join(this.#devicesDir, uuid, 'remove'), '1');
  }

  get #parentsDir(): string {
    return path.join(this.#sysDir, 'class/mdev_bus');
  }

  get #devicesDir(): string {
    return path.join(this.#sysDir, 'bus/mdev/devices');
  }

  async #parent(parent: string): Promise<MediatedParent> {
    const directory = path.join(this.#parentsDir, parent, 'mdev_supported_types');
    const types = (await namesIn(directory)).map(async (id): Promise<MediatedType> => {
      const available = Number((await attribute(directory, id, 'available_instances')) || 0);
      return {
        id,
        name: await nameOf(path.join(directory, id)),
        available: Number.isInteger(available) ? available : 0,
      };
    });
    return { parent, types: await Promise.all(types) };
  }

  /** Undefined: it went while it was looked at. */
  async #device(uuid: string): Promise<MediatedDevice | undefined> {
    const directory = path.join(this.#devicesDir, uuid);
    const parent = (await linkTarget(directory))?.split('/').at(-2);
    const id = await linkName(directory, 'mdev_type');
    if (parent === undefined || id === undefined) return undefined;
    const name = await knownNameOf(path.join(directory, 'mdev_type'));
    const group = await linkName(directory, 'iommu_group');
    const own = (await namesIn(path.join(directory, 'vfio-dev'))).map((each) => `devices/${each}`);
    return { uuid, parent, type: { id, name }, files: group === undefined ? own : [group, ...own] };
  }
}

async function nameOf(typeDirectory: string): Promise<string | undefined> {
  const name = await attribute(typeDirectory, 'name');
  return name === undefined ? undefined : typeName(name);
}

/** Undefined: it has none. One that cannot be read is not none: the device would be of a type that is not asked for. */
async function knownNameOf(typeDirectory: string): Promise<string | undefined> {
  try {
    return typeName(await readFile(path.join(typeDirectory, 'name'), 'utf8'));
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENODEV') return undefined;
    throw error;
  }
}

/** For writing only: these attributes cannot be read, by root neither. One is there or is not: none is made by writing. */
function write(file: string, text: string): Promise<void> {
  return writeFile(file, text, { flag: constants.O_WRONLY });
}
