import type { Devices, Disk, Interface, VmiSpec } from '../api/index.ts';
import type { DevicePreferences } from './types.ts';

/** What a preference says of each disk, interface and so on that a template has. Changes `spec`. */
export function applyDevices(preferred: DevicePreferences, { domain, networks = [] }: VmiSpec): void {
  const devices: Devices = { ...domain.devices };
  const { disks, interfaces, inputs, gpus, sound } = devices;
  if (disks) devices.disks = disks.map((disk) => withDisk(disk, preferred));
  const podNetworks = new Set(networks.filter(({ pod }) => pod).map(({ name }) => name));
  if (interfaces) devices.interfaces = interfaces.map((link) => withInterface(link, preferred, podNetworks));
  if (inputs) {
    const { preferredInputBus: bus, preferredInputType: type } = preferred;
    devices.inputs = inputs.map((input) => ({
      ...input,
      ...(!input.bus && bus && { bus }),
      ...(!input.type && type && { type }),
    }));
  }
  // Upstream knows the field and does nothing with it.
  const virtualGPUOptions = preferred.preferredVirtualGPUOptions;
  if (gpus && virtualGPUOptions) devices.gpus = gpus.map((gpu) => ({ virtualGPUOptions, ...gpu }));
  if (sound && !sound.model && preferred.preferredSoundModel) {
    devices.sound = { ...sound, model: preferred.preferredSoundModel };
  }
  const model = preferred.preferredPanicDeviceModel;
  if (model) {
    const panicDevices = devices.panicDevices?.length ? devices.panicDevices : [{}];
    devices.panicDevices = panicDevices.map((device) => ({ ...device, model: device.model ?? model }));
  }
  domain.devices = devices;
}

function withDisk(disk: Disk, preferred: DevicePreferences): Disk {
  if (disk.cdrom && !disk.disk) return { ...disk, cdrom: withBus(disk.cdrom, preferred.preferredCdromBus) };
  if (disk.lun && !disk.disk) return { ...disk, lun: withBus(disk.lun, preferred.preferredLunBus) };
  const target = withBus(disk.disk ?? {}, preferred.preferredDiskBus);
  const blockSize = disk.blockSize ?? preferred.preferredDiskBlockSize;
  const cache = disk.cache || preferred.preferredDiskCache;
  const io = disk.io || preferred.preferredDiskIO;
  const wanted = target.bus === 'virtio' ? preferred.preferredDiskDedicatedIoThread : undefined;
  const dedicatedIOThread = disk.dedicatedIOThread ?? wanted;
  return {
    ...disk,
    disk: target,
    ...(blockSize && { blockSize: structuredClone(blockSize) }),
    ...(cache && { cache }),
    ...(io && { io }),
    ...(dedicatedIOThread !== undefined && { dedicatedIOThread }),
  };
}

type Target = NonNullable<Disk['disk']>;

function withBus(target: Target, bus: Target['bus']): Target {
  return !target.bus && bus ? { ...target, bus } : target;
}

const bindings = ['bridge', 'slirp', 'masquerade', 'sriov', 'macvtap', 'passt', 'passtBinding', 'binding'];

function withInterface(
  link: Interface,
  { preferredInterfaceModel: model, preferredInterfaceMasquerade }: DevicePreferences,
  podNetworks: ReadonlySet<string>,
): Interface {
  const fields: Readonly<Record<string, unknown>> = { ...link };
  const isBound = bindings.some((name) => fields[name] !== undefined && fields[name] !== null);
  const masquerade = !isBound && podNetworks.has(link.name) ? preferredInterfaceMasquerade : undefined;
  return {
    ...link,
    ...(!link.model && model && { model }),
    ...(masquerade && { masquerade: structuredClone(masquerade) }),
  };
}
