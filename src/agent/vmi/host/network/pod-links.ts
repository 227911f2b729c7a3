import { isRecord, listOf, memberAt } from '../../../../base/index.ts';
import { HostError } from '../errors.ts';
import type { Address } from './addresses.ts';

export interface PodLink {
  readonly index: number;
  readonly name: string;
  /** `bridge`, `dummy`, `tap`, `veth` …; empty where the kernel has no word for it. */
  readonly kind: string;
  readonly mac: string;
  readonly mtu: number;
  readonly isUp: boolean;
  readonly master?: string;
  /** Of a port of a bridge. */
  readonly learning?: boolean;
  readonly multiQueue?: boolean;
  readonly addresses: readonly Address[];
}

/** IPv4 routes of the main table in the kernel's order. */
export type PodRoute = {
  /** `default`, an address or a network. */
  readonly destination: string;
  /** Empty when its hosts are reached on the link itself. */
  readonly gateway: string;
  readonly link: string;
};

export interface PodNetwork {
  readonly links: readonly PodLink[];
  readonly routes: readonly PodRoute[];
}

/** For `ip -json -details -batch -`: one process reads all. */
export const readCommands = 'address show\nroute show\n';

/** What these commands print, a list per line. Throws HostError for anything else. */
export function parsePodNetwork(printed: string): PodNetwork {
  const lists = printed
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(parse);
  const [links, routes = []] = lists;
  if (!Array.isArray(links)) throw unreadable('no list of links');
  return { links: links.flatMap(linkOf), routes: listOf(routes).flatMap(routeOf) };
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw unreadable(line.slice(0, 100));
  }
}

function unreadable(what: string): HostError {
  return new HostError('POD_NETWORK', `the links of the pod cannot be read: ip printed ${what}`);
}

function linkOf(value: unknown): PodLink[] {
  if (!isRecord(value)) return [];
  const { ifindex, ifname, mtu, address, master, flags } = value;
  if (typeof ifindex !== 'number' || typeof ifname !== 'string') return [];
  const learning = memberAt(value, 'linkinfo', 'info_slave_data', 'learning');
  const multiQueue = memberAt(value, 'linkinfo', 'info_data', 'multi_queue');
  return [
    {
      index: ifindex,
      name: ifname,
      kind: kindOf(value),
      mac: typeof address === 'string' ? address : '',
      mtu: typeof mtu === 'number' ? mtu : 0,
      isUp: listOf(flags).includes('UP'),
      ...(typeof master === 'string' && { master }),
      ...(typeof learning === 'boolean' && { learning }),
      ...(typeof multiQueue === 'boolean' && { multiQueue }),
      addresses: listOf(value.addr_info).flatMap(addressOf),
    },
  ];
}

function kindOf(link: Record<string, unknown>): string {
  const kind = memberAt(link, 'linkinfo', 'info_kind');
  if (kind === 'tun') return String(memberAt(link, 'linkinfo', 'info_data', 'type') ?? kind);
  return typeof kind === 'string' ? kind : '';
}

function addressOf(value: unknown): Address[] {
  const [ip, prefix] = [memberAt(value, 'local'), memberAt(value, 'prefixlen')];
  return typeof ip === 'string' && typeof prefix === 'number' ? [{ ip, prefix }] : [];
}

function routeOf(value: unknown): PodRoute[] {
  const [dst, gateway, dev] = [memberAt(value, 'dst'), memberAt(value, 'gateway'), memberAt(value, 'dev')];
  if (typeof dst !== 'string' || typeof dev !== 'string') return [];
  return [{ destination: dst, link: dev, gateway: typeof gateway === 'string' ? gateway : '' }];
}
