import { createHash } from 'node:crypto';
import type { Network, VirtualMachineInstance } from '../../../../api/index.ts';

/**
 * Names of links in a pod, as upstream's pkg/network/namescheme and pkg/network/link make them: the launcher and the controller
 * make the same ones on their own.
 */

const primaryLink = 'eth0';
const hashedPrefix = 'pod';
const hashDigits = 11;
const ordinal = /^net\d+$/;

/** Names that this agent gives to the kernel, to `ip` and to `nft`; the longest one it makes of it has four letters more. */
const usable = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}$/;

export interface LinkNames {
  /** Made by the CNI plug-in. */
  readonly pod: string;
  readonly bridge: string;
  /** Of the pod's link after its name was given to a link that keeps its addresses. */
  readonly renamed: string;
  readonly tap: string;
}

export const isSecondary = ({ multus }: Network) => multus !== undefined && multus !== null && !multus.default;

/** Network → name of the pod's link. `links`: those that are there; of an old pod they are numbered. */
export function podLinkNames(vmi: VirtualMachineInstance, links: Iterable<string>): Map<string, string> {
  const networks = vmi.spec.networks ?? [];
  const isOrdinal = [...links].some((name) => ordinal.test(name));
  const names = new Map<string, string>();
  for (const [index, { name }] of networks.filter(isSecondary).entries()) {
    names.set(name, isOrdinal ? `net${index + 1}` : hashedName(name));
  }
  const primary = networks.find((network) => network.pod || network.multus?.default);
  if (primary) names.set(primary.name, reportedName(vmi, primary.name) || primaryLink);
  return names;
}

function hashedName(network: string): string {
  return `${hashedPrefix}${createHash('sha256').update(network).digest('hex').slice(0, hashDigits)}`;
}

function reportedName({ status }: VirtualMachineInstance, network: string): string | undefined {
  return status?.interfaces?.find(({ name }) => name === network)?.podInterfaceName;
}

/** Undefined when no links can have such names. */
export function linkNames(podLink: string, network: Network): LinkNames | undefined {
  const short = podLink.startsWith(hashedPrefix) ? podLink.slice(hashedPrefix.length) : podLink;
  const tap = isSecondary(network) ? `tap${podLink.slice(3)}` : 'tap0';
  const names = { pod: podLink, bridge: `k6t-${short}`, renamed: `${short}-nic`, tap };
  return Object.values(names).every((name) => usable.test(name)) ? names : undefined;
}
