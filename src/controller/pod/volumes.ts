import path from 'node:path';
import {
  type CloudInitSource,
  type Container,
  type PersistentVolumeClaim,
  type PodVolume,
  type VirtualMachineInstance,
  type Volume,
  type VolumeMount,
  virtiofsDir,
  virtiofsNames,
  virtiofsVolume,
} from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { binaryVolume } from './disk-containers.ts';
import { PodRenderError } from './errors.ts';

export interface PodStorage {
  readonly volumes: PodVolume[];
  readonly mounts: VolumeMount[];
  /** Claims that are block devices. */
  readonly devices: NonNullable<Container['volumeDevices']>;
}

/** Those that are there, by name. */
export type ClaimsByName = ReadonlyMap<string, PersistentVolumeClaim>;

const privateDir = '/var/run/kubevirt-private';

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
const kernelBootVolume = 'kernel-boot-volume';
const reserved = new Set([
  ...standardVolumes.map(([name]) => name),
  hotplugVolume[0],
  kernelBootVolume,
  binaryVolume,
  virtiofsVolume,
  'hugepages',
]);

/** Volumes of the pod and how `compute` sees them. Throws PodRenderError. */
export function renderStorage(
  vmi: VirtualMachineInstance,
  { imageVolume }: Pick<ControllerConfig, 'imageVolume'>,
  claims: ClaimsByName,
): PodStorage {
  const storage: PodStorage = { volumes: [], mounts: [], devices: [] };
  for (const [name, mountPath, propagation] of standardVolumes) addEmptyDir(storage, name, mountPath, propagation);
  if (!vmi.spec.domain.devices?.disableHotplug) addEmptyDir(storage, ...hotplugVolume);
  for (const [index, volume] of (vmi.spec.volumes ?? []).entries()) {
    if (reserved.has(volume.name)) {
      throw new PodRenderError('RESERVED_NAME', `volume ${volume.name}: the launcher pod uses this name itself`);
    }
    if (imageVolume || !volume.containerDisk) addVolume(storage, volume, index, claims);
  }
  if (imageVolume) addKernelBoot(storage, vmi);
  else storage.volumes.push({ name: binaryVolume, emptyDir: {} });
  if (virtiofsNames(vmi).length > 0) addEmptyDir(storage, virtiofsVolume, virtiofsDir);
  addHugePages(storage, vmi);
  return storage;
}

function addEmptyDir(
  { volumes, mounts }: PodStorage,
  name: string,
  mountPath: string,
  mountPropagation?: VolumeMount['mountPropagation'],
): void {
  volumes.push({ name, emptyDir: {} });
  mounts.push({ name, mountPath, ...(mountPropagation ? { mountPropagation } : {}) });
}

function addVolume(storage: PodStorage, volume: Volume, index: number, claims: ClaimsByName): void {
  const { name } = volume;
  const add = (source: Partial<PodVolume>, mountPath: string, readOnly = false) => {
    storage.volumes.push({ name, ...source });
    storage.mounts.push({ name, mountPath, ...(readOnly ? { readOnly } : {}) });
  };
  const claim = volume.persistentVolumeClaim ?? volume.ephemeral?.persistentVolumeClaim;
  if (volume.containerDisk) {
    const { image, imagePullPolicy } = volume.containerDisk;
    add({ image: imageSource(image, imagePullPolicy) }, `/var/run/kubevirt-image-volume/disk_${index}`, true);
  } else if (volume.hostDisk) {
    const type = volume.hostDisk.type === 'DiskOrCreate' ? 'DirectoryOrCreate' : 'Directory';
    add({ hostPath: { path: path.posix.dirname(volume.hostDisk.path), type } }, `${privateDir}/vmi-disks/${name}`);
  } else if (volume.dataVolume || claim) {
    const hotplugged = volume.dataVolume?.hotpluggable || volume.persistentVolumeClaim?.hotpluggable;
    if (hotplugged) return;
    const claimName = volume.dataVolume?.name ?? claim?.claimName ?? '';
    if (claims.get(claimName)?.spec.volumeMode === 'Block') {
      storage.volumes.push({ name, persistentVolumeClaim: { claimName } });
      storage.devices.push({ name, devicePath: `/dev/${name}` });
    } else add({ persistentVolumeClaim: { claimName } }, `${privateDir}/vmi-disks/${name}`);
  } else if (volume.configMap) {
    const { name: mapName = '', optional } = volume.configMap;
    add({ configMap: { name: mapName, ...maybe({ optional }) } }, `${privateDir}/config-map/${name}`, true);
  } else if (volume.secret) {
    const { secretName = '', optional } = volume.secret;
    add({ secret: { secretName, ...maybe({ optional }) } }, `${privateDir}/secret/${name}`, true);
  } else if (volume.downwardAPI) {
    add({ downwardAPI: volume.downwardAPI }, `${privateDir}/downwardapi/${name}`, true);
  } else {
    addCloudInitSecrets(storage, name, volume.cloudInitNoCloud ?? volume.cloudInitConfigDrive);
  }
}

function addCloudInitSecrets(storage: PodStorage, name: string, source: CloudInitSource | undefined): void {
  const secrets = [
    { ref: source?.secretRef, suffix: 'udata', files: ['userdata', 'userData'] },
    { ref: source?.networkDataSecretRef, suffix: 'ndata', files: ['networkdata', 'networkData'] },
  ];
  for (const { ref, suffix, files } of secrets) {
    if (!ref) continue;
    const volume = `${name}-${suffix}`;
    storage.volumes.push({ name: volume, secret: { secretName: ref.name } });
    for (const file of files) {
      const mountPath = `${privateDir}/secret/${name}/${file}`;
      storage.mounts.push({ name: volume, mountPath, subPath: file, readOnly: true });
    }
  }
}

function addKernelBoot({ volumes, mounts }: PodStorage, vmi: VirtualMachineInstance): void {
  const container = vmi.spec.domain.firmware?.kernelBoot?.container;
  if (!container) return;
  volumes.push({ name: kernelBootVolume, image: imageSource(container.image, container.imagePullPolicy) });
  mounts.push({ name: kernelBootVolume, mountPath: '/var/run/kubevirt-kernel-boot', readOnly: true });
}

function addHugePages({ volumes, mounts }: PodStorage, vmi: VirtualMachineInstance): void {
  if (!vmi.spec.domain.memory?.hugepages) return;
  volumes.push({ name: 'hugepages', emptyDir: { medium: 'HugePages' } }, { name: 'hugetblfs-dir', emptyDir: {} });
  mounts.push(
    { name: 'hugepages', mountPath: '/dev/hugepages' },
    { name: 'hugetblfs-dir', mountPath: '/dev/hugepages/libvirt/qemu' },
  );
}

function imageSource(reference: string, pullPolicy: string | undefined): NonNullable<PodVolume['image']> {
  return { reference, ...maybe({ pullPolicy }) };
}

function maybe<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
