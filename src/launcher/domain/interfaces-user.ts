import type { Network, VirtualMachineInstance } from '../../api/index.ts';
import { invalid, unsupported } from './errors.ts';
import type { NamedInterface } from './interfaces-binding.ts';
import { generatedMac, macOf } from './interfaces-tap.ts';
import { isPrimaryNetwork } from './names.ts';
import type { XmlContent } from './xml.ts';

/** QEMU's own network stack: no rights and no device in the pod needed; ports are forwarded by `user-network`. */
export function userBackend(vmi: VirtualMachineInstance, { iface, network, field }: NamedInterface): XmlContent {
  if (!isPrimaryNetwork(network) || network.multus) {
    throw unsupported(`spec.networks[${network.name}].multus`, 'with user networking only the pod network exists');
  }
  if (iface.dhcpOptions)
    throw unsupported(`${field}.dhcpOptions`, 'user networking has its own DHCP server; remove them');
  const ip = [cidrElement(network, 'vmNetworkCIDR', 'ipv4'), cidrElement(network, 'vmIPv6NetworkCIDR', 'ipv6')];
  return {
    '@type': 'user',
    mac: { '@address': macOf(iface, field) ?? generatedMac(vmi, iface.name) },
    ip: ip.flatMap((element) => (element ? [element] : [])),
  };
}

function cidrElement(
  network: Network,
  key: 'vmNetworkCIDR' | 'vmIPv6NetworkCIDR',
  family: 'ipv4' | 'ipv6',
): XmlContent | undefined {
  const cidr = network.pod?.[key];
  if (!cidr) return undefined;
  const [address, prefix, ...rest] = cidr.split('/');
  if (!address || !prefix || rest.length > 0 || !/^\d{1,3}$/.test(prefix)) {
    throw invalid(
      `spec.networks[${network.name}].pod.${key}`,
      `${JSON.stringify(cidr)} is not an address with a prefix`,
    );
  }
  return { '@family': family, '@address': address, '@prefix': prefix };
}
