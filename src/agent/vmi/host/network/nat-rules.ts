import type { Interface } from '../../../../api/index.ts';
import { HostError } from '../errors.ts';
import type { Family } from './addresses.ts';

export interface NatFamily {
  readonly family: Family;
  readonly gateway: string;
  readonly guest: string;
}

export interface NatOptions {
  readonly iface: Interface;
  readonly podLink: string;
  readonly bridge: string;
  readonly families: readonly NatFamily[];
  /** Of the pod's link, where a side car of Istio forwards connections from. */
  readonly podIpv4: string | undefined;
  readonly hasIstio: boolean;
  /** Guests that migrate without TLS through unix sockets need none. */
  readonly migrationPorts: readonly number[];
  readonly portRanges: boolean;
  /** The bridge was there: so may be rules of an earlier try, which are replaced. */
  readonly isRepeated: boolean;
}

const chains = [
  ['prerouting', '{ type nat hook prerouting priority -100; }'],
  ['input', '{ type nat hook input priority 100; }'],
  ['output', '{ type nat hook output priority -100; }'],
  ['postrouting', '{ type nat hook postrouting priority 100; }'],
  ['KUBEVIRT_PREINBOUND', ''],
  ['KUBEVIRT_POSTINBOUND', ''],
] as const;

/** Ports that Istio's side car uses itself (pkg/network/istio). */
const istioPorts = [15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090];
const istioLoopback = '127.0.0.6';
/** Goes past the side car. */
const sshPort = 22;

/**
 * All rules of masquerading as one file for `nft -f -`, which takes it as a whole or not at all: the ruleset that upstream makes by a process per
 * rule (pkg/network/setup/netpod/masquerade). The table may be shared with a CNI plug-in or Istio, so nothing but these chains is emptied.
 */
export function natRules(options: NatOptions): string {
  return options.families
    .flatMap((nat) => familyRules(nat, options))
    .map((line) => `${line}\n`)
    .join('');
}

function familyRules(nat: NatFamily, options: NatOptions): string[] {
  const { family } = nat;
  const head = [
    `add table ${family} nat`,
    ...chains.map(([name, spec]) => `add chain ${family} nat ${name} ${spec}`.trimEnd()),
    ...(options.isRepeated ? chains.map(([name]) => `flush chain ${family} nat ${name}`) : []),
  ];
  return [...head, ...rules(nat, options).map((rule) => `add rule ${family} nat ${rule}`)];
}

function rules(nat: NatFamily, options: NatOptions): string[] {
  const { family, guest } = nat;
  const { podLink, bridge, migrationPorts, iface } = options;
  const ports = iface.ports ?? [];
  const ranges = options.portRanges ? (iface.portRanges ?? []) : [];
  const targets = [
    ...ports.map(({ protocol, port }) => portTarget(protocol, port)),
    ...ranges.map(({ protocol, start, end }) => rangeTarget(protocol, start, end)),
  ];
  return [
    `postrouting ${family} saddr ${guest} counter masquerade`,
    `prerouting iifname "${podLink}" counter jump KUBEVIRT_PREINBOUND`,
    `postrouting oifname "${bridge}" counter jump KUBEVIRT_POSTINBOUND`,
    ...(migrationPorts.length > 0 ? passedPorts(family, migrationPorts) : []),
    ...(targets.length > 0 ? targets.flatMap((target) => targetRules(target, nat, options)) : allPorts(nat, options)),
  ];
}

interface Target {
  readonly protocol: string;
  readonly first: number;
  readonly last: number;
  /** In a rule that matches it. */
  readonly text: string;
  /** In the rule for connections from outside. */
  readonly inbound: string;
}

function portTarget(protocol: string | undefined, port: number): Target {
  const text = String(portOf(port));
  return { protocol: protocolOf(protocol), first: port, last: port, text, inbound: `{ ${text} }` };
}

function rangeTarget(protocol: string | undefined, start: number, end: number): Target {
  const text = `${portOf(start)}-${portOf(end)}`;
  return { protocol: protocolOf(protocol), first: start, last: end, text, inbound: text };
}

function targetRules(target: Target, nat: NatFamily, options: NatOptions): string[] {
  const { family, guest, gateway } = nat;
  const { protocol, first, last, text, inbound } = target;
  const { sources, destinations } = loopbacks(nat, options);
  const isSsh = first <= sshPort && sshPort <= last;
  const forward = options.hasIstio
    ? isSsh
      ? [forwardSsh(guest)]
      : []
    : [`KUBEVIRT_PREINBOUND ${protocol} dport ${inbound} counter dnat to ${guest}`];
  return [
    ...forward,
    `KUBEVIRT_POSTINBOUND ${protocol} dport ${text} ${family} saddr ${sources} counter snat to ${gateway}`,
    `output ${family} daddr ${destinations} ${protocol} dport ${text} counter dnat to ${guest}`,
  ];
}

function allPorts(nat: NatFamily, options: NatOptions): string[] {
  const { family, guest, gateway } = nat;
  const { sources, destinations } = loopbacks(nat, options);
  const forward = options.hasIstio
    ? [...passedPorts(family, istioPorts), forwardSsh(guest)]
    : [`KUBEVIRT_PREINBOUND counter dnat to ${guest}`];
  return [
    ...forward,
    `KUBEVIRT_POSTINBOUND ${family} saddr ${sources} counter snat to ${gateway}`,
    `output ${family} daddr ${destinations} counter dnat to ${guest}`,
  ];
}

const forwardSsh = (guest: string) => `KUBEVIRT_PREINBOUND tcp dport { ${sshPort} } counter dnat to ${guest}`;

/** Not forwarded to the guest when they come from the pod itself. */
function passedPorts(family: Family, ports: readonly number[]): string[] {
  return ['output', 'KUBEVIRT_POSTINBOUND'].map(
    (chain) => `${chain} tcp dport { ${ports.join(', ')} } ${family} saddr ${loopback(family)} counter return`,
  );
}

const loopback = (family: Family) => (family === 'ip' ? '127.0.0.1' : '::1');

function loopbacks({ family }: NatFamily, { hasIstio, podIpv4 }: NatOptions) {
  const isProxied = hasIstio && family === 'ip';
  const setOf = (...more: readonly (string | undefined)[]) =>
    `{ ${[loopback(family), ...(isProxied ? more : [])].filter(Boolean).join(', ')} }`;
  return { sources: setOf(istioLoopback), destinations: setOf(podIpv4) };
}

function protocolOf(given: string | undefined): string {
  const protocol = (given || 'tcp').toLowerCase();
  if (['tcp', 'udp', 'sctp'].includes(protocol)) return protocol;
  throw new HostError('CRITICAL_NETWORK', `${JSON.stringify(given)} is no protocol of a port: take TCP or UDP`);
}

function portOf(port: number): number {
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
  throw new HostError('CRITICAL_NETWORK', `${JSON.stringify(port)} is no port`);
}
