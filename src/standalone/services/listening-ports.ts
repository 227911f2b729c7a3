/** Of /proc/net: a TCP socket that listens, a UDP socket that is not connected. */
const waiting = { tcp: '0A', udp: '07' } as const;
/** As the kernel prints them on machines with little-endian words: all addresses, and those of loopback. */
const anywhere = /^(?:0{8}|0{32}|[0-9A-F]{6}7F|0{24}01000000|0{16}FFFF0000(?:0{8}|[0-9A-F]{6}7F))$/;

/** Ports at which a program of the machine is reached on the loopback address, by the texts of /proc/net/tcp and the like. */
export function listeningPorts(
  tables: readonly { readonly protocol: 'tcp' | 'udp'; readonly text: string }[],
): Readonly<Record<'tcp' | 'udp', ReadonlySet<number>>> {
  const found = { tcp: new Set<number>(), udp: new Set<number>() };
  for (const { protocol, text } of tables) {
    for (const line of text.split('\n')) {
      const [, local = '', , state] = line.trim().split(/\s+/);
      const [address = '', port = ''] = local.split(':');
      if (state === waiting[protocol] && anywhere.test(address)) found[protocol].add(Number.parseInt(port, 16));
    }
  }
  return found;
}
