import { deviceVariable, deviceVariables } from '../../api/index.ts';
import { ConvertError } from './errors.ts';
import { isPciAddress } from './pci.ts';

export type DeviceKind = keyof typeof deviceVariables;

/** Variables of the container that say which devices it was given, as `PCI_RESOURCE_EXAMPLE_COM_GPU=0000:65:00.0,0000:66:00.0`. */
export type DeviceEnvironment = Readonly<Record<string, string | undefined>>;

/** A device that a VMI names, and where it names it. */
export interface AskedDevice {
  readonly field: string;
  readonly resource: string;
}

/** What one device of a VMI is on the machine. Several addresses only of USB: devices that are given out together. */
export interface GivenDevice {
  readonly kind: DeviceKind;
  readonly addresses: readonly string[];
}

/** A request of a claim of the pod. */
export interface ClaimRequest {
  /** Where the VMI names it. */
  readonly field: string;
  readonly claimName: string;
  readonly requestName: string;
}

/** What a VMI's requests got, by `claimKey`. */
export type ClaimedDevices = ReadonlyMap<string, GivenDevice>;

export function claimKey({ claimName, requestName }: Omit<ClaimRequest, 'field'>): string {
  return `${claimName}/${requestName}`;
}

/** Throws `ConvertError` MISSING_DEVICE. */
export function claimedIn(devices: ClaimedDevices | undefined, { field, ...request }: ClaimRequest): GivenDevice {
  const device = devices?.get(claimKey(request));
  if (device) return device;
  throw new ConvertError('MISSING_DEVICE', `${field}: nothing is known of ${claimKey(request)} of spec.resourceClaims`);
}

/** A device of the machine is of one guest, and of one entry of it. Throws `ConvertError` BAD_DEVICE. */
export function refuseShared(devices: readonly (GivenDevice & { readonly field: string })[]): void {
  const owners = new Map<string, string>();
  for (const { kind, addresses, field } of devices) {
    for (const address of addresses) {
      // In small letters: the same device is the same text.
      const device = `${kind} ${address.toLowerCase()}`;
      const owner = owners.get(device);
      owners.set(device, field);
      if (owner === undefined) continue;
      const advice = 'name another request or network, or look at what gave it out twice';
      throw new ConvertError(
        'BAD_DEVICE',
        `${field}: the device that it got, ${address}, is that of ${owner}: ${advice}`,
      );
    }
  }
}

/** Of a mediated device. */
export function isMediatedUuid(text: string): boolean {
  return /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(text);
}

const isAddress: Readonly<Record<DeviceKind, (text: string) => boolean>> = {
  pci: isPciAddress,
  mdev: isMediatedUuid,
  usb: (text) => /^[0-9]{1,3}:[0-9]{1,3}$/.test(text),
};

const examples: Readonly<Record<DeviceKind, string>> = {
  pci: 'a PCI address such as 0000:65:00.0',
  mdev: 'the UUID of a mediated device',
  usb: 'the bus and number of a USB device, such as 3:12',
};

/**
 * Gives each asked device one that the pod has of its resource, no device twice, whatever names it is given under (upstream:
 * `hostdevice.AddressPool`, of which there is one for GPUs and another for the rest). In the order of `asked`. Throws `ConvertError`
 * MISSING_DEVICE, BAD_DEVICE.
 */
export function shareOutDevices(asked: readonly AskedDevice[], environment: DeviceEnvironment): readonly GivenDevice[] {
  const taken = new Set<string>();
  const lists = new Map<string, DeviceList>();
  for (const { resource, field } of asked) {
    if (!lists.has(resource)) lists.set(resource, listOf(resource, field, environment));
  }
  return asked.map(({ field, resource }) => {
    const list = lists.get(resource) ?? { kind: 'pci', addresses: [] };
    const sameResource = asked.filter((one) => one.resource === resource).length;
    const free = list.addresses.filter((address) => !taken.has(`${list.kind} ${address}`));
    const addresses = free.slice(0, addressesEach(list, sameResource));
    if (addresses.length === 0) throw missing(field, resource, list, sameResource);
    for (const address of addresses) taken.add(`${list.kind} ${address}`);
    return { kind: list.kind, addresses };
  });
}

interface DeviceList {
  readonly kind: DeviceKind;
  readonly addresses: readonly string[];
}

/** USB devices that one resource gives out together go to the guest together; upstream gives the first of them alone. */
function addressesEach({ kind, addresses }: DeviceList, count: number): number {
  return kind === 'usb' ? Math.max(1, Math.floor(addresses.length / count)) : 1;
}

function listOf(resource: string, field: string, environment: DeviceEnvironment): DeviceList {
  const kinds = (Object.keys(deviceVariables) as DeviceKind[]).filter(
    (kind) => environment[deviceVariable(kind, resource)] !== undefined,
  );
  const [kind, other] = kinds;
  if (kind === undefined) throw notGiven(field, resource);
  if (other !== undefined) {
    const problem = `the pod was given ${resource} both as ${kind} and as ${other}`;
    throw new ConvertError('BAD_DEVICE', `${field}: ${problem}: let one device plug-in have this resource`);
  }
  const variable = deviceVariable(kind, resource);
  const addresses = (environment[variable] ?? '').replace(/,$/, '').split(',');
  const wrong = addresses.find((address) => !isAddress[kind](address));
  if (wrong !== undefined) {
    const problem = `the device plug-in of ${resource} gave ${JSON.stringify(wrong.slice(0, 64))} in ${variable}, which is not ${examples[kind]}`;
    throw new ConvertError('BAD_DEVICE', `${field}: ${problem}: look at that plug-in`);
  }
  return { kind, addresses: [...new Set(addresses)] };
}

function notGiven(field: string, resource: string): ConvertError {
  const wanted = (['pci', 'mdev', 'usb'] as const).map((kind) => deviceVariable(kind, resource)).join(', ');
  const problem = `the pod was given no device of ${resource} (none of ${wanted} is set)`;
  return new ConvertError('MISSING_DEVICE', `${field}: ${problem}: is there a device plug-in for it on this node?`);
}

function missing(field: string, resource: string, { addresses }: DeviceList, count: number): ConvertError {
  const problem = `the VMI names ${count} devices of ${resource}, and the pod was given ${addresses.length} (${addresses.slice(0, 16).join(', ')})`;
  return new ConvertError('MISSING_DEVICE', `${field}: ${problem}, maybe under another name as well`);
}
