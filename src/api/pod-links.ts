import { createHash } from 'node:crypto';
import type { Network } from './vmi.ts';

/**
 * Names of links in a pod, as upstream's pkg/network/namescheme makes them: who asks Multus for a link, who sets it up and who uses it make
 * the same ones on their own.
 */

export const primaryPodLink = 'eth0';
const hashedPrefix = 'pod';
const hashDigits = 11;
const ordinal = /^net\d+$/;

/** Multus connects it besides the pod's main network. */
export const isSecondaryNetwork = ({ multus }: Network) => multus !== undefined && multus !== null && !multus.default;

/** Undefined: no network of the pod's own. */
export function primaryNetwork(networks: readonly Network[]): Network | undefined {
  return networks.find((network) => network.pod || network.multus?.default);
}

/** Network → name of its link, of secondary networks. `links`: those that are there; of an old pod they are numbered. */
export function secondaryPodLinks(networks: readonly Network[], links: Iterable<string>): Map<string, string> {
  const isOrdinal = [...links].some((name) => ordinal.test(name));
  const secondary = networks.filter(isSecondaryNetwork);
  return new Map(secondary.map(({ name }, index) => [name, isOrdinal ? `net${index + 1}` : hashedName(name)]));
}

function hashedName(network: string): string {
  return `${hashedPrefix}${createHash('sha256').update(network).digest('hex').slice(0, hashDigits)}`;
}
