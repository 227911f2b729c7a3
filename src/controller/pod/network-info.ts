import type { PodVolume, VirtualMachineInstance, VolumeMount } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';

const volume = 'network-info-annotation';
const file = 'network-info';

/** Where launcher and plug-ins read which devices of the machine their networks are (upstream: pkg/network/downwardapi). */
export const networkInfoMount: VolumeMount = { name: volume, mountPath: '/etc/podinfo' };

export const networkInfoVolume: PodVolume = {
  name: volume,
  downwardAPI: {
    items: [{ path: file, fieldRef: { fieldPath: `metadata.annotations['kubevirt.io/${file}']` } }],
  },
};

/** An interface of the guest is a device of the machine. */
export function hasNetworkInfo({ spec }: VirtualMachineInstance, { networkBindings }: ControllerConfig): boolean {
  return (spec.domain.devices?.interfaces ?? []).some(({ sriov, binding }) => {
    const plugin = binding && Object.hasOwn(networkBindings, binding.name) ? networkBindings[binding.name] : undefined;
    return sriov !== undefined || plugin?.downwardAPI === 'device-info';
  });
}
