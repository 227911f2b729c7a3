import type { UsbResource, UsbSelector } from './host-devices.ts';

/** A device on a USB bus. */
export interface UsbDevice {
  /** Where it is plugged in: `1-1.2`. The same after a restart, and after it was pulled out and put back. */
  readonly port: string;
  readonly vendor: number;
  readonly product: number;
  readonly bus: number;
  readonly device: number;
  /** Below `/dev`. */
  readonly file: string;
}

/** Devices that one pod gets together. */
export interface UsbUnit {
  readonly id: string;
  readonly ports: readonly string[];
  /** In the order of the selectors; undefined: one of them is not plugged in. */
  readonly devices: readonly UsbDevice[] | undefined;
}

/**
 * Shares the devices out among the resources, in their order, each device once. Units that were there before and still can be stay
 * as they were. One that lost a device stays, unusable, until what is left of it goes into another.
 */
export function shareOut(
  resources: readonly UsbResource[],
  devices: readonly UsbDevice[],
  before: ReadonlyMap<string, readonly UsbUnit[]>,
): Map<string, UsbUnit[]> {
  const free = new Map(devices.map((device) => [device.port, device]));
  const shares = new Map(resources.map(({ resource }) => [resource, [] as UsbUnit[]]));
  for (const { resource, sets } of resources) {
    for (const { ports } of before.get(resource) ?? []) {
      const members = ports.map((port) => free.get(port));
      if (sets.some((set) => fits(set, members))) take(shares.get(resource), free, members);
    }
  }
  for (const { resource, sets } of resources) {
    for (const set of sets) {
      for (let members = pick(set, free); members; members = pick(set, free)) take(shares.get(resource), free, members);
    }
  }
  const used = new Set([...shares.values()].flat().flatMap(({ ports }) => ports));
  for (const { resource } of resources) {
    const broken = (before.get(resource) ?? []).filter(({ ports }) => !ports.some((port) => used.has(port)));
    shares.get(resource)?.push(...broken.filter(hasLost(free)).map((unit) => ({ ...unit, devices: undefined })));
  }
  return shares;
}

function hasLost(free: ReadonlyMap<string, UsbDevice>): (unit: UsbUnit) => boolean {
  return ({ ports }) => ports.some((port) => !free.has(port));
}

function fits(set: readonly UsbSelector[], members: readonly (UsbDevice | undefined)[]): members is UsbDevice[] {
  return set.length === members.length && set.every((selector, index) => isA(members[index], selector));
}

function isA(device: UsbDevice | undefined, { vendor, product }: UsbSelector): boolean {
  return device?.vendor === vendor && device.product === product;
}

/** One free device for each selector; undefined: there are not enough. */
function pick(set: readonly UsbSelector[], free: ReadonlyMap<string, UsbDevice>): UsbDevice[] | undefined {
  const members: UsbDevice[] = [];
  for (const selector of set) {
    const found = [...free.values()].find((device) => isA(device, selector) && !members.includes(device));
    if (!found) return undefined;
    members.push(found);
  }
  return members;
}

function take(share: UsbUnit[] | undefined, free: Map<string, UsbDevice>, members: readonly (UsbDevice | undefined)[]) {
  const devices = members.filter((member) => member !== undefined);
  const ports = devices.map(({ port }) => port);
  for (const port of ports) free.delete(port);
  share?.push({ id: ports.join('+'), ports, devices });
}
