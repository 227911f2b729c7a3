import { isIP, isIPv4 } from 'node:net';

export type Family = 'ip' | 'ip6';

/** An address with the length of its network's prefix. */
export type Address = {
  readonly ip: string;
  readonly prefix: number;
};

export const familyOf = (ip: string): Family => (ip.includes(':') ? 'ip6' : 'ip');

const bitsOf = (family: Family) => (family === 'ip' ? 32 : 128);

/** As the Go function of the same name, which decides upstream what of a pod's addresses counts. */
export function isGlobalUnicast(ip: string): boolean {
  if (isIP(ip) === 0 || ip.includes('%')) return false;
  const value = toNumber(ip);
  if (isIPv4(ip)) {
    const [first, second] = [value >> 24n, (value >> 16n) & 0xffn];
    const isMulticast = first >= 224n && first < 240n;
    return !(
      value === 0n ||
      value === 0xffffffffn ||
      first === 127n ||
      isMulticast ||
      (first === 169n && second === 254n)
    );
  }
  const isMulticast = value >> 120n === 0xffn;
  const isLinkLocal = value >> 118n === 0xfe80n >> 6n;
  return !(value <= 1n || isMulticast || isLinkLocal);
}

export function firstGlobal(addresses: readonly Address[], family: Family): Address | undefined {
  return addresses.find(({ ip }) => familyOf(ip) === family && isGlobalUnicast(ip));
}

/** `10.0.2.0/24` and the like; undefined for anything else. */
export function parseCidr(text: string): (Address & { readonly family: Family }) | undefined {
  const [ip = '', length = '', ...rest] = text.split('/');
  if (rest.length > 0 || isIP(ip) === 0 || ip.includes('%') || !/^\d{1,3}$/.test(length)) return undefined;
  const family = familyOf(ip);
  const prefix = Number(length);
  return prefix > bitsOf(family) ? undefined : { ip, prefix, family };
}

/** The address `offset` steps after the network's own. */
export function addressIn({ ip, prefix }: Address, offset: number): string {
  const family = familyOf(ip);
  const hostBits = BigInt(bitsOf(family) - prefix);
  return toText(((toNumber(ip) >> hostBits) << hostBits) + BigInt(offset), family);
}

/** Network mask of an IPv4 prefix, as four bytes. */
export function maskOf(prefix: number): Buffer {
  const mask = Buffer.alloc(4);
  mask.writeUInt32BE(prefix === 0 ? 0 : (0xffffffff << (32 - prefix)) >>> 0);
  return mask;
}

function toNumber(ip: string): bigint {
  if (isIPv4(ip)) return ip.split('.').reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  return groupsOf(ip).reduce((sum, group) => (sum << 16n) | BigInt(group), 0n);
}

/** The eight groups of an IPv6 address. */
function groupsOf(ip: string): number[] {
  const [head = '', tail] = ip.split('::');
  const [before, after] = [groups(head), groups(tail ?? '')];
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
}

function groups(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    if (!group.includes('.')) return [Number.parseInt(group, 16)];
    const value = Number(toNumber(group));
    return [value >>> 16, value & 0xffff];
  });
}

function toText(value: bigint, family: Family): string {
  if (family === 'ip') return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 0xffn).join('.');
  const hex = Array.from({ length: 8 }, (_, at) => ((value >> BigInt(112 - 16 * at)) & 0xffffn).toString(16));
  return compressed(hex);
}

/** RFC 5952: the longest run of zeros is left out, the first of several, and never a single one. */
function compressed(hex: readonly string[]): string {
  let [start, length] = [0, 1];
  for (let at = 0; at < hex.length; at++) {
    const end = hex.findIndex((group, index) => index >= at && group !== '0');
    const run = (end < 0 ? hex.length : end) - at;
    if (run > length) [start, length] = [at, run];
  }
  if (length === 1) return hex.join(':');
  return `${hex.slice(0, start).join(':')}::${hex.slice(start + length).join(':')}`;
}
