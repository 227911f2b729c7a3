import { HostError } from '../errors.ts';
import type { Address } from './addresses.ts';
import type { PodLink } from './pod-links.ts';
import type { WantedLink } from './wanted.ts';

/**
 * Lines for `ip -batch -` that turn the links that are there into the wanted ones, in their order; none where nothing differs. Each line can be the last one
 * that was done: what follows is found missing the next time. Throws HostError CRITICAL_NETWORK.
 */
export function linkCommands(there: readonly PodLink[], wanted: readonly WantedLink[]): string[] {
  // Names as they are by the time of each line: one link takes the name that another had.
  const named = new Map(there.map((link) => [link.name, link]));
  return wanted.flatMap((link) => {
    const found = link.index === undefined ? named.get(link.name) : there.find(({ index }) => index === link.index);
    if (found && link.index !== undefined) named.delete(found.name);
    return commandsOf(link, found);
  });
}

/** Links that are there and typed as ours; what the CNI plug-in made is left to it. */
export function removalCommands(there: readonly PodLink[], unwanted: readonly WantedLink[]): string[] {
  return unwanted
    .filter(({ name, kind }) => there.some((link) => link.name === name && link.kind === kind))
    .map(({ name }) => `link delete dev ${name}`);
}

function commandsOf(link: WantedLink, found: PodLink | undefined): string[] {
  if (link.kind === 'adopted') return adopt(link, found);
  if (!found) return [create(link), ...settle(link, made)];
  if (found.kind !== link.kind) {
    const problem = `type collision on link ${link.name}: actual ${found.kind || 'physical'}, requested ${link.kind}`;
    throw new HostError('CRITICAL_NETWORK', `${problem}: another program made it in the pod`);
  }
  // A guest of other CPUs may have been tried before: the kernel takes no other number of queues for the same device.
  const isOther =
    link.tap !== undefined && found.multiQueue !== undefined && found.multiQueue !== link.tap.isMultiQueue;
  if (isOther) return [`link delete dev ${link.name}`, create(link), ...settle(link, made)];
  return settle(link, found);
}

type Present = Pick<PodLink, 'addresses' | 'isUp'> & Partial<PodLink>;

/** What was made a line before, with what it was made with. */
const made: Present = { addresses: [], isUp: false };

function create({ name, kind, mac, mtu, tap }: WantedLink): string {
  if (kind === 'tap') {
    const owner = tap?.owner ?? 0;
    const queues = tap?.isMultiQueue ? ' multi_queue' : '';
    return `tuntap add dev ${name} mode tap user ${owner} group ${owner}${queues}`;
  }
  return `link add name ${name}${mac ? ` address ${mac}` : ''}${mtu ? ` mtu ${mtu}` : ''} type ${kind}`;
}

/** Address and MTU before it is up: programs that watch the pod see it whole. */
function settle(link: WantedLink, found: Present): string[] {
  const { name, mac, mtu, master, isUp, learning } = link;
  const isMade = found === made && link.kind !== 'tap';
  const changes = [
    ...(mac && !isMade && found.mac !== mac ? [`address ${mac}`] : []),
    ...(mtu && !isMade && found.mtu !== mtu ? [`mtu ${mtu}`] : []),
    ...(master && found.master !== master ? [`master ${master}`] : []),
  ];
  return [
    ...(changes.length > 0 ? [`link set dev ${name} ${changes.join(' ')}`] : []),
    ...addressCommands(link, found.addresses),
    ...(isUp && !found.isUp ? [`link set dev ${name} up`] : []),
    ...(learning === false && found.learning !== false ? [`link set dev ${name} type bridge_slave learning off`] : []),
  ];
}

function addressCommands({ name, addresses }: WantedLink, there: readonly Address[]): string[] {
  const has = (list: readonly Address[], { ip, prefix }: Address) =>
    list.some((other) => other.ip === ip && other.prefix === prefix);
  return [
    // Those are the kernel's own, of a link that is up.
    ...there
      .filter((address) => !has(addresses, address) && !isLinkLocal(address))
      .map(({ ip, prefix }) => `address delete ${ip}/${prefix} dev ${name}`),
    ...addresses.filter((address) => !has(there, address)).map((address) => addAddress(name, address)),
  ];
}

const isLinkLocal = ({ ip }: Address) => /^fe[89ab]/i.test(ip);

function addAddress(name: string, { ip, prefix }: Address): string {
  const broadcast = !ip.includes(':') && prefix < 31 ? ' broadcast +' : '';
  return `address add ${ip}/${prefix}${broadcast} dev ${name}`;
}

/** Only a link that is down can be renamed. Its addresses go to the link that takes its name. */
function adopt(link: WantedLink, found: PodLink | undefined): string[] {
  if (!found) throw new HostError('CRITICAL_NETWORK', `the pod's link with index ${link.index} is missing`);
  const isRenamed = found.name === link.name;
  const isFirst = !isRenamed || found.mac !== link.mac;
  return [
    ...(isFirst && found.isUp ? [`link set dev ${found.name} down`] : []),
    ...(isRenamed ? [] : [`link set dev ${found.name} name ${link.name}`]),
    ...(found.addresses.length > 0 ? [`address flush dev ${link.name}`] : []),
    ...settle(link, { ...found, addresses: [], isUp: found.isUp && !isFirst }),
  ];
}
