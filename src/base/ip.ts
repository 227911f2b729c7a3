import { isIPv4, isIPv6 } from 'node:net';

/** Addresses as text and as bytes; pure. */

export type AddressFamily = 'ipv4' | 'ipv6';

/** A subnet, or an address with its prefix. */
export interface Cidr {
  readonly address: string;
  readonly prefix: number;
}

export const addressBits = { ipv4: 32, ipv6: 128 } as const;

/** The four bytes of an IPv4 address; undefined when the text is none. */
export function ipv4Bytes(text: string): Buffer | undefined {
  return isIPv4(text) ? Buffer.from(text.split('.').map(Number)) : undefined;
}

/** The 16 bytes of an IPv6 address without a zone; undefined when the text is none. */
export function ipv6Bytes(text: string): Buffer | undefined {
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const [head = '', tail] = text.split('::');
  const before = groupBytes(head);
  const after = groupBytes(tail ?? '');
  return Buffer.from([...before, ...new Array<number>(16 - before.length - after.length).fill(0), ...after]);
}

/** `fd10:0:2` or `1.2.3.4`, which may be the last group. */
function groupBytes(text: string): number[] {
  if (text === '') return [];
  return text.split(':').flatMap((group) => {
    const embedded = ipv4Bytes(group);
    const value = Number.parseInt(group, 16);
    return embedded ? [...embedded] : [value >> 8, value & 255];
  });
}

export function ipv4Text(bytes: Uint8Array): string {
  return bytes.subarray(0, 4).join('.');
}

/** IPv4 inside of IPv6, `::ffff:1.2.3.4`; undefined for any other address. */
export function mappedIpv4(bytes: Buffer): string | undefined {
  const isMapped = bytes.subarray(0, 10).every((byte) => byte === 0) && bytes.readUInt16BE(10) === 0xffff;
  return isMapped ? ipv4Text(bytes.subarray(12)) : undefined;
}

/** Neither unspecified, loopback, multicast nor link-local, nor the broadcast address: Go's `net.IP.IsGlobalUnicast`. */
export function isGlobalUnicast(address: string): boolean {
  const v4 = ipv4Bytes(address);
  if (v4) {
    const [a = 0, b = 0] = v4;
    const isLinkLocal = a === 169 && b === 254;
    return !(
      v4.readUInt32BE() === 0 ||
      a === 127 ||
      isLinkLocal ||
      (a >= 224 && a <= 239) ||
      v4.readUInt32BE() === 0xffffffff
    );
  }
  const v6 = ipv6Bytes(address);
  if (!v6) return false;
  const isLowest = v6.subarray(0, 15).every((byte) => byte === 0) && (v6[15] ?? 0) <= 1;
  const isLinkLocal = v6[0] === 0xfe && ((v6[1] ?? 0) & 0xc0) === 0x80;
  return !(isLowest || v6[0] === 0xff || isLinkLocal);
}

/** Bytes of the mask that belongs to a prefix. */
export function maskBytes(prefix: number): Buffer {
  const mask = Buffer.alloc(4);
  mask.writeUInt32BE(prefix === 0 ? 0 : (0xffffffff << (32 - prefix)) >>> 0);
  return mask;
}

/** The prefix of a contiguous mask; undefined for any other bytes. */
export function maskPrefix(mask: Uint8Array): number | undefined {
  const bits = [...mask].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  const end = bits.indexOf('0');
  const prefix = end < 0 ? bits.length : end;
  return bits.slice(prefix).includes('1') ? undefined : prefix;
}

/** `10.0.2.0/24`; undefined when the text is no such thing of this family. */
export function parseCidr(text: string, family: AddressFamily): Cidr | undefined {
  const [address = '', prefix = '', ...rest] = text.split('/');
  const bytes = family === 'ipv4' ? ipv4Bytes(address) : ipv6Bytes(address);
  if (!bytes || rest.length > 0 || !/^\d{1,3}$/.test(prefix) || Number(prefix) > addressBits[family]) return undefined;
  return { address, prefix: Number(prefix) };
}

/** The `index`th address of a subnet, counted from its network address; as RFC 5952 writes it. */
export function addressInSubnet({ address, prefix }: Cidr, family: AddressFamily, index: bigint): string {
  const bytes = (family === 'ipv4' ? ipv4Bytes(address) : ipv6Bytes(address)) ?? Buffer.alloc(addressBits[family] / 8);
  const hostBits = BigInt(addressBits[family] - prefix);
  const network = (BigInt(`0x${bytes.toString('hex')}`) >> hostBits) << hostBits;
  const hex = (network + index).toString(16).padStart(addressBits[family] / 4, '0');
  if (family === 'ipv4') return ipv4Text(Buffer.from(hex, 'hex'));
  return compressed((hex.match(/.{4}/g) ?? []).map((group) => Number.parseInt(group, 16).toString(16)));
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
