import type { MachineDevice, VirtualMachineInstance } from '../../api/index.ts';
import type { ConverterContext } from './context.ts';
import { ConvertError, invalid, unsupported } from './errors.ts';
import { type AskedDevice, type DeviceKind, type GivenDevice, shareOutDevices } from './given-devices.ts';
import { sriovElements } from './interfaces-sriov.ts';
import { userAlias } from './names.ts';
import { passedThrough } from './pci.ts';
import type { XmlContent } from './xml.ts';

interface NamedDevice extends AskedDevice {
  readonly name: string;
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
 * ones the pod has, its environment says. Throws `ConvertError`.
 */
export function hostDeviceElements(vmi: VirtualMachineInstance, context: ConverterContext): XmlContent[] {
  const asked = [...named(vmi, 'hostDevices'), ...named(vmi, 'gpus')];
  const given = shareOutDevices(asked, context.deviceEnvironment ?? {});
  const placed = asked.flatMap((device, index): Placed[] => {
    const one = given[index];
    return one ? [{ ...device, ...one }] : [];
  });
  refuseUsbGpus(placed);
  const displays = vgpuDisplays(vmi, placed);
  const elements = (['hostDevices', 'gpus'] as const).flatMap((list) => {
    const ofList = placed.filter((device) => device.list === list);
    return kindsInOrder
      .flatMap((kind) => ofList.filter((device) => device.kind === kind))
      .flatMap(elementsOf(displays));
  });
  const all = [...elements, ...sriovElements(vmi, context)];
  refuseTopologies(vmi, context, all);
  return all;
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
  return devices.map(({ name, deviceName, claimName, virtualGPUOptions }, index) => {
    const field = `spec.domain.devices.${list}[${name}]`;
    if (devices.findIndex((other) => other.name === name) !== index) {
      throw invalid(field, 'there are two of this name: give each a name of its own');
    }
    if (claimName) throw unsupported(`${field}.claimName`, 'use deviceName with a device plug-in');
    if (!deviceName) throw invalid(`${field}.deviceName`, 'is missing: it names the resource of a device plug-in');
    return { name, list, field, resource: deviceName, display: virtualGPUOptions?.display };
  });
}

function refuseUsbGpus(placed: readonly Placed[]): void {
  const usb = placed.find(({ list, kind }) => list === 'gpus' && kind === 'usb');
  if (usb) throw invalid(usb.field, `${usb.resource} are USB devices: name them in spec.domain.devices.hostDevices`);
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

const elementsOf =
  (displays: ReadonlyMap<string, DisplayChoice>) =>
  ({ kind, list, name, field, addresses }: Placed): XmlContent[] => {
    const alias = (more: string) =>
      userAlias(field, `${kind === 'usb' ? 'usb-host-' : aliasPrefixes[list]}${name}${more}`);
    return addresses.map((address, index) => {
      const more = { alias: alias(index === 0 ? '' : `-${index + 1}`) };
      if (kind === 'usb') return { ...usbElement(address), ...more };
      const choice = list === 'gpus' ? displays.get(name) : undefined;
      const screen = { ...(choice && { '@display': 'on', ...(choice.ramFb && { '@ramfb': 'on' }) }) };
      return { ...(kind === 'pci' ? passedThrough(field, address) : mediatedElement(address)), ...screen, ...more };
    });
  };

function mediatedElement(uuid: string): XmlContent {
  return {
    '@type': 'mdev',
    '@mode': 'subsystem',
    '@model': 'vfio-pci',
    source: { address: { '@uuid': uuid } },
  };
}

function usbElement(address: string): XmlContent {
  const [bus, device] = address.split(':').map(Number);
  if (bus === undefined || device === undefined) throw new ConvertError('BAD_DEVICE', `${address} is no USB device`);
  return { '@type': 'usb', '@mode': 'subsystem', source: { address: { '@bus': bus, '@device': device } } };
}
