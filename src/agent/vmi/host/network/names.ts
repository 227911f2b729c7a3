import {
  isSecondaryNetwork,
  type Network,
  primaryNetwork,
  primaryPodLink,
  secondaryPodLinks,
  type VirtualMachineInstance,
} from '../../../../api/index.ts';

/** Names of links in a pod beside the one that the CNI plug-in makes, as upstream's pkg/network/link makes them: the launcher makes the same ones. */

const hashedPrefix = 'pod';

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

/** Network → name of the pod's link. `links`: those that are there; of an old pod they are numbered. */
export function podLinkNames(vmi: VirtualMachineInstance, links: Iterable<string>): Map<string, string> {
  const networks = vmi.spec.networks ?? [];
  const names = secondaryPodLinks(networks, links);
  const primary = primaryNetwork(networks);
  if (primary) names.set(primary.name, reportedName(vmi, primary.name) || primaryPodLink);
  return names;
}

function reportedName({ status }: VirtualMachineInstance, network: string): string | undefined {
  return status?.interfaces?.find(({ name }) => name === network)?.podInterfaceName;
}

/** Undefined when no links can have such names. */
export function linkNames(podLink: string, network: Network): LinkNames | undefined {
  const short = podLink.startsWith(hashedPrefix) ? podLink.slice(hashedPrefix.length) : podLink;
  const tap = isSecondaryNetwork(network) ? `tap${podLink.slice(3)}` : 'tap0';
  const names = { pod: podLink, bridge: `k6t-${short}`, renamed: `${short}-nic`, tap };
  return Object.values(names).every((name) => usable.test(name)) ? names : undefined;
}
