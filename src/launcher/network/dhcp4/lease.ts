import { ipv4Bytes, maskBytes } from '../../../base/index.ts';
import { encodeClasslessRoutes, type Route4 } from './classless-routes.ts';
import { type Options4, option4 } from './options.ts';

/** `interfaces[].dhcpOptions` of the VMI, checked. */
export interface CustomOptions {
  readonly tftpServerName?: string;
  readonly bootFileName?: string;
  readonly ntpServers: readonly string[];
  readonly privateOptions: readonly { readonly code: number; readonly value: string }[];
}

/** All that the one client of a bridge is given. */
export interface Lease4 {
  /** The only one that is answered; without it whoever is on the bridge. */
  readonly mac?: string;
  readonly address: string;
  readonly prefix: number;
  /** What this server calls itself. */
  readonly server: string;
  readonly router?: string;
  readonly dns: readonly string[];
  readonly routes: readonly Route4[];
  readonly hostName: string;
  readonly domainName: string;
  /** As option 119 has it. */
  readonly domainSearch: Buffer;
  readonly mtu: number;
  readonly custom: CustomOptions;
}

/** 999 days: as good as for ever, and what upstream's guests have. */
export const leaseSeconds = 999 * 24 * 3600;

/** Options of every answer (upstream's `pkg/network/dhcp/server`). What the lease does not have is left out. */
export function leaseOptions4(lease: Lease4): Options4 {
  const { custom } = lease;
  const options: readonly (readonly [number, Buffer])[] = [
    [option4.SUBNET_MASK, maskBytes(lease.prefix)],
    [option4.ROUTER, addresses(lease.router ? [lease.router] : [])],
    [option4.DNS, addresses(lease.dns)],
    [option4.HOST_NAME, Buffer.from(lease.hostName)],
    [option4.DOMAIN_NAME, Buffer.from(lease.domainName)],
    [option4.MTU, mtuBytes(lease.mtu)],
    [option4.NTP, addresses(custom.ntpServers)],
    [option4.LEASE_SECONDS, secondsBytes(leaseSeconds)],
    [option4.SERVER_ID, addresses([lease.server])],
    [option4.TFTP_SERVER, Buffer.from(custom.tftpServerName ?? '')],
    [option4.BOOT_FILE, Buffer.from(custom.bootFileName ?? '')],
    [option4.DOMAIN_SEARCH, lease.domainSearch],
    [option4.CLASSLESS_ROUTES, encodeClasslessRoutes(lease.routes)],
    ...custom.privateOptions.map(({ code, value }) => [code, Buffer.from(value)] as const),
  ];
  return new Map(options.filter(([, value]) => value.length > 0));
}

function addresses(list: readonly string[]): Buffer {
  return Buffer.concat(list.flatMap((address) => ipv4Bytes(address) ?? []));
}

function mtuBytes(mtu: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(Math.min(mtu, 0xffff));
  return bytes;
}

function secondsBytes(seconds: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(seconds);
  return bytes;
}
