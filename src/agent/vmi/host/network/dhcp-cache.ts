import { isMacAddress } from '../../../../api/index.ts';
import { maskBytes } from '../../../../base/index.ts';
import { HostError } from '../errors.ts';
import { type Address, addressIn, firstGlobal, parseAddress } from './addresses.ts';
import type { PodRoute } from './pod-links.ts';

/** What the launcher's DHCP server tells a guest on a bridge (pkg/network/cache/dhcpiface.go), as Go writes the structure. */
export interface DhcpCache {
  /** Below `/var/run/kubevirt-private` of the launcher. */
  readonly file: string;
  readonly text: string;
}

export interface DhcpFacts {
  readonly podLink: string;
  readonly mac: string;
  readonly addresses: readonly Address[];
  readonly routes: readonly PodRoute[];
}

export const dhcpCacheFile = (podLink: string) => `vif-cache-${podLink}.json`;

/** Throws HostError: an address without a route would leave the guest alone with it. */
export function dhcpCache({ podLink, mac, addresses, routes }: DhcpFacts): DhcpCache {
  const address = firstGlobal(addresses, 'ip');
  const known = address ? withAddress(podLink, mac, address, routes) : { IPAMDisabled: true };
  return { file: dhcpCacheFile(podLink), text: JSON.stringify({ ...nothing, ...known }, null, 2) };
}

const noAddress = {
  Label: '',
  Flags: 0,
  Scope: 0,
  Peer: null,
  Broadcast: '',
  PreferedLft: 0,
  ValidLft: 0,
  LinkIndex: 0,
};

const nothing = {
  Name: '',
  IP: noAddress,
  IPv6: noAddress,
  MAC: null,
  AdvertisingIPAddr: '',
  AdvertisingIPv6Addr: '',
  Routes: null,
  Mtu: 0,
  IPAMDisabled: false,
  Gateway: '',
  Subdomain: '',
};

function withAddress(podLink: string, mac: string, address: Address, routes: readonly PodRoute[]) {
  const own = routes.filter(({ link }) => link === podLink);
  const [first] = own;
  if (!first) throw new HostError('POD_NETWORK', `no gateway address found in routes for ${podLink}`);
  const others = own.flatMap((route) => routeOf(route, address));
  return {
    IP: { IP: address.ip, Mask: maskBytes(address.prefix).toString('base64'), ...noAddress },
    MAC: macBytes(mac, podLink),
    Routes: others.length > 0 ? others : null,
    Gateway: first.gateway,
  };
}

interface GoRoute {
  readonly Dst: { readonly IP: string; readonly Mask: string } | null;
  readonly Gw: string;
}

/** Upstream's word of a route, without that of the link's own network. */
function routeOf({ destination, gateway }: PodRoute, own: Address): GoRoute[] {
  if (destination === 'default') return [{ Dst: null, Gw: gateway }];
  const network = parseAddress(destination.includes('/') ? destination : `${destination}/32`);
  if (!network) return [];
  const isOwn = network.prefix === own.prefix && addressIn(network, 0) === addressIn(own, 0);
  return isOwn
    ? []
    : [{ Dst: { IP: addressIn(network, 0), Mask: maskBytes(network.prefix).toString('base64') }, Gw: gateway }];
}

function macBytes(mac: string, podLink: string): string {
  if (!isMacAddress(mac))
    throw new HostError('CRITICAL_NETWORK', `${JSON.stringify(mac)} of ${podLink} is no MAC address`);
  return Buffer.from(mac.replaceAll(/[:-]/g, ''), 'hex').toString('base64');
}

/** Address and MAC of a link that another agent had begun to take apart: nothing else remembers them. */
export function readDhcpCache(text: string): { readonly mac?: string; readonly address?: Address } {
  const { MAC: mac, IP: given } = JSON.parse(text) as { MAC?: unknown; IP?: { IP?: unknown; Mask?: unknown } };
  const bytes = typeof mac === 'string' ? Buffer.from(mac, 'base64').toString('hex') : '';
  const address = typeof given?.IP === 'string' && typeof given.Mask === 'string' && prefixOf(given.IP, given.Mask);
  return {
    ...(bytes.length === 12 && { mac: (bytes.match(/../g) ?? []).join(':') }),
    ...(address && { address }),
  };
}

function prefixOf(ip: string, mask: string): Address | undefined {
  const bits = [...Buffer.from(mask, 'base64')].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  const prefix = bits.indexOf('0') < 0 ? bits.length : bits.indexOf('0');
  const cidr = parseAddress(`${ip}/${prefix}`);
  return bits.length === 32 && cidr ? { ip: cidr.ip, prefix } : undefined;
}
