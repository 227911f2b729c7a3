import type { MachineDevice, VirtualMachineInstance } from '../../api/index.ts';
import type { ConverterContext } from './context.ts';
import { ConvertError, invalid, unsupported } from './errors.ts';
import {
  type ClaimRequest,
  claimedIn,
  type DeviceKind,
  type GivenDevice,
  refuseShared,
  shareOutDevices,
} from './given-devices.ts';
import { sriovDevices, sriovElements } from './interfaces-sriov.ts';
import { userAlias } from './names.ts';
import { passedThrough } from './pci.ts';
import type { XmlContent } from './xml.ts';

interface NamedDevice {
  readonly field: string;
  readonly name: string;
  /** Who gives it out: a device plug-in, or the driver of a claim. */
  readonly from: { readonly resource: string } | { readonly claim: ClaimRequest };
  readonly list: 'hostDevices' | 'gpus';
  readonly display: VgpuDisplay | undefined;
}

type VgpuDisplay = NonNullable<NonNullable<MachineDevice['virtualGPUOptions']>['display']>;
type Placed = NamedDevice & GivenDevice;

const aliasPrefixes = { hostDevices: 'hostdevice-', gpus: 'gpu-' } as const;
/** As upstream writes them: a guest sees no order, libvirt names PCI devices in it. */
const kindsInOrder: readonly DeviceKind[] = ['pci', 'mdev', 'usb'];

/**
 * Devices of the machine that the guest gets as they are (upstream: `virtwrap/device/hostdevice`): generic ones, GPUs, network devices. Which
 * ones the pod has, its environment says, and of claims the drivers that gave them out. Throws `ConvertError`.
 */
