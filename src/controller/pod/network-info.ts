import {
  type Interface,
  type Pod,
  type PodVolume,
  primaryNetwork,
  primaryPodLink,
  secondaryPodLinks,
  type VirtualMachineInstance,
  type VolumeMount,
} from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { podNetworkStatus } from './network-status.ts';

const volume = 'network-info-annotation';
const file = 'network-info';
const annotation = `kubevirt.io/${file}`;

/** Where launcher and plug-ins read which devices of the machine their networks are (upstream: pkg/network/downwardapi). */
export const networkInfoMount: VolumeMount = { name: volume, mountPath: '/etc/podinfo' };

export const networkInfoVolume: PodVolume = {
  name: volume,
  downwardAPI: {
    items: [{ path: file, fieldRef: { fieldPath: `metadata.annotations['${annotation}']` } }],
  },
};

/** An interface of the guest is a device of the machine. */
export function hasNetworkInfo(vmi: VirtualMachineInstance, config: ControllerConfig): boolean {
  return ofDevices(vmi, config).length > 0;
}

function ofDevices({ spec }: VirtualMachineInstance, { networkBindings }: ControllerConfig): Interface[] {
  return (spec.domain?.devices?.interfaces ?? []).filter(({ sriov, binding }) => {
    const plugin = binding && Object.hasOwn(networkBindings, binding.name) ? networkBindings[binding.name] : undefined;
    return sriov !== undefined || plugin?.downwardAPI === 'device-info';
  });
}

/**
 * What the CNI plug-ins told of these interfaces, as far as the pod does not carry it yet (upstream: generateNetworkInfoAnnotation in
 * pkg/network/pod/annotations). Empty: nothing is to be written. The members stand in upstream's order: the text is compared as a whole.
 */
export function networkInfoAnnotation(
  vmi: VirtualMachineInstance,
  pod: Pod,
  config: ControllerConfig,
): Record<string, string> {
  const devices = ofDevices(vmi, config);
  const links = devices.length > 0 ? (podNetworkStatus(pod) ?? []) : [];
  if (links.length === 0) return {};
  const networks = vmi.spec.networks ?? [];
  const main = primaryNetwork(networks)?.name;
  const mainLink = links.find(({ isMain }) => isMain)?.link ?? primaryPodLink;
  const names = secondaryPodLinks(
    networks,
    links.map(({ link }) => link),
  );
  const interfaces = devices.flatMap(({ name }) => {
    const known = links.find(({ link }) => link === (name === main ? mainLink : names.get(name)));
    if (!known) return [];
    const { deviceInfo, mac, mtu } = known;
    return [{ network: name, ...(deviceInfo && { deviceInfo }), ...(mac && { mac }), ...(mtu && { mtu }) }];
  });
  if (interfaces.length === 0) return {};
  const text = JSON.stringify({ interfaces: interfaces.sort((a, b) => (a.network < b.network ? -1 : 1)) });
  return pod.metadata.annotations?.[annotation] === text ? {} : { [annotation]: text };
}
