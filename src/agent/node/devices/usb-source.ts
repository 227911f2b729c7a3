import path from 'node:path';
import { deviceVariable } from '../../../api/index.ts';
import { errorMessage } from '../../../base/index.ts';
import { type Allocation, DevicePluginError, type PluginDevice } from '../../../device-plugin/index.ts';
import { openNoFollow } from '../../../host/index.ts';
import type { DeviceRoots, DeviceSource, WatchedPaths } from './device-source.ts';
import type { UsbResource } from './host-devices.ts';
import { attribute, isThere, namesIn, uevent } from './sysfs.ts';
import { shareOut, type UsbDevice, type UsbUnit } from './usb-units.ts';

/** The launcher's user: QEMU opens the device as it. */
export interface DeviceOwner {
  readonly uid: number;
  readonly gid: number;
}

const rescanMs = 300_000;

/** The USB devices of the machine, shared out among all resources that ask for some. */
export class UsbInventory {
  readonly resources: readonly UsbResource[];
  readonly #roots: DeviceRoots;
  #units: ReadonlyMap<string, readonly UsbUnit[]>;
  #scanning: Promise<void> | undefined;

  /** `before`: units keep their ids and devices where they can; what was lost under another configuration is forgotten. */
  constructor(resources: readonly UsbResource[], roots: DeviceRoots, before?: UsbInventory) {
    this.resources = resources;
    this.#roots = roots;
    const known = [...(before?.all ?? [])];
    this.#units = new Map(known.map(([resource, units]) => [resource, units.filter(({ devices }) => devices)]));
  }

  get all(): ReadonlyMap<string, readonly UsbUnit[]> {
    return this.#units;
  }

  units(resource: string): readonly UsbUnit[] {
    return this.#units.get(resource) ?? [];
  }

  /** Those who ask while a scan is under way share its result. */
  async scan(): Promise<void> {
    this.#scanning ??= this.#scan().finally(() => {
      this.#scanning = undefined;
    });
    await this.#scanning;
  }

  async #scan(): Promise<void> {
    const directory = path.join(this.#roots.sysDir, 'bus/usb/devices');
    const devices: UsbDevice[] = [];
    for (const port of await namesIn(directory)) {
      const device = port.startsWith('usb') ? undefined : await readUsbDevice(path.join(directory, port), port);
      // Between pulling out and the end of the bus's own work the file is gone and the device is still listed.
      if (device && (await isThere(path.join(this.#roots.devDir, device.file)))) devices.push(device);
    }
    this.#units = shareOut(this.resources, devices, this.#units);
  }
}

/** USB devices for one resource. */
export class UsbSource implements DeviceSource {
  readonly rescanMs = rescanMs;
  readonly #resource: string;
  readonly #inventory: UsbInventory;
  readonly #roots: DeviceRoots;
  readonly #owner: DeviceOwner;
  #directories: readonly string[] = [];

  constructor(resource: string, inventory: UsbInventory, { roots, owner }: { roots: DeviceRoots; owner: DeviceOwner }) {
    this.#resource = resource;
    this.#inventory = inventory;
    this.#roots = roots;
    this.#owner = owner;
  }

  async scan(): Promise<PluginDevice[]> {
    const busDir = path.join(this.#roots.devDir, 'bus/usb');
    const buses = await namesIn(busDir);
    this.#directories = [busDir, ...buses.map((bus) => path.join(busDir, bus))];
    await this.#inventory.scan();
    return this.#inventory.units(this.#resource).map(({ id, devices }) => ({ id, isHealthy: devices !== undefined }));
  }

  async allocate(ids: readonly string[]): Promise<Allocation> {
    const units = this.#inventory.units(this.#resource).filter(({ id }) => ids.includes(id));
    const devices = units.flatMap((unit) => unit.devices ?? []);
    if (units.length < ids.length || units.some((unit) => unit.devices === undefined)) {
      throw new DevicePluginError('DEVICE_UNUSABLE', `of USB devices ${ids.join(', ')} some are not plugged in`);
    }
    for (const { file } of devices) this.#giveTo(file);
    const addresses = devices.map(({ bus, device }) => `${bus}:${device}`);
    return {
      envs: { [deviceVariable('usb', this.#resource)]: addresses.join(',') },
      devices: devices.map(({ file }) => ({
        hostPath: `/dev/${file}`,
        containerPath: `/dev/${file}`,
        permissions: 'mrw',
      })),
    };
  }

  watchedPaths(): WatchedPaths {
    return { directories: this.#directories };
  }

  #giveTo(file: string): void {
    try {
      const opened = openNoFollow(this.#roots.devDir, file);
      try {
        opened.setOwner(this.#owner.uid, this.#owner.gid);
      } finally {
        opened.close();
      }
    } catch (cause) {
      const text = `/dev/${file} could not be given to the launcher's user: ${errorMessage(cause)}`;
      throw new DevicePluginError('DEVICE_UNUSABLE', text, { cause });
    }
  }
}

async function readUsbDevice(directory: string, port: string): Promise<UsbDevice | undefined> {
  if ((await attribute(directory, 'idVendor')) === undefined) return undefined;
  const event = await uevent(directory);
  const [vendor, product] = (event.get('PRODUCT') ?? '').split('/').map((part) => Number.parseInt(part, 16));
  const [bus, device] = [Number(event.get('BUSNUM')), Number(event.get('DEVNUM'))];
  const file = event.get('DEVNAME') ?? '';
  if (vendor === undefined || product === undefined || Number.isNaN(vendor + product)) return undefined;
  if (!Number.isInteger(bus) || !Number.isInteger(device) || file === '' || file.split('/').includes('..')) {
    return undefined;
  }
  return { port, vendor, product, bus, device, file };
}
