import { addressInSubnet, isGlobalUnicast, parseCidr } from '../../../../base/index.ts';

/** As nft calls it. */
export type Family = 'ip' | 'ip6';

/** An address with the length of its network's prefix. */
export type Address = {
  readonly ip: string;
  readonly prefix: number;
};

const familyOf = (ip: string): Family => (ip.includes(':') ? 'ip6' : 'ip');

/** Upstream counts a pod's addresses so. */
export function firstGlobal(addresses: readonly Address[], family: Family): Address | undefined {
  return addresses.find(({ ip }) => familyOf(ip) === family && isGlobalUnicast(ip));
}

/** `10.0.2.0/24` and the like, of either family; undefined for anything else. */
export function parseAddress(text: string): (Address & { readonly family: Family }) | undefined {
  const family = familyOf(text);
  const cidr = parseCidr(text, family === 'ip' ? 'ipv4' : 'ipv6');
  return cidr && { ip: cidr.address, prefix: cidr.prefix, family };
}

/** The address `offset` steps after the network's own. */
export function addressIn({ ip, prefix }: Address, offset: number): string {
  return addressInSubnet({ address: ip, prefix }, familyOf(ip) === 'ip' ? 'ipv4' : 'ipv6', BigInt(offset));
}
