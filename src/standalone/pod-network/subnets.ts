import { createHash } from 'node:crypto';
import { BlockList, isIPv4 } from 'node:net';
import { type AddressFamily, addressInSubnet, type Cidr, ipv4Bytes, parseCidr } from '../../base/index.ts';

/** What pods have addresses of. */
export interface Subnets {
  readonly ipv4: Cidr;
  /** Absent where the machine has no IPv6, or would not forward it. */
  readonly ipv6?: Cidr;
}

/** The bridge has the first address. */
export const gatewayOffset = 1;
export const maxPods = 4_000;

/** Tried in this order; each /24 of them. Most machines' networks, and what guests have behind a masquerade (10.0.2.0/24), are elsewhere. */
const pools = [
  { first: [10, 201], count: 256 },
  { first: [172, 29], count: 256 },
  { first: [192, 168], count: 256 },
] as const;

/** Of the guests' own link in every pod; it never leaves the pod, but a guest would look for other pods there. */
const behindPods = [
  { address: '10.0.2.0', prefix: 24 },
  { address: 'fd10:0:2::', prefix: 120 },
];

/** Shorter ones mean "everything else": a VPN's 0.0.0.0/1 is in nobody's way. */
const shortestRange = 4;

/** `10.1.2.0/24`; undefined for anything else, also with a bit set behind the prefix. */
export function parseSubnet(text: string): Cidr | undefined {
  const subnet = parseCidr(text, 'ipv4');
  if (!subnet) return parseCidr(text, 'ipv6');
  return addressAt(subnet, 0) === subnet.address ? subnet : undefined;
}

export function textOf({ address, prefix }: Cidr): string {
  return `${address}/${prefix}`;
}

/** A range that pods can have: some hundred addresses, none of them special. */
export function isForPods(subnet: Cidr): boolean {
  const { address, prefix } = subnet;
  if (!isIPv4(address) || prefix < 16 || prefix > 28 || behindPods.some((other) => overlap(subnet, other)))
    return false;
  const [first = 0] = ipv4Bytes(address) ?? [];
  return first !== 0 && first !== 127 && first < 224;
}

/** Ranges `taken` are the machine's. The same state directory begins at the same place, so that a node has the same addresses after a restart. */
export function chooseIpv4(stateDir: string, taken: readonly Cidr[]): Cidr | undefined {
  const start = seedOf(stateDir).readUInt8(0);
  for (const { first, count } of pools) {
    for (let at = 0; at < count; at++) {
      const subnet = { address: [...first, (start + at) % count, 0].join('.'), prefix: 24 };
      if (isFree(subnet, taken)) return subnet;
    }
  }
  return undefined;
}

/** A unique local range (RFC 4193) of this machine and state directory. */
export function chooseIpv6(stateDir: string, machineId: string): Cidr {
  const seed = seedOf(`${machineId} ${stateDir}`);
  const groups = [0xfd00 | seed.readUInt8(0), seed.readUInt16BE(1), seed.readUInt16BE(3), 1];
  return { address: `${groups.map((group) => group.toString(16)).join(':')}::`, prefix: 64 };
}

export function isFree(subnet: Cidr, taken: readonly Cidr[]): boolean {
  return ![...taken, ...behindPods].some((other) => other.prefix >= shortestRange && overlap(subnet, other));
}

function overlap(one: Cidr, other: Cidr): boolean {
  return isIPv4(one.address) === isIPv4(other.address) && (isIn(one.address, other) || isIn(other.address, one));
}

function isIn(address: string, subnet: Cidr): boolean {
  const family = familyOf(address);
  const list = new BlockList();
  list.addSubnet(subnet.address, subnet.prefix, family);
  return list.check(address, family);
}

/** How many pods have room. */
export function capacityOf({ ipv4 }: Subnets): number {
  // Not the network's own address, the bridge's and the broadcast's.
  return Math.min(2 ** (32 - ipv4.prefix) - 3, maxPods);
}

/** The address `offset` steps after the subnet's own, in both families the same offset. */
export function addressAt(subnet: Cidr, offset: number): string {
  return addressInSubnet(subnet, familyOf(subnet.address), BigInt(offset));
}

function familyOf(address: string): AddressFamily {
  return isIPv4(address) ? 'ipv4' : 'ipv6';
}

export function seedOf(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
