import { isNonRoot, type VirtualMachineInstance } from '../../../api/index.ts';
import { errorMessage } from '../../../base/index.ts';
import type { HostHook, HostHookContext, VmiEvent } from '../ports.ts';
import { HostError } from './errors.ts';
import { LauncherRoot } from './launcher-root.ts';

export interface DeviceOwnershipOptions {
  /** Device directory of this machine; `/proc/1/root/dev` in a pod with the host's pid namespace. */
  readonly hostDevDir: string;
  readonly procDir?: string;
}

/** Devices of the launcher's container for the user qemu (spec 10 §14, spec 41 §10). Repeated on every try; nothing to release. */
export function deviceOwnership(options: DeviceOwnershipOptions): HostHook {
  return {
    name: 'device-ownership',
    prepare: async (context) => {
      if (context.launcherPid === undefined) return [];
      const root = new LauncherRoot(context.launcherPid, options.procDir);
      if (!root.sharesDevicesWith(options.hostDevDir)) giveDevices(root, context);
      return none;
    },
    release: async () => undefined,
  };
}

const none: readonly VmiEvent[] = [];

function giveDevices(root: LauncherRoot, { vmi, config }: HostHookContext): void {
  const devices = vmi.spec.domain.devices ?? {};
  if (!root.giveToQemu('/dev/kvm') && !config.useEmulation) {
    throw new HostError(
      'NO_HYPERVISOR',
      'the launcher has no /dev/kvm: enable virtualization on this node, or set ' +
        'spec.configuration.developerConfiguration.useEmulation in the KubeVirt object',
    );
  }
  if (devices.autoattachVSOCK) root.giveToQemu('/dev/vhost-vsock');
  const security = vmi.spec.domain.launchSecurity;
  if (security?.sev || security?.snp) root.giveToQemu('/dev/sev');
  if (!isNonRoot(vmi)) return;
  giveBlockVolumes(root, vmi);
  giveNetworkDevices(root, vmi, config.useEmulation);
}

function giveBlockVolumes(root: LauncherRoot, vmi: VirtualMachineInstance): void {
  for (const { name, persistentVolumeClaim, dataVolume } of vmi.spec.volumes ?? []) {
    if (!persistentVolumeClaim && !dataVolume) continue;
    const info = vmi.status?.volumeStatus?.find((status) => status.name === name)?.persistentVolumeClaimInfo;
    if (!info) throw new HostError('NO_VOLUME_STATUS', `nothing is known yet about the claim of volume ${name}`);
    if (info.volumeMode !== 'Block') continue;
    if (name.includes('/') || name === '..')
      throw new HostError('DISK_NAME', `${JSON.stringify(name)} is no name of a volume`);
    root.giveToQemu(`/dev/${name}`);
  }
}

function giveNetworkDevices(root: LauncherRoot, vmi: VirtualMachineInstance, emulated: boolean): void {
  const { interfaces = [], autoattachPodInterface } = vmi.spec.domain.devices ?? {};
  const hasInterface = interfaces.length > 0 || autoattachPodInterface !== false;
  const hasVirtio = interfaces.some(({ model }) => model === undefined || model === 'virtio');
  try {
    if (hasVirtio && !emulated) root.giveToQemu('/dev/vhost-net');
    if (hasInterface) root.giveToQemu('/dev/net/tun');
  } catch (cause) {
    throw new HostError('CRITICAL_NETWORK', `network devices of the launcher: ${errorMessage(cause)}`, { cause });
  }
}
