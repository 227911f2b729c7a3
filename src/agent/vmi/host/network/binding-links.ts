import type { Interface, Network } from '../../../../api/index.ts';
import { HostError } from '../errors.ts';
import { type Address, addressIn, type Family, firstGlobal, parseAddress } from './addresses.ts';
import type { LinkNames } from './names.ts';
import type { OriginalLink, Setting, WantedLink } from './wanted.ts';

/** What one interface needs in the pod (pkg/network/setup/netpod/netpod.go). */
export interface BindingNeeds {
  readonly links: readonly WantedLink[];
  readonly settings: readonly Setting[];
}

export interface TapOptions {
  readonly owner: number;
  readonly queues: number;
}

/** Of all bridges behind which guests are hidden: it is never seen outside of the pod. */
const masqueradeMac = '02:00:00:00:00:00';
const defaultCidr = { ip: '10.0.2.0/24', ip6: 'fd10:0:2::/120' } as const;

/** Gateway and guest need an address each, besides that of the network and the last one. */
const minHostBits = 2;

export interface GuestNetwork {
  readonly family: Family;
  readonly gateway: Address;
  readonly guest: string;
}

/** Families in which the pod has an address, and the network behind masquerading in each. Throws HostError CRITICAL_NETWORK. */
export function guestNetworks(network: Network, addresses: readonly Address[]): GuestNetwork[] {
  return (['ip', 'ip6'] as const)
    .filter((family) => firstGlobal(addresses, family))
    .map((family) => {
      const cidr = family === 'ip' ? network.pod?.vmNetworkCIDR : network.pod?.vmIPv6NetworkCIDR;
      return guestNetwork(network.name, family, cidr || defaultCidr[family]);
    });
}

function guestNetwork(network: string, family: Family, text: string): GuestNetwork {
  const cidr = parseAddress(text);
  if (cidr?.family !== family) {
    const example = defaultCidr[family];
    throw new HostError(
      'CRITICAL_NETWORK',
      `network ${network}: ${JSON.stringify(text)} is no network like ${example}`,
    );
  }
  const hostBits = (family === 'ip' ? 32 : 128) - cidr.prefix;
  if (hostBits < minHostBits) {
    const problem = 'VM CIDR subnet is too small, at least 2 host addresses are required';
    throw new HostError('CRITICAL_NETWORK', `network ${network}: ${problem}: ${text}`);
  }
  return { family, gateway: { ip: addressIn(cidr, 1), prefix: cidr.prefix }, guest: addressIn(cidr, 2) };
}

export function masqueradeNeeds(
  names: LinkNames,
  guests: readonly GuestNetwork[],
  mtu: number,
  tap: TapOptions,
): BindingNeeds {
  const has = (family: Family) => guests.some((guest) => guest.family === family);
  const addresses = guests.map(({ gateway }) => gateway);
  const bridge = { name: names.bridge, kind: 'bridge', mac: masqueradeMac, mtu, isUp: true, addresses } as const;
  return {
    links: [bridge, tapLink(names, mtu, tap)],
    settings: [
      ...(has('ip') ? [on(`net/ipv4/conf/${names.bridge}/route_localnet`), on('net/ipv4/ip_forward')] : []),
      ...(has('ip6') ? [on('net/ipv6/conf/all/forwarding')] : []),
    ],
  };
}

const on = (name: string): Setting => ({ name, value: '1' });

/**
 * The pod's link becomes a port of a bridge, and a link that stays down takes its name and addresses, so that others find them. `bridgeMac`
 * is the pod's link's, too; the guest has that link's own.
 */
export function bridgeNeeds(
  names: LinkNames,
  original: OriginalLink,
  bridge: { readonly mac: string; readonly address: Address | undefined },
  tap: TapOptions,
): BindingNeeds {
  const { index, mtu, mac, addresses } = original;
  const own = bridge.address ? [bridge.address] : [];
  return {
    links: [
      { name: names.bridge, kind: 'bridge', mac: bridge.mac, isUp: true, addresses: own },
      {
        name: names.renamed,
        kind: 'adopted',
        index,
        mac: bridge.mac,
        master: names.bridge,
        isUp: true,
        addresses: [],
        learning: false,
      },
      tapLink(names, mtu, tap),
      { name: names.pod, kind: 'dummy', mac, mtu, isUp: false, addresses },
    ],
    settings: firstGlobal(addresses, 'ip') ? [on('net/ipv4/conf/all/arp_ignore')] : [],
  };
}

/** The launcher's DHCP server is found there; it counts all interfaces of the VMI, whichever are set up at once. */
export function bridgeAddress(original: OriginalLink, position: number): Address | undefined {
  return firstGlobal(original.addresses, 'ip') && { ip: `169.254.75.1${position}`, prefix: 32 };
}

function tapLink(names: LinkNames, mtu: number, { owner, queues }: TapOptions): WantedLink {
  const tap = { owner, isMultiQueue: queues > 1 };
  return { name: names.tap, kind: 'tap', mtu, master: names.bridge, isUp: true, addresses: [], tap };
}

/** For passt, which runs as the user qemu and listens on ports of the guest. */
export const passtSettings: readonly Setting[] = [
  { name: 'net/ipv4/ping_group_range', value: '107 107' },
  { name: 'net/ipv4/ip_unprivileged_port_start', value: '0' },
];

export type Binding =
  | { readonly kind: 'bridge' }
  | { readonly kind: 'masquerade' }
  | { readonly kind: 'passt' }
  /** Passed through to the guest: nothing is done in the pod. */
  | { readonly kind: 'sriov' }
  /** Its side car does the rest. */
  | { readonly kind: 'plugin'; readonly hasManagedTap: boolean };

/** Throws HostError CRITICAL_NETWORK for one that this agent does not know. */
export function bindingOf(
  iface: Interface,
  plugins: Readonly<Record<string, { readonly domainAttachmentType?: string }>>,
): Binding {
  if (iface.bridge) return { kind: 'bridge' };
  if (iface.masquerade) return { kind: 'masquerade' };
  if (iface.passtBinding) return { kind: 'passt' };
  if (iface.sriov) return { kind: 'sriov' };
  if (iface.binding) {
    const plugin = Object.hasOwn(plugins, iface.binding.name) ? plugins[iface.binding.name] : undefined;
    return { kind: 'plugin', hasManagedTap: plugin?.domainAttachmentType === 'managedTap' };
  }
  const names = Object.keys(iface).filter((key) => !['name', 'model', 'macAddress', 'ports', 'state'].includes(key));
  const given = names.length > 0 ? ` (it has ${names.join(', ').slice(0, 200)})` : '';
  const advice = 'take masquerade, bridge, sriov, passtBinding or a binding plug-in';
  throw new HostError('CRITICAL_NETWORK', `interface ${iface.name} has no binding that is known${given}: ${advice}`);
}
