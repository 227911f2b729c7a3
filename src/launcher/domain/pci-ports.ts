import type { VirtualMachineInstance } from '../../api/index.ts';
import { architectureOf } from './architecture.ts';
import { memoryShape } from './memory.ts';
import type { XmlContent } from './xml.ts';

const gibibyte = 2 ** 30;
/** Devices on conventional PCI share one bridge, which takes one port. */
const conventionalModels = new Set(['e1000', 'rtl8139', 'pcnet', 'ne2k_pci', 'ac97', 'i6300esb']);
const maxPortIndex = 31;

/**
 * PCIe root ports: one for each device that libvirt will put on one, and free ones for devices plugged in
 * later: up to 8 in all but at least 3 free, or 16 and 6 for guests above 2 GiB. Written at once, so that one define does
 * what upstream needs three for. None without PCIe or when nothing can be plugged in.
 */
export function rootPortElements(vmi: VirtualMachineInstance, devices: XmlContent): XmlContent[] {
  const machine = vmi.spec.domain.machine?.type || architectureOf(vmi).machineType;
  if (!/q35|^virt/.test(machine) || vmi.spec.domain.devices?.disableHotplug) return [];
  const used = pcieDevices(devices);
  const isLarge = memoryShape(vmi).guestBytes > 2 * gibibyte;
  const free = isLarge ? Math.max(16 - used, 6) : Math.max(8 - used, 3);
  const count = Math.min(used + free, maxPortIndex);
  return Array.from({ length: count }, (_, at) => ({ '@type': 'pci', '@index': at + 1, '@model': 'pcie-root-port' }));
}

function pcieDevices(devices: XmlContent): number {
  const pcie = [
    ...elements(devices.disk).filter((disk) => child(disk, 'target')?.['@bus'] === 'virtio'),
    ...elements(devices.interface).filter((nic) => !isConventional(child(nic, 'model')?.['@type'])),
    ...elements(devices.controller).filter((one) => one['@model'] !== 'none' && one['@type'] !== 'pci'),
    ...elements(devices.input).filter((input) => input['@bus'] === 'virtio'),
    ...elements(devices.memballoon).filter((balloon) => balloon['@model'] !== 'none'),
    ...elements(devices.hostdev).filter((one) => one['@type'] !== 'usb'),
    ...elements(devices.filesystem),
    ...elements(devices.rng),
    ...elements(devices.vsock),
  ];
  const conventional = [
    ...elements(devices.interface).filter((nic) => isConventional(child(nic, 'model')?.['@type'])),
    ...[...elements(devices.sound), ...elements(devices.watchdog)].filter((one) => isConventional(one['@model'])),
  ];
  return pcie.length + (conventional.length > 0 ? 1 : 0);
}

function isConventional(model: unknown): boolean {
  return conventionalModels.has(String(model));
}

function elements(value: XmlContent[string]): readonly XmlContent[] {
  if (typeof value !== 'object') return [];
  return Array.isArray(value) ? (value as readonly XmlContent[]) : [value as XmlContent];
}

function child(element: XmlContent, name: string): XmlContent | undefined {
  return elements(element[name])[0];
}
