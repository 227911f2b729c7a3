import { type VirtualMachineInstance, type VolumeMount, virtiofsVolume } from '../../api/index.ts';
import { binaryVolume } from './disk-containers.ts';
import { PodRenderError } from './errors.ts';
import { addEmptyDir, type PodStorage } from './storage.ts';

export const privateDir = '/var/run/kubevirt-private';

/** Pod volumes that every launcher has, and where (upstream: pkg/virt-controller/services/rendervolumes.go). Other programs find them by these names. */
const standardVolumes: readonly (readonly [string, string, VolumeMount['mountPropagation']?])[] = [
  ['private', privateDir],
  ['public', '/var/run/kubevirt'],
  ['sockets', '/var/run/kubevirt/sockets'],
  ['ephemeral-disks', '/var/run/kubevirt-ephemeral-disks'],
  ['libvirt-runtime', '/var/run/libvirt'],
  ['container-disks', '/var/run/kubevirt/container-disks', 'HostToContainer'],
];
const hotplugVolume = ['hotplug-disks', '/var/run/kubevirt/hotplug-disks', 'HostToContainer'] as const;
export const kernelBootVolume = 'kernel-boot-volume';
const reserved = new Set([
  ...standardVolumes.map(([name]) => name),
  hotplugVolume[0],
  kernelBootVolume,
  binaryVolume,
  virtiofsVolume,
  'hugepages',
  'launcher-volume',
  'hook-sidecar-sockets',
  'network-info-annotation',
  'vm-state',
  'private-libvirt',
  'private-libvirt-qemu',
]);

export function addStandardVolumes(storage: PodStorage, { spec }: VirtualMachineInstance): void {
  for (const [name, mountPath, propagation] of standardVolumes) addEmptyDir(storage, name, mountPath, propagation);
  if (!spec.domain.devices?.disableHotplug) addEmptyDir(storage, ...hotplugVolume);
}

/** Throws PodRenderError. */
export function refuseReservedName(name: string): void {
  if (!reserved.has(name)) return;
  throw new PodRenderError('RESERVED_NAME', `volume ${name}: the launcher pod uses this name itself`);
}