export function hostDeviceElements(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent[] {
  const asked = [...named(vmi, 'hostDevices'), ...named(vmi, 'gpus')];
  const placed = [...ofPlugIns(asked, context), ...ofClaims(asked, context)];
  refuseUsbGpus(placed);
  const ofNetworks = context.isIncoming ? [] : sriovDevices(vmi, context);
  refuseShared([...placed, ...ofNetworks]);
  const elements = [...elementsOf(vmi, placed, context), ...ofNetworks.flatMap(sriovElements)];
  refuseTopologies(vmi, context, elements);
  return elements;
}

function ofPlugIns(asked: readonly NamedDevice[], { deviceEnvironment = {} }: ConverterContext): Placed[] {
  const own = asked.flatMap((device) =>
    'resource' in device.from ? [{ ...device, resource: device.from.resource }] : [],
  );
  const given = shareOutDevices(own, deviceEnvironment);
  return kindsInOrder.flatMap((kind) =>
    own.flatMap((device, index): Placed[] => {
      const one = given[index];
      return one?.kind === kind ? [{ ...device, ...one }] : [];
    }),
  );
}

function ofClaims(asked: readonly NamedDevice[], { claimedDevices }: ConverterContext): Placed[] {
  return asked.flatMap((device): Placed[] => {
    if (!('claim' in device.from)) return [];
    return [{ ...device, ...claimedIn(claimedDevices, device.from.claim) }];
  });
}

/** Upstream's gates of where a device is in the guest, which are alpha. What would be lost is refused where the VMI relies on it. */
function refuseTopologies(vmi: VirtualMachineInstance, { options }: ConverterContext, devices: XmlContent[]): void {
  const isStrict = vmi.spec.domain.cpu?.numa?.guestMappingPassthrough !== undefined;
  const isByCell = options?.clusterConfig?.pciNumaAwareTopologyEnabled === true && isStrict;
  if (isByCell && devices.some((device) => device['@type'] === 'pci')) {
    const field = 'spec.domain.cpu.numa.guestMappingPassthrough with PCI devices and the gate PCINUMAAwareTopology';
    throw unsupported(field, 'no device is placed by its NUMA cell here: remove it, or switch the gate off');
  }
  const [grace] = options?.graceHostDeviceAliases ?? [];
  if (grace) throw unsupported(`the gate GraceIOVirtualization for ${grace}`, 'switch the gate off');
}

function named(vmi: VirtualMachineInstance, list: NamedDevice['list']): NamedDevice[] {
  const devices = vmi.spec.domain.devices?.[list] ?? [];
  return devices.map(({ name, deviceName, claimName, requestName, virtualGPUOptions }, index) => {
    const field = `spec.domain.devices.${list}[${name}]`;
    if (devices.findIndex((other) => other.name === name) !== index) {
      throw invalid(field, 'there are two of this name: give each a name of its own');
    }
    const display = virtualGPUOptions?.display;
    if (deviceName && claimName) throw invalid(field, 'has deviceName and claimName: it is given out by one of them');
    if (deviceName) return { name, list, field, display, from: { resource: deviceName } };
    const claim = { field, claimName: claimName ?? '', requestName: requestName ?? '' };
    if (claimName) return { name, list, field, display, from: { claim } };
    throw invalid(`${field}.deviceName`, 'is missing: it names the resource of a device plug-in; or give a claimName');
  });
}

function refuseUsbGpus(placed: readonly Placed[]): void {
  const usb = placed.find(({ list, kind }) => list === 'gpus' && kind === 'usb');
  if (usb)
    throw invalid(
      usb.field,
      `${'resource' in usb.from ? usb.from.resource : usb.name} are USB devices: name them in spec.domain.devices.hostDevices`,
    );
}

interface DisplayChoice {
  readonly display: boolean;
  readonly ramFb: boolean;
}

/**
 * Which GPUs show the guest's screen: a PCI device only when it is asked to, mediated ones when asked, and the first of them when none of the
 * VMI's GPUs says anything.
 */
function vgpuDisplays(vmi: VirtualMachineInstance, placed: readonly Placed[]): ReadonlyMap<string, DisplayChoice> {
  const gpus = placed.filter(({ list }) => list === 'gpus');
  const hasScreen = vmi.spec.domain.devices?.autoattachGraphicsDevice !== false;
  const isSaid = gpus.some(({ display }) => display);
  const first = gpus.find(({ kind }) => kind === 'mdev');
  return new Map(
    gpus.flatMap((gpu) => {
      const choice = isSaid ? chosenDisplay(gpu) : { display: gpu === first && hasScreen, ramFb: true };
      if (!choice.display) return [];
      if (hasScreen) return [[gpu.name, choice] as const];
      throw invalid(`${gpu.field}.virtualGPUOptions.display`, 'needs autoattachGraphicsDevice: it is the screen');
    }),
  );
}

function chosenDisplay({ kind, display }: Placed): DisplayChoice {
  if (!display) return { display: false, ramFb: false };
  if (kind === 'mdev') return { display: display.enabled !== false, ramFb: display.ramFB?.enabled !== false };
  return { display: display.enabled === true, ramFb: display.ramFB?.enabled === true };
}

/** In upstream's order: generic devices, then GPUs; of each those of claims last. */
function elementsOf(
  vmi: VirtualMachineInstance,
  placed: readonly Placed[],
  { architecture }: ConverterContext,
): XmlContent[] {
  const displays = vgpuDisplays(vmi, placed);
  const inOrder = (['hostDevices', 'gpus'] as const).flatMap((list) => placed.filter((device) => device.list === list));
  return inOrder.flatMap(({ kind, list, name, field, from, addresses }) => {
    const isClaimed = 'claim' in from;
    const prefix = kind === 'usb' ? 'usb-host-' : `${isClaimed ? 'dra-' : ''}${aliasPrefixes[list]}`;
    // Adjunct processors are what s390x has as mediated devices beside PCI ones.
    const model = isClaimed && list === 'hostDevices' && architecture === 's390x' ? 'vfio-ap' : 'vfio-pci';
    return addresses.map((address, index) => {
      const more = { alias: userAlias(field, `${prefix}${name}${index === 0 ? '' : `-${index + 1}`}`) };
      if (kind === 'usb') return { ...usbElement(address), ...more };
      const choice = list === 'gpus' ? displays.get(name) : undefined;
      const screen = { ...(choice && { '@display': 'on', ...(choice.ramFb && { '@ramfb': 'on' }) }) };
      const element = kind === 'pci' ? passedThrough(field, address) : mediatedElement(address, model);
      return { ...element, ...screen, ...more };
    });
  });
}

function mediatedElement(uuid: string, model: 'vfio-pci' | 'vfio-ap'): XmlContent {
  return {
    '@type': 'mdev',
    '@mode': 'subsystem',
    '@model': model,
    source: { address: { '@uuid': uuid } },
  };
}

function usbElement(address: string): XmlContent {
  const [bus, device] = address.split(':').map(Number);
  if (bus === undefined || device === undefined) throw new ConvertError('BAD_DEVICE', `${address} is no USB device`);
  return { '@type': 'usb', '@mode': 'subsystem', source: { address: { '@bus': bus, '@device': device } } };
}
