import type { SandboxNetwork } from './sandbox-plan.ts';
import { shellQuote } from './shell-quote.ts';

/**
 * Shell lines of process 1 of the pod, before it parts from the host's files: plug this network namespace into the machine's, which is descriptor 8. The pod itself
 * does it, so that it never runs without, and there is nothing to clean up: the pair of links goes with the namespace, and that with the pod.
 */
export function networkLines(network: SandboxNetwork): string {
  const { bridge, hostLink } = network;
  return `${noAdvice}
ip -batch - <<'END' || die 'cannot make the link of the pod'
${linkLines(network).join('\n')}
END
nsenter --net=/proc/self/fd/8 ip link set dev ${hostLink} master ${bridge} up || die 'cannot plug the pod into ${bridge}'
exec 8<&-`;
}

/** The pod's /etc/resolv.conf in `./root`. */
export function resolvConfLines({ nameservers, search }: SandboxNetwork): string {
  const lines = [...nameservers.map((address) => `nameserver ${address}`), `search ${search.join(' ')}`];
  return `printf '%s\\n' ${lines.map(shellQuote).join(' ')} >root/etc/resolv.conf || die 'no /etc/resolv.conf'`;
}

/** No other pod tells this one where to send its packets. Links that are made now begin so. */
const noAdvice = ['accept_ra', 'accept_redirects']
  .map((name) => `/proc/sys/net/ipv6/conf/default/${name}`)
  .map((file) => `[ ! -e ${file} ] || echo 0 >${file}`)
  .join('\n');

function linkLines({ hostLink, mac, mtu, addresses, gateways }: SandboxNetwork): string[] {
  return [
    'link set dev lo up',
    `link add name eth0 address ${mac} mtu ${mtu} type veth peer name ${hostLink} mtu ${mtu} netns /proc/self/fd/8`,
    ...addresses.map((address) => `address add ${address} dev eth0${address.includes(':') ? ' nodad' : ''}`),
    'link set dev eth0 up',
    ...gateways.map((gateway) => `route add default via ${gateway} dev eth0`),
  ];
}
