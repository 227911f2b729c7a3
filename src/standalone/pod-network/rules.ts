import { bridgePrefix, type NetworkNames } from './names.ts';
import { type Subnets, textOf } from './subnets.ts';

/** Links that forward only since this node asked for it. */
export interface OpenedLinks {
  readonly ipv4: readonly string[];
  readonly ipv6: readonly string[];
}

/**
 * The node's one table, replaced as a whole. Pods reach each other and what the machine reaches, but of the machine itself its DNS for
 * pods alone; the machine reaches pods, others do not. Links that did not forward before do so for pods only.
 */
export function filterRules({ bridge, table }: NetworkNames, { ipv4, ipv6 }: Subnets, opened: OpenedLinks): string {
  const own = [{ protocol: 'ip', subnet: textOf(ipv4) }, ...(ipv6 ? [{ protocol: 'ip6', subnet: textOf(ipv6) }] : [])];
  const masquerade = own.map(({ protocol, subnet }) => `${protocol} saddr ${subnet} oifname != "${bridge}" masquerade`);
  const foreign = own.map(({ protocol, subnet }) => `iifname "${bridge}" ${protocol} saddr != ${subnet} drop`);
  const lines = (rules: readonly string[]) => rules.map((rule) => `    ${rule}\n`).join('');
  return `table inet ${table}
delete table inet ${table}
table inet ${table} {
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
${lines(masquerade)}  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    iifname "${bridge}" oifname "${bridge}" accept
${lines([...foreign, ...(ipv6 ? [] : [`iifname "${bridge}" meta nfproto ipv6 drop`])])}    oifname "${bridge}" ct state established,related accept
    oifname "${bridge}" drop
${lines([...guards('ipv4', opened.ipv4), ...guards('ipv6', opened.ipv6)])}  }
  chain input {
    type filter hook input priority filter; policy accept;
    iifname "${bridge}" ct state established,related accept
    iifname "${bridge}" meta l4proto { icmp, ipv6-icmp } accept
    iifname "${bridge}" meta l4proto { tcp, udp } th dport 53 fib daddr . iif type local accept
    iifname "${bridge}" drop
  }
}
`;
}

/** What another program has opened meanwhile, as container engines do by translating addresses, goes on. */
function guards(protocol: 'ipv4' | 'ipv6', links: readonly string[]): string[] {
  if (links.length === 0) return [];
  const from = `iifname { ${links.map((name) => `"${name}"`).join(', ')} } meta nfproto ${protocol}`;
  return [
    `${from} ct state established,related accept`,
    `${from} ct status dnat accept`,
    `${from} oifname != "${bridgePrefix}*" drop`,
  ];
}

export function withoutRules({ table, serviceTable }: NetworkNames): string {
  return [table, serviceTable].map((name) => `table inet ${name}\ndelete table inet ${name}\n`).join('');
}
