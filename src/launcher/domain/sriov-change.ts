import { sriovInterfacesInPod, type VirtualMachineInstance } from '../../api/index.ts';
import { refuseShared } from './given-devices.ts';
import type { DeviceChange } from './interfaces-change.ts';
import { type SriovContext, sriovDevices, sriovElements } from './interfaces-sriov.ts';
import { sriovAlias } from './names.ts';
import { child, childrenOf, parseXml, renderXml } from './xml.ts';

/**
 * Documents of the devices that a running domain lacks and its pod has: those that Multus reports, and those of claims. `xml` is libvirt's
 * live document of the domain. Throws `ConvertError` as at a start.
 */
export function lackedSriovDevices(vmi: VirtualMachineInstance, xml: string, context: SriovContext): DeviceChange[] {
  const machine = child(parseXml(xml, 'domain'), 'devices');
  const present = new Set(
    (machine ? childrenOf(machine, 'hostdev') : []).map((device) => child(device, 'alias')?.attributes.name),
  );
  const devices = sriovDevices(vmi, context, sriovInterfacesInPod(vmi));
  refuseShared(devices);
  return devices
    .filter(({ iface }) => !present.has(sriovAlias(iface.name)))
    .flatMap((device) =>
      sriovElements(device).map((element) => ({ name: device.iface.name, xml: renderXml('hostdev', element) })),
    );
}
