import { createHash } from 'node:crypto';
import { type Interface, isMacAddress, type VirtualMachineInstance } from '../../api/index.ts';
import { ConvertError, invalid } from './errors.ts';
import type { InterfaceContext, NamedInterface } from './interfaces-binding.ts';
import { networkDevices } from './names.ts';
import type { XmlContent } from './xml.ts';

/**
 * The device that the agent made in the pod. A binding plug-in may have made its tap under the pod's name (upstream's `domainspec`); MAC
 * and MTU are those of the pod's own device.
 */
export function tapBackend(
  vmi: VirtualMachineInstance,
  { iface, network, field }: NamedInterface,
  { links = new Map() }: InterfaceContext,
): XmlContent {
  const names = networkDevices(network, vmi, links);
  const pod = links.get(names.pod);
  const target = links.get(names.tap) ?? (iface.binding ? pod : undefined);
  if (!target) {
    const there = [...links.keys()].join(', ') || 'none';
    const wanted = iface.binding ? `${names.tap} or ${names.pod}` : names.tap;
    throw new ConvertError(
      'MISSING_LINK',
      `${field}: the pod has no network device ${wanted} (there are: ${there}); the agent makes it ` +
        'before the start, look into its log; without an agent set VIRT_LAUNCHER_NETWORK=user',
    );
  }
  const mtu = pod?.mtu ?? target.mtu;
  return {
    '@type': 'ethernet',
    mac: { '@address': macOf(iface, field) ?? pod?.mac ?? generatedMac(vmi, iface.name) },
    ...(mtu !== undefined && { mtu: { '@size': mtu } }),
    target: { '@dev': target.name, '@managed': 'no' },
  };
}

export function macOf(iface: Interface, field: string): string | undefined {
  if (!iface.macAddress) return undefined;
  if (isMacAddress(iface.macAddress)) return iface.macAddress.replaceAll('-', ':').toLowerCase();
  throw invalid(`${field}.macAddress`, `${JSON.stringify(iface.macAddress)} is not a MAC address`);
}

/** The same VMI gets the same address at each define; the prefix is QEMU's. */
export function generatedMac(vmi: VirtualMachineInstance, name: string): string {
  const seed = `${vmi.metadata.uid ?? ''}/${vmi.metadata.namespace ?? ''}/${vmi.metadata.name}/${name}`;
  const digest = createHash('sha256').update(seed).digest('hex');
  return `52:54:00:${digest.slice(0, 2)}:${digest.slice(2, 4)}:${digest.slice(4, 6)}`;
}
