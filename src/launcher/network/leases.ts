import type { Interface, Network, VirtualMachineInstance } from '../../api/index.ts';
import {
  type AddressFamily,
  addressBits,
  addressInSubnet,
  type Cidr,
  isGlobalUnicast,
  parseCidr,
} from '../../base/index.ts';
import type { DeviceAddress, NetworkLink } from '../../host/index.ts';
import type { NetworkDevices } from '../domain/index.ts';
import { customOptions } from './custom-options.ts';
import { encodeDomainSearch } from './dhcp4/domain-search.ts';
import type { Lease4 } from './dhcp4/lease.ts';
import type { Lease6 } from './dhcp6/lease.ts';
import { NetworkError } from './errors.ts';
import { longest, type ResolvConf, withSubdomain } from './resolv-conf.ts';
import type { VifCache } from './vif-cache.ts';

/** What the guest of one interface is given. Neither: its own network gives it addresses, or the pod has none. */
export interface Leases {
  readonly v4?: Lease4;
  readonly v6?: Lease6;
  /** Search domains that are none. */
  readonly leftOut: readonly string[];
}

/** What is the same for all interfaces of the VMI. */
export interface GuestFacts {
  readonly vmi: VirtualMachineInstance;
  readonly resolvConf: ResolvConf;
  /** The pod's, which is the VMI's. */
  readonly hostName: string;
}

export interface LeaseInput {
  readonly iface: Interface;
  readonly network: Network;
  readonly devices: NetworkDevices;
  readonly links: ReadonlyMap<string, NetworkLink>;
}

const subnets = {
  ipv4: { key: 'vmNetworkCIDR', byDefault: '10.0.2.0/24' },
  ipv6: { key: 'vmIPv6NetworkCIDR', byDefault: 'fd10:0:2::/120' },
} as const;
/** Network, gateway, guest, broadcast. */
const minHostBits = 2;
const defaultMtu = 1500;

/** Per family that the pod's device has an address of (upstream's `pkg/network/dhcp/masquerade.go`). Throws `NetworkError`. */
export function masqueradeLeases(input: LeaseInput, facts: GuestFacts, addresses: readonly DeviceAddress[]): Leases {
  const { iface, network, devices, links } = input;
  const has = (family: AddressFamily) =>
    addresses.some((each) => each.device === devices.pod && each.family === family && isGlobalUnicast(each.address));
  const mtu = links.get(devices.pod)?.mtu ?? defaultMtu;
  const { leftOut, ...common } = commonOf(iface, facts);
  const subnet4 = has('ipv4') ? subnetOf(network, 'ipv4') : undefined;
  const subnet6 = has('ipv6') ? subnetOf(network, 'ipv6') : undefined;
  const gateway = subnet4 && addressInSubnet(subnet4, 'ipv4', 1n);
  return {
    ...(subnet4 &&
      gateway && {
        v4: {
          ...common,
          address: addressInSubnet(subnet4, 'ipv4', 2n),
          prefix: subnet4.prefix,
          server: gateway,
          router: gateway,
          routes: [],
          mtu,
        },
      }),
    ...(subnet6 && {
      v6: {
        address: addressInSubnet(subnet6, 'ipv6', 2n),
        serverMac: links.get(devices.bridge)?.mac ?? '02:00:00:00:00:00',
        dns: facts.resolvConf.dns6,
      },
    }),
    leftOut,
  };
}

/** The pod's own address for its guest (upstream's `pkg/network/dhcp/bridge.go`). Throws `NetworkError`. */
export function bridgeLeases(input: LeaseInput, facts: GuestFacts, cache: VifCache): Leases {
  const { iface, devices, links } = input;
  if (cache.kind === 'no-ipam') return { leftOut: [] };
  const podNic = links.get(devices.podNic);
  if (!podNic) {
    throw new NetworkError(
      'NO_HANDOVER',
      `network ${iface.name}: the pod has no network device ${devices.podNic}, which the node agent makes of the pod's own one: look into its log`,
    );
  }
  const { leftOut, ...common } = commonOf(iface, facts);
  const { mac, address, gateway, routes } = cache;
  const lease: Lease4 = {
    ...common,
    ...(mac && { mac }),
    ...address,
    server: bridgeServer(facts.vmi, iface),
    ...(gateway && { router: gateway }),
    routes,
    mtu: podNic.mtu ?? defaultMtu,
  };
  return { v4: lease, leftOut };
}

/** The agent gives the bridge the same one, by the interface's place in the VMI. */
function bridgeServer(vmi: VirtualMachineInstance, iface: Interface): string {
  const index = (vmi.spec.domain.devices?.interfaces ?? []).findIndex(({ name }) => name === iface.name);
  return `169.254.75.1${index}`;
}

type Common = Pick<Lease4, 'dns' | 'hostName' | 'domainName' | 'domainSearch' | 'custom'> & {
  readonly leftOut: readonly string[];
};

function commonOf(iface: Interface, { vmi, resolvConf, hostName }: GuestFacts): Common {
  const domains = withSubdomain(resolvConf.searchDomains, vmi.spec.subdomain ?? '');
  const { bytes, leftOut } = encodeDomainSearch(domains);
  return {
    dns: resolvConf.dns4,
    hostName,
    domainName: longest(domains.filter((domain) => !leftOut.includes(domain))),
    domainSearch: bytes,
    custom: customOptions(`spec.domain.devices.interfaces[${iface.name}]`, iface.dhcpOptions),
    leftOut,
  };
}

function subnetOf(network: Network, family: AddressFamily): Cidr {
  const { key, byDefault } = subnets[family];
  const given = network.pod?.[key] || byDefault;
  const cidr = parseCidr(given, family);
  if (cidr && addressBits[family] - cidr.prefix >= minHostBits) return cidr;
  throw new NetworkError(
    'INVALID_OPTIONS',
    `spec.networks[${network.name}].pod.${key}: ${JSON.stringify(given)} is no subnet with room for a gateway and a guest, such as ${byDefault}`,
  );
}
