import { randomBytes } from 'node:crypto';
import type { VirtualMachineInstance } from '../../../../api/index.ts';
import type { ClusterConfig } from '../../../../cluster-config/index.ts';
import { HostError } from '../errors.ts';
import { type Address, firstGlobal } from './addresses.ts';
import {
  type Binding,
  bindingOf,
  bridgeAddress,
  bridgeNeeds,
  guestNetworks,
  masqueradeNeeds,
  passtSettings,
} from './binding-links.ts';
import { type DhcpCache, dhcpCache } from './dhcp-cache.ts';
import { linkCommands, removalCommands } from './link-commands.ts';
import { type LinkNames, linkNames, podLinkNames } from './names.ts';
import { natRules } from './nat-rules.ts';
import type { PodLink, PodNetwork, PodRoute } from './pod-links.ts';
import { queuesOf } from './queues.ts';
import type { Target, Targets } from './targets.ts';
import type { OriginalLink, Setting, WantedLink } from './wanted.ts';

/** As it was before anything was done; routes are null where another agent had begun, and had told the launcher of them. */
export type Original = OriginalLink & { readonly routes: readonly PodRoute[] | null };

export interface PlanInput extends Targets {
  readonly vmi: VirtualMachineInstance;
  readonly config: Pick<ClusterConfig, 'networkBindings' | 'portRanges'>;
  readonly owner: number;
  readonly network: PodNetwork;
  /** Network → what an earlier try saved. */
  readonly originals: Readonly<Record<string, Original>>;
  /** Of the agent's own pod: in a cluster of both families its own comes first. */
  readonly podIp: string;
  readonly newMac?: () => string;
}

export interface NetworkPlan {
  /** Lines for `ip -batch`. */
  readonly commands: readonly string[];
  readonly settings: readonly Setting[];
  /** A file for `nft`; empty where nothing is masqueraded. */
  readonly rules: string;
  readonly dhcp: readonly DhcpCache[];
  readonly podInterfaces: readonly { readonly target: Target; readonly podIps: readonly string[] }[];
  readonly originals: Readonly<Record<string, Original>>;
}

/** What one interface adds to the plan. */
interface Part {
  readonly links: readonly WantedLink[];
  readonly settings: readonly Setting[];
  readonly rules?: string;
  readonly dhcp?: DhcpCache;
  readonly podIps?: readonly string[];
  readonly original?: Original;
}

/** Libvirt's default ports for migrations that do not go through unix sockets. */
const migrationPorts = [49_152, 49_153];

/**
 * All that is to be done in the pod's network namespace, and what is kept of it. Pure but for a new address of a bridge. Throws HostError: CRITICAL_NETWORK
 * for what no repeat can mend.
 */
export function planNetwork(input: PlanInput): NetworkPlan {
  const names = namesOf(input);
  const parts = input.wanted.map((target) => ({ target, part: partOf(target, names, input) }));
  const unwanted = input.unplugged.flatMap(({ network }) => typedLinks(names.get(network.name)));
  const { links } = input.network;
  const originals = parts.flatMap(({ target, part }) => (part.original ? [[target.network.name, part.original]] : []));
  const settings = new Map(parts.flatMap(({ part }) => part.settings.map((each) => [each.name, each] as const)));
  return {
    commands: [
      ...removalCommands(links, unwanted),
      ...linkCommands(
        links,
        parts.flatMap(({ part }) => part.links),
      ),
    ],
    settings: [...settings.values()],
    // One pod has one address that guests can hide behind.
    rules: parts.find(({ part }) => part.rules !== undefined)?.part.rules ?? '',
    dhcp: parts.flatMap(({ part }) => (part.dhcp ? [part.dhcp] : [])),
    podInterfaces: parts.map(({ target, part }) => ({ target, podIps: part.podIps ?? [] })),
    originals: { ...input.originals, ...Object.fromEntries(originals) },
  };
}

/** Network → names of its links. Throws HostError CRITICAL_NETWORK. */
function namesOf({ vmi, network, wanted, unplugged }: PlanInput): Map<string, LinkNames> {
  const podLinks = podLinkNames(
    vmi,
    network.links.map(({ name }) => name),
  );
  const names = new Map<string, LinkNames>();
  for (const { network: each } of [...wanted, ...unplugged]) {
    const podLink = podLinks.get(each.name) ?? '';
    const all = linkNames(podLink, each);
    if (!all) throw new HostError('CRITICAL_NETWORK', `${JSON.stringify(podLink)} is no name of a link of a pod`);
    const other = [...names].find(([, { pod, tap }]) => pod === all.pod || tap === all.tap);
    if (other) {
      const problem = `networks ${other[0]} and ${each.name} have the same link ${all.pod} in the pod`;
      throw new HostError('CRITICAL_NETWORK', `${problem}: only one of them can be its main network`);
    }
    names.set(each.name, all);
  }
  return names;
}

