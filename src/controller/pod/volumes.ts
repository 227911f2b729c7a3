import path from 'node:path';
import {
  type PersistentVolumeClaim,
  type PodVolume,
  type VirtualMachineInstance,
  type Volume,
  virtiofsDir,
  virtiofsNames,
  virtiofsVolume,
} from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { addAccessCredentials, addConfigVolume } from './config-volumes.ts';
import { binaryVolume } from './disk-containers.ts';
import { PodRenderError } from './errors.ts';
import { addKeptState } from './kept-state-volume.ts';
import { hasNetworkInfo, networkInfoMount, networkInfoVolume } from './network-info.ts';
import { addStandardVolumes, kernelBootVolume, privateDir, refuseReservedName } from './standard-volumes.ts';
import { addEmptyDir, addMounted, type PodStorage } from './storage.ts';

/** Those that are there, by name. */
export type ClaimsByName = ReadonlyMap<string, PersistentVolumeClaim>;

/** Volumes of the pod and how `compute` sees them. `stateClaim`: what keeps a TPM and EFI variables. Throws PodRenderError. */
export function renderStorage(
  vmi: VirtualMachineInstance,
  config: ControllerConfig,
  claims: ClaimsByName,
  stateClaim: string | undefined,
): PodStorage {
  const { imageVolume } = config;
  const storage: PodStorage = { volumes: [], mounts: [], devices: [], sharedPaths: [] };
  addStandardVolumes(storage, vmi);
  for (const [index, volume] of (vmi.spec.volumes ?? []).entries()) {
    refuseReservedName(volume.name);
    if (imageVolume || !volume.containerDisk) addVolume(storage, volume, { index, vmi, claims });
  }
  addAccessCredentials(storage, vmi);
  if (imageVolume) addKernelBoot(storage, vmi);
  else storage.volumes.push({ name: binaryVolume, emptyDir: {} });
  if (virtiofsNames(vmi).length > 0) addEmptyDir(storage, virtiofsVolume, virtiofsDir);
  if (hasNetworkInfo(vmi, config)) {
    storage.volumes.push(networkInfoVolume);
    storage.mounts.push(networkInfoMount);
  }
  addHugePages(storage, vmi);
  addKeptState(storage, vmi, stateClaim);
  return storage;
}

interface Surroundings {
  readonly index: number;
  readonly vmi: VirtualMachineInstance;
  readonly claims: ClaimsByName;
}

function addVolume(storage: PodStorage, volume: Volume, { index, vmi, claims }: Surroundings): void {
  const { name, containerDisk, hostDisk } = volume;
  if (containerDisk) {
    const image = imageSource(containerDisk.image, containerDisk.imagePullPolicy);
    addMounted(storage, name, { image }, `/var/run/kubevirt-image-volume/disk_${index}`, true);
  } else if (hostDisk) {
    const type = hostDisk.type === 'DiskOrCreate' ? 'DirectoryOrCreate' : 'Directory';
    addMounted(storage, name, { hostPath: { path: path.posix.dirname(hostDisk.path), type } }, diskDirectory(name));
  } else if (volume.dataVolume || volume.persistentVolumeClaim || volume.ephemeral) {
    addClaim(storage, volume, claims);
  } else if (!addConfigVolume(storage, volume, vmi) && !needsNoPod(volume) && !isShared(name, vmi)) {
    const kind = Object.keys(volume).find((key) => key !== 'name') ?? 'nothing';
    throw new PodRenderError('UNSUPPORTED', `volume ${name}: launcher pods cannot have ${kind} yet: remove it`);
  }
}

/** The launcher makes it, the API server's credentials come with the pod, or it is plugged in while the guest runs. */
const needsNoPod = ({ emptyDisk, serviceAccount, memoryDump }: Volume) =>
  [emptyDisk, serviceAccount, memoryDump].some((source) => source !== undefined);

/** What a guest cannot share of it, its side container says. */
const isShared = (name: string, vmi: VirtualMachineInstance) => virtiofsNames(vmi).includes(name);

const diskDirectory = (name: string) => `${privateDir}/vmi-disks/${name}`;

function addClaim(storage: PodStorage, volume: Volume, claims: ClaimsByName): void {
  const { name, dataVolume, persistentVolumeClaim, ephemeral } = volume;
  if (dataVolume?.hotpluggable || persistentVolumeClaim?.hotpluggable) return;
  const claimName = dataVolume?.name ?? (persistentVolumeClaim ?? ephemeral?.persistentVolumeClaim)?.claimName ?? '';
  const claim = claims.get(claimName);
  if (!claim) {
    // Whether it is a block device is not known before, and a pod cannot be changed after.
    const advice = 'create the PersistentVolumeClaim; one of a DataVolume comes by itself';
    throw new PodRenderError('CLAIM_MISSING', `volume ${name}: claim ${claimName} does not exist: ${advice}`);
  }
  const source = { claimName, ...(persistentVolumeClaim?.readOnly && { readOnly: true }) };
  if (claim.spec.volumeMode === 'Block') {
    storage.volumes.push({ name, persistentVolumeClaim: source });
    storage.devices.push({ name, devicePath: `/dev/${name}` });
    return;
  }
  addMounted(storage, name, { persistentVolumeClaim: source }, diskDirectory(name));
  if (claim.spec.accessModes?.includes('ReadWriteMany')) storage.sharedPaths.push(diskDirectory(name));
}

function addKernelBoot(storage: PodStorage, vmi: VirtualMachineInstance): void {
  const container = vmi.spec.domain.firmware?.kernelBoot?.container;
  if (!container) return;
  const image = imageSource(container.image, container.imagePullPolicy);
  addMounted(storage, kernelBootVolume, { image }, '/var/run/kubevirt-kernel-boot', true);
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
  return { reference, ...(pullPolicy !== undefined && { pullPolicy }) };
}
