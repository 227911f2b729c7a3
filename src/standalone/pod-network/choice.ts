import { readFile } from 'node:fs/promises';
import { type Cidr, isRecord, memberAt } from '../../base/index.ts';
import { NodeError } from '../errors.ts';
import { chooseIpv4, chooseIpv6, isForPods, isFree, parseSubnet, type Subnets, textOf } from './subnets.ts';
import type { NetworkTools } from './tools.ts';

/** `auto`, `none`, or an IPv4 range of which the node must have one. */
export type PodNetworkWish = string;

export function isPodNetworkWish(text: string): boolean {
  const subnet = parseSubnet(text);
  return text === 'auto' || text === 'none' || (subnet !== undefined && isForPods(subnet));
}

interface ChoiceOptions {
  readonly wish: PodNetworkWish;
  readonly stateDir: string;
  /** Of the last start. */
  readonly before: Subnets | undefined;
  /** Own links: their routes are in nobody's way. */
  readonly bridge: string;
  readonly hasIpv6: boolean;
}

/** Looks at the machine's routes. Throws NodeError POD_NETWORK when there is no range left, or the one that was asked for is taken. */
export async function chooseSubnets(options: ChoiceOptions, tools: NetworkTools): Promise<Subnets> {
  const { wish, stateDir, before, bridge, hasIpv6 } = options;
  const taken = await takenSubnets(bridge, tools);
  const asked = wish === 'auto' ? undefined : parseSubnet(wish);
  const usual = before && isFree(before.ipv4, taken) ? before.ipv4 : undefined;
  const ipv4 = asked ?? usual ?? chooseIpv4(stateDir, taken);
  if (!ipv4) throw new NodeError('POD_NETWORK', 'every private range is taken: choose one with --pod-network=CIDR');
  if (!isFree(ipv4, taken)) {
    throw new NodeError(
      'POD_NETWORK',
      `${textOf(ipv4)} is in use on this machine (ip route show table all): choose another range`,
    );
  }
  const machineId = await readFile('/etc/machine-id', 'utf8').catch(() => '');
  const ipv6 = chooseIpv6(stateDir, machineId.trim());
  return { ipv4, ...(hasIpv6 && isFree(ipv6, taken) && { ipv6 }) };
}

/** Of services, beside that of pods: the same at each start unless a route has come into its way. Undefined: every range is taken. */
export async function chooseServiceRange(
  { stateDir, bridge, subnets }: { readonly stateDir: string; readonly bridge: string; readonly subnets: Subnets },
  tools: NetworkTools,
): Promise<Cidr | undefined> {
  return chooseIpv4(`services ${stateDir}`, [...(await takenSubnets(bridge, tools)), subnets.ipv4]);
}

/** What has come to the machine since the range was chosen, a VPN say, and is in its way: in words. */
export async function conflicts({ ipv4, ipv6 }: Subnets, bridge: string, tools: NetworkTools): Promise<string[]> {
  const taken = await takenSubnets(bridge, tools);
  return [ipv4, ...(ipv6 ? [ipv6] : [])].flatMap((subnet) => {
    const other = taken.find((each) => !isFree(subnet, [each]));
    if (!other) return [];
    const what = `the machine has a route to ${textOf(other)}, which pods have addresses of (${textOf(subnet)})`;
    return [`${what}: one of the two is not reached until all VMs have ended and the node was started again`];
  });
}

/** Destinations of all routing tables and all addresses of links, but the node's own. */
async function takenSubnets(bridge: string, tools: NetworkTools): Promise<Cidr[]> {
  const families = await Promise.all(
    ['-4', '-6'].map((family) => tools.ipJson([family, 'route', 'show', 'table', 'all'])),
  );
  return families.flat().flatMap((route) => {
    const [dst, dev] = [memberAt(route, 'dst'), memberAt(route, 'dev')];
    if (!isRecord(route) || typeof dst !== 'string' || dev === bridge || dst === 'default') return [];
    return parseSubnet(dst.includes('/') ? dst : `${dst}/${dst.includes(':') ? 128 : 32}`) ?? [];
  });
}

/** The ranges of a file of before; undefined for anything else. */
export function readSubnets(kept: unknown): Subnets | undefined {
  const [ipv4, ipv6] = ['ipv4', 'ipv6'].map((family) => parseSubnet(String(memberAt(kept, family) ?? '')));
  return ipv4 && isForPods(ipv4) ? { ipv4, ...(ipv6 && { ipv6 }) } : undefined;
}

export function writeSubnets({ ipv4, ipv6 }: Subnets, mtu: number): string {
  return `${JSON.stringify({ ipv4: textOf(ipv4), ...(ipv6 && { ipv6: textOf(ipv6) }), mtu })}\n`;
}

export const defaultMtu = 1500;

/** Of the links that lead out: guests must not send more at once than those take. */
export async function smallestMtu(tools: NetworkTools): Promise<number> {
  const routes = await tools.ipJson(['route', 'show', 'default']);
  const ways = new Set(routes.map((route) => memberAt(route, 'dev')));
  const links = await tools.ipJson(['link', 'show']);
  const mtus = links.filter((link) => ways.has(memberAt(link, 'ifname'))).map((link) => Number(memberAt(link, 'mtu')));
  return Math.min(defaultMtu, ...mtus.filter((mtu) => mtu >= 1280));
}
