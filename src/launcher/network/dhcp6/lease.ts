import { ipv6Bytes } from '../../../base/index.ts';
import { encodeOptions6, type Option6, option6 } from './options.ts';

/** All that the one client of a bridge is given. */
export interface Lease6 {
  readonly address: string;
  /** Of the bridge, `02:00:00:00:00:00`: the server's identity is made of it. */
  readonly serverMac: string;
  readonly dns: readonly string[];
}

/** 999 days: as good as for ever, and what upstream's guests have. */
export const lifetimeSeconds = 999 * 24 * 3600;

const duidLinkLayer = 3;
const ethernet = 1;

/** DUID-LL (RFC 8415 §11.4). */
export function serverDuid({ serverMac }: Lease6): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16BE(duidLinkLayer, 0);
  head.writeUInt16BE(ethernet, 2);
  return Buffer.concat([head, Buffer.from(serverMac.replaceAll(':', ''), 'hex')]);
}

/** The address, for the identity association that the client asks with. T1 and T2 are left to the client. */
export function iaNaOption(iaId: Buffer, lease: Lease6): Option6 {
  const lifetimes = Buffer.alloc(8);
  lifetimes.writeUInt32BE(lifetimeSeconds, 0);
  lifetimes.writeUInt32BE(lifetimeSeconds, 4);
  const address = Buffer.concat([ipv6Bytes(lease.address) ?? Buffer.alloc(16), lifetimes]);
  const inner = encodeOptions6([{ code: option6.IA_ADDRESS, value: address }]);
  return { code: option6.IA_NA, value: Buffer.concat([iaId, Buffer.alloc(8), inner]) };
}

export function dnsOptions({ dns }: Lease6): Option6[] {
  const value = Buffer.concat(dns.flatMap((address) => ipv6Bytes(address) ?? []));
  return value.length > 0 ? [{ code: option6.DNS, value }] : [];
}
