import {
  isSecondaryNetwork,
  type Network,
  type Pod,
  primaryNetwork,
  primaryPodLink,
  secondaryPodLinks,
  type VirtualMachineInstance,
  type VmiInterfaceStatus,
} from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { podNetworkStatus } from '../pod/index.ts';

export const multusSource = 'multus-status';
const separator = ', ';

/**
 * `status.interfaces` with what the CNI plug-ins gave the pod: names of its links, and whether Multus has made those of further networks. All else in it
 * is the agent's and stays (upstream: UpdateVMIStatus in pkg/network/controllers). The order is no difference: each writer has its own.
 */
export function interfaceStatus({ spec, status }: VirtualMachineInstance, pod: Pod): VmiInterfaceStatus[] | undefined {
  const before = status?.interfaces;
  const links = podNetworkStatus(pod);
  if (!links) return before;
  const networks = spec.networks ?? [];
  const entryOf = ({ name }: Network) => before?.find((entry) => entry.name === name);
  const main = primaryNetwork(networks);
  const mainLink = links.find(({ isMain }) => isMain)?.link ?? primaryPodLink;
  const known = new Set(links.map(({ link }) => link));
  const names = secondaryPodLinks(networks, known);
  const secondary = networks.filter(isSecondaryNetwork).flatMap((network) => {
    const podInterfaceName = names.get(network.name) ?? '';
    return ofSecondary(network, entryOf(network), podInterfaceName, known.has(podInterfaceName));
  });
  const handled = new Set([main, ...networks.filter(isSecondaryNetwork)].map((network) => network?.name));
  const after = [
    ...(main ? [{ ...(entryOf(main) ?? { name: main.name }), podInterfaceName: mainLink }] : []),
    ...secondary,
    ...(before ?? []).filter(({ name }) => name === undefined || !handled.has(name)),
  ];
  return isSame(before ?? [], after) ? before : after;
}

function ofSecondary(
  { name }: Network,
  entry: VmiInterfaceStatus | undefined,
  podInterfaceName: string,
  isThere: boolean,
): VmiInterfaceStatus[] {
  if (!entry) return isThere ? [{ name, infoSource: multusSource, podInterfaceName }] : [];
  const { infoSource: _, ...rest } = entry;
  const sources = infoSourcesOf(entry).filter((source) => isThere || source !== multusSource);
  const all = isThere && !sources.includes(multusSource) ? [...sources, multusSource] : sources;
  return [{ ...rest, ...(all.length > 0 && { infoSource: all.join(separator) }), podInterfaceName }];
}

/** Who has reported it. */
export function infoSourcesOf({ infoSource = '' }: VmiInterfaceStatus): string[] {
  return infoSource.split(separator).filter((source) => source !== '');
}

function isSame(left: readonly VmiInterfaceStatus[], right: readonly VmiInterfaceStatus[]): boolean {
  const keyOf = ({ name = '', mac = '' }: VmiInterfaceStatus) => `${name} ${mac}`;
  const sorted = (list: readonly VmiInterfaceStatus[]) =>
    [...list].sort((one, other) => keyOf(one).localeCompare(keyOf(other)));
  return sameJson(sorted(left), sorted(right));
}
