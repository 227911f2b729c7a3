import { type Interface, sriovInterfacesInPod, type VirtualMachineInstance } from '../../api/index.ts';
import { ConvertError } from './errors.ts';
import { refuseShared } from './given-devices.ts';
import type { DeviceChange } from './interfaces-change.ts';
import { type SriovContext, sriovDevices, sriovElements } from './interfaces-sriov.ts';
import { sriovAlias } from './names.ts';
import { child, childrenOf, parseXml, renderXml } from './xml.ts';

/** Of the devices that a running domain lacks and its pod has. */
export interface LackedSriovDevices {
  readonly devices: readonly DeviceChange[];
  /** Why others are not among them, each with the field of its interface: what a start would throw. */
  readonly refusals: readonly ConvertError[];
}

/**
 * Documents of the devices that a running domain lacks and its pod has: those that Multus reports, and those of claims. `xml` is libvirt's
 * live document of the domain. An interface that is refused keeps no other one away; of those with the same device all are.
 */
export function lackedSriovDevices(
  vmi: VirtualMachineInstance,
  xml: string,
  context: SriovContext,
): LackedSriovDevices {
  const machine = child(parseXml(xml, 'domain'), 'devices');
  const present = new Set(
    (machine ? childrenOf(machine, 'hostdev') : []).map((device) => child(device, 'alias')?.attributes.name),
  );
  const isLacked = ({ name }: Interface) => !present.has(sriovAlias(name));
  const interfaces = sriovInterfacesInPod(vmi);
  const found = eachAlone(interfaces, (iface) => sriovDevices(vmi, context, [iface]));
  const lacked = eachAlone(
    found.results.filter(({ iface }) => isLacked(iface)),
    (device) => {
      for (const other of found.results) if (other !== device) refuseShared([other, device]);
      return sriovElements(device).map((element) => ({ name: device.iface.name, xml: renderXml('hostdev', element) }));
    },
  );
  // What a guest has already it needs no address of.
  const unknown = found.refusals.filter(([iface]) => isLacked(iface));
  return { devices: lacked.results, refusals: [...unknown, ...lacked.refusals].map(([, refusal]) => refusal) };
}

function eachAlone<T, R>(items: readonly T[], work: (item: T) => readonly R[]) {
  const refusals: [T, ConvertError][] = [];
  const results = items.flatMap((item) => {
    try {
      return work(item);
    } catch (error) {
      if (!(error instanceof ConvertError)) throw error;
      refusals.push([item, error]);
      return [];
    }
  });
  return { results, refusals };
}
