import { isNonRoot, type VirtualMachineInstance } from '../../../api/index.ts';
import { errorMessage, listOf, memberAt } from '../../../base/index.ts';
import { HostError } from './errors.ts';
import { LauncherRoot } from './launcher-root.ts';
import type { HookContext, HostHook } from './work/index.ts';

export interface DeviceOwnershipOptions {
  /** Device directory of this machine; `/proc/1/root/dev` in a pod with the host's pid namespace. */
  readonly hostDevDir: string;
  readonly procDir?: string;
}

/** What belongs to the user qemu inside the launcher, by its path there. */
export type DeviceFacts = { readonly devices: readonly string[] };

/**
 * Devices of the launcher's container for the user qemu: what upstream does in `setupDevicesOwnerships`
 * (pkg/virt-handler/controller.go) and pkg/virt-handler/non-root.go. The container's own devices end with it: nothing to release.
 */
export function deviceOwnership(options: DeviceOwnershipOptions): HostHook<'device-ownership', DeviceFacts> {
  return {
    name: 'device-ownership',
    readFacts: (kept) => ({
      devices: listOf(memberAt(kept, 'devices')).filter((device) => typeof device === 'string'),
    }),
    prepare: async (context) => {
      const root = new LauncherRoot(context.launcherPid, options.procDir);
      if (root.sharesDevicesWith(options.hostDevDir)) {
        return { kind: 'done', facts: { devices: [] }, summary: "nothing: they are the machine's own" };
      }
      const given = new GivenDevices(root);
      giveDevices(given, context);
      return { kind: 'done', facts: { devices: given.paths }, summary: given.paths.join(', ') || 'nothing' };
    },
  };
}

/** Gives devices, and keeps which ones are there. */
class GivenDevices {
  readonly paths: string[] = [];
  readonly #root: LauncherRoot;

  constructor(root: LauncherRoot) {
    this.#root = root;
  }

  /** False when there is none. */
  give(path: string): boolean {
    const isThere = this.#root.giveToQemu(path);
    if (isThere) this.paths.push(path);
    return isThere;
  }
}

function giveDevices(root: GivenDevices, { vmi, config }: HookContext): void {
  const devices = vmi.spec.domain.devices ?? {};
  if (!root.give('/dev/kvm') && !config.useEmulation) {
    throw new HostError(
      'NO_HYPERVISOR',
      'the launcher has no /dev/kvm: enable virtualization on this node, or set ' +
        'spec.configuration.developerConfiguration.useEmulation in the KubeVirt object',
    );
  }
  if (devices.autoattachVSOCK) root.give('/dev/vhost-vsock');
  const security = vmi.spec.domain.launchSecurity;
  if (security?.sev || security?.snp) root.give('/dev/sev');
  if (!isNonRoot(vmi)) return;
  giveBlockVolumes(root, vmi);
  giveNetworkDevices(root, vmi, config.useEmulation);
}

function giveBlockVolumes(root: GivenDevices, vmi: VirtualMachineInstance): void {
  for (const { name, persistentVolumeClaim, dataVolume } of vmi.spec.volumes ?? []) {
    if (!persistentVolumeClaim && !dataVolume) continue;
    const info = vmi.status?.volumeStatus?.find((status) => status.name === name)?.persistentVolumeClaimInfo;
    if (!info) throw new HostError('NO_VOLUME_STATUS', `nothing is known yet about the claim of volume ${name}`);
    if (info.volumeMode !== 'Block') continue;
    if (name.includes('/') || name === '..')
      throw new HostError('DISK_NAME', `${JSON.stringify(name)} is no name of a volume`);
    root.give(`/dev/${name}`);
  }
}

function giveNetworkDevices(root: GivenDevices, vmi: VirtualMachineInstance, emulated: boolean): void {
  const { interfaces = [], autoattachPodInterface } = vmi.spec.domain.devices ?? {};
  const hasInterface = interfaces.length > 0 || autoattachPodInterface !== false;
  const hasVirtio = interfaces.some(({ model }) => model === undefined || model === 'virtio');
  try {
    if (hasVirtio && !emulated) root.give('/dev/vhost-net');
    if (hasInterface) root.give('/dev/net/tun');
  } catch (cause) {
    throw new HostError('CRITICAL_NETWORK', `network devices of the launcher: ${errorMessage(cause)}`, { cause });
  }
}