function partOf(target: Target, allNames: ReadonlyMap<string, LinkNames>, input: PlanInput): Part {
  const names = allNames.get(target.network.name);
  if (!names) throw new Error(`network ${target.network.name} has no names`);
  const binding = bindingOf(target.iface, input.config.networkBindings);
  switch (binding.kind) {
    case 'masquerade':
      return masqueraded(target, names, input);
    case 'bridge':
      return bridged(target, names, input, binding);
    case 'passt':
      return { links: [], settings: passtSettings, podIps: podIpsOf(podLink(names, input).addresses, input) };
    case 'plugin':
      return binding.hasManagedTap ? bridged(target, names, input, binding) : plugin(names, input);
    case 'sriov':
      return { links: [], settings: [] };
    default:
      return binding satisfies never;
  }
}

/** Whether it has a link depends on the plug-in. */
function plugin(names: LinkNames, input: PlanInput): Part {
  const link = input.network.links.find(({ name }) => name === names.pod);
  return { links: [], settings: [], ...(link && { podIps: podIpsOf(link.addresses, input) }) };
}

function masqueraded({ iface, network }: Target, names: LinkNames, input: PlanInput): Part {
  const { vmi, config, owner } = input;
  const link = podLink(names, input);
  const guests = guestNetworks(network, link.addresses);
  const tap = { owner, queues: queuesOf(vmi, iface) };
  const rules = natRules({
    iface,
    podLink: names.pod,
    bridge: names.bridge,
    families: guests.map(({ family, gateway, guest }) => ({ family, gateway: gateway.ip, guest })),
    podIpv4: link.addresses.find(({ ip }) => !ip.includes(':'))?.ip,
    hasIstio: vmi.metadata.annotations?.['sidecar.istio.io/inject']?.toLowerCase() === 'true',
    migrationPorts: vmi.status?.migrationTransport === 'Unix' ? [] : migrationPorts,
    portRanges: config.portRanges,
    isRepeated: input.network.links.some(({ name }) => name === names.bridge),
  });
  const needs = masqueradeNeeds(names, guests, link.mtu, tap);
  return { ...needs, rules, podIps: podIpsOf(link.addresses, input) };
}

function bridged(target: Target, names: LinkNames, input: PlanInput, binding: Binding): Part {
  const { iface, network, position } = target;
  const original = input.originals[network.name] ?? originalOf(names, input);
  const hasServer = binding.kind === 'bridge';
  const bridge = {
    mac: input.network.links.find(({ name }) => name === names.bridge)?.mac ?? (input.newMac ?? randomMac)(),
    address: hasServer ? bridgeAddress(original, position) : undefined,
  };
  const needs = bridgeNeeds(names, original, bridge, { owner: input.owner, queues: queuesOf(input.vmi, iface) });
  // The guest's IPv6 address is not the pod's: nothing tells it that one.
  const shown = hasServer ? original.addresses.filter(({ ip }) => !ip.includes(':')) : original.addresses;
  const dhcp =
    hasServer &&
    original.routes !== null &&
    dhcpCache({ ...original, ...launcherFacts(target, names, original, input) });
  return { ...needs, original, podIps: podIpsOf(shown, input), ...(dhcp && { dhcp }) };
}

function launcherFacts({ iface }: Target, names: LinkNames, { mac, routes }: Original, { vmi }: PlanInput) {
  const status = vmi.status?.interfaces?.find(({ name }) => name === iface.name);
  return { podLink: names.pod, mac: iface.macAddress || status?.mac || mac, routes: routes ?? [] };
}

function originalOf(names: LinkNames, { network: { links, routes } }: PlanInput): Original {
  const link = links.find(({ name }) => name === names.pod);
  if (!link) throw missing(names.pod);
  const { index, mac, mtu, addresses } = link;
  return { index, mac, mtu, addresses, routes: routes.filter((route) => route.link === names.pod) };
}

function podLink(names: LinkNames, { network }: PlanInput): PodLink {
  const link = network.links.find(({ name }) => name === names.pod);
  if (link) return link;
  throw missing(names.pod);
}

function missing(podLink: string): HostError {
  return new HostError('POD_NETWORK', `pod link (${podLink}) is missing: the CNI plug-in has not made it in this pod`);
}

/** One of each family. */
function podIpsOf(addresses: readonly Address[], { podIp }: PlanInput): string[] {
  const [ipv4, ipv6] = [firstGlobal(addresses, 'ip')?.ip, firstGlobal(addresses, 'ip6')?.ip];
  const order = podIp.includes(':') ? [ipv6, ipv4] : [ipv4, ipv6];
  return order.filter((ip) => ip !== undefined);
}

function typedLinks(names: LinkNames | undefined): WantedLink[] {
  if (!names) return [];
  const { bridge, tap, pod } = names;
  const typed = [
    [tap, 'tap'],
    [bridge, 'bridge'],
    [pod, 'dummy'],
  ] as const;
  return typed.map(([name, kind]) => ({ name, kind, isUp: false, addresses: [] }));
}

/** Locally administered, and of one host. */
function randomMac(): string {
  const bytes = randomBytes(6);
  bytes[0] = ((bytes[0] ?? 0) & 0xfe) | 0x02;
  return (bytes.toString('hex').match(/../g) ?? []).join(':');
}
