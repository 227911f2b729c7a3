import type { Cidr } from '../../base/index.ts';
import type { NetworkNames } from './names.ts';
import { addressAt, gatewayOffset, type Subnets, textOf } from './subnets.ts';

/** A port of a Service, as the machine and its pods reach it. */
export interface PublishedPort {
  /** IPv4, of the range of services. */
  readonly address: string;
  readonly protocol: 'tcp' | 'udp';
  readonly port: number;
  /** The same at the machine's loopback address. */
  readonly nodePort: number | undefined;
  /** IPv4 addresses of pods. */
  readonly endpoints: readonly { readonly address: string; readonly port: number }[];
}

/**
 * A second table of the node's own, replaced as a whole: an address of a service becomes that of one of its pods. The machine and its pods get there, nobody else: what comes in by
 * another link is not looked at. What has no pod behind it is refused.
 */
export function serviceRules(
  { bridge, serviceTable }: NetworkNames,
  { range, subnets }: { readonly range: Cidr; readonly subnets: Subnets },
  ports: readonly PublishedPort[],
): string {
  const served = ports.filter(({ endpoints }) => endpoints.length > 0);
  const services = served.map((each) => `ip daddr ${each.address} ${each.protocol} dport ${each.port} ${target(each)}`);
  const nodePorts = served.flatMap((each) =>
    each.nodePort === undefined ? [] : [`${each.protocol} dport ${each.nodePort} ${target(each)}`],
  );
  const lines = (rules: readonly string[]) => rules.map((rule) => `    ${rule}\n`).join('');
  return `table inet ${serviceTable}
delete table inet ${serviceTable}
table inet ${serviceTable} {
  chain services {
${lines(services)}  }
  chain node_ports {
${lines(nodePorts)}  }
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    iifname "${bridge}" jump services
  }
  chain output {
    type nat hook output priority -100; policy accept;
    jump services
    ip daddr { 127.0.0.0/8, ${addressAt(subnets.ipv4, gatewayOffset)} } jump node_ports
  }
  chain postrouting {
    type nat hook postrouting priority srcnat - 5; policy accept;
    iifname "${bridge}" oifname "${bridge}" ct status dnat masquerade
    oifname "${bridge}" ip saddr 127.0.0.0/8 ct status dnat masquerade
  }
  chain unserved_by_machine {
    type filter hook output priority filter; policy accept;
    ip daddr ${textOf(range)} meta l4proto tcp reject with tcp reset
    ip daddr ${textOf(range)} reject
  }
  chain unserved_by_pods {
    type filter hook forward priority filter; policy accept;
    iifname "${bridge}" ip daddr ${textOf(range)} meta l4proto tcp reject with tcp reset
    iifname "${bridge}" ip daddr ${textOf(range)} reject
  }
}
`;
}

/** Of several pods any, for each connection anew. */
function target({ endpoints }: PublishedPort): string {
  const [first, ...others] = endpoints;
  if (first && others.length === 0) return `dnat ip to ${first.address}:${first.port}`;
  const map = endpoints.map(({ address, port }, at) => `${at} : ${address} . ${port}`).join(', ');
  return `dnat ip to numgen random mod ${endpoints.length} map { ${map} }`;
}
