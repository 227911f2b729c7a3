import { open } from 'node:fs/promises';
import path from 'node:path';
import {
  type Disk,
  isTrackedDisk,
  parseQuantity,
  tracksChanges,
  type VirtualMachineInstance,
  type Volume,
  vhostmdDisk,
  vhostmdDiskBytes,
  vhostmdWrites,
} from '../../api/index.ts';
import { CodedError, errorCode, errorMessage } from '../../base/index.ts';
import {
  type CloudInitKind,
  type DiskEntry,
  diskEntries,
  fileNamePart,
  isHotplugged,
  type ResolvedDisk,
  statusOf,
} from '../domain/index.ts';
import { prepareCloudInit } from './cloud-init.ts';
import { prepareConfigDisk } from './config-disks.ts';
import { prepareContainerDisk } from './container-disk.ts';
import type { DiskEnv, PreparedDisks } from './env.ts';
import { DiskError } from './errors.ts';
import { prepareFirmwareFiles } from './firmware-files.ts';
import { canBeOpened, findHotplugged, prepareClaim, prepareEphemeral, prepareHostDisk } from './host-disk.ts';
import { ensureCreated, ensureEmptyImage, giveToQemu } from './image.ts';
import { withBlockSize, withCacheMode } from './io-settings.ts';
import { prepareKernelBoot } from './kernel-boot.ts';
import { trackChanges } from './tracking.ts';

const mebibyte = 2 ** 20;

/**
 * The file work before a domain is defined (upstream's `preStartHook`): finds images, makes overlays, empty disks
 * and CD images. What exists is kept: a second call changes nothing. Throws `DiskError`, and `ConvertError` for disks that
 * make no sense whatever the files are.
 */
export async function prepareDisks(vmi: VirtualMachineInstance, env: DiskEnv): Promise<PreparedDisks> {
  const entries = diskEntries(vmi);
  refuseSecondCloudInit(entries);
  const kernelBoot = await explained('spec.domain.firmware.kernelBoot', () => prepareKernelBoot(vmi, env));
  await explained('spec.domain.firmware', () => prepareFirmwareFiles(vmi, env));
  const disks = new Map<string, ResolvedDisk>();
  for (const entry of entries) {
    const { disk, volume } = entry;
    if (!volume) continue;
    fileNamePart(`spec.volumes[${JSON.stringify(volume.name)}].name`, volume.name);
    const resolved = await explained(`spec.volumes[${volume.name}]`, async () => {
      const found = await prepareVolume(vmi, volume, entry.volumeIndex, env);
      return found && usedDisk(vmi, disk, volume, found, env);
    });
    if (resolved) disks.set(volume.name, resolved);
  }
  return { disks, ...(kernelBoot && { kernelBoot }) };
}

/**
 * The files of plugged volumes that can be opened now (`checkIfDiskReadyToUse` of upstream's `manager.go`): one that is not
 * there yet, or not usable yet, is left out, and looked for again at the next sync.
 */
export async function findPluggedDisks(
  vmi: VirtualMachineInstance,
  names: readonly string[],
  env: Pick<DiskEnv, 'paths' | 'owner'>,
): Promise<ReadonlyMap<string, ResolvedDisk>> {
  const disks = new Map<string, ResolvedDisk>();
  for (const { disk, volume } of diskEntries(vmi)) {
    if (!volume || !names.includes(volume.name)) continue;
    fileNamePart(`spec.volumes[${JSON.stringify(volume.name)}].name`, volume.name);
    const resolved = await explained(`spec.volumes[${volume.name}]`, async () => {
      const found = await findHotplugged(volume, env);
      const isUsable = found && (await canBeOpened(found, isReadOnly(disk, volume)));
      return isUsable ? usedDisk(vmi, disk, volume, found, env) : undefined;
    });
    if (resolved) disks.set(volume.name, resolved);
  }
  return disks;
}

/** The image as QEMU is to use it. */
async function usedDisk(
  vmi: VirtualMachineInstance,
  disk: Disk,
  volume: Volume,
  found: ResolvedDisk,
  env: Pick<DiskEnv, 'paths' | 'owner' | 'signal'>,
): Promise<ResolvedDisk> {
  const image = await withBlockSize(disk, await withCacheMode(disk, found));
  if (!tracksChanges(vmi) || !isTrackedDisk(disk, volume)) return image;
  return trackChanges(vmi.metadata.uid ?? '', volume, image, env);
}

function isReadOnly({ cdrom, disk, lun }: Disk, { persistentVolumeClaim }: Volume): boolean {
  return Boolean(cdrom || (disk ?? lun)?.readonly || persistentVolumeClaim?.readOnly);
}

/** The system's own errors say neither which volume nor what to do. */
async function explained<T>(field: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CodedError) throw error;
    const advice = errorCode(error) === 'ENOSPC' ? 'free some space on the node' : 'look at its rights on the node';
    throw new DiskError('IO_FAILED', `${field}: ${errorMessage(error)}: ${advice}`, { cause: error });
  }
}

async function prepareVolume(
  vmi: VirtualMachineInstance,
  volume: Volume,
  index: number,
  env: DiskEnv,
): Promise<ResolvedDisk | undefined> {
  if (isHotplugged(volume, statusOf(vmi, volume.name))) return findHotplugged(volume, env);
  const cloudInit = cloudInitKind(volume);
  if (cloudInit) return prepareCloudInit(vmi, volume, cloudInit, env);
  if (volume.containerDisk) return prepareContainerDisk(volume, index, env);
  if (volume.hostDisk) return prepareHostDisk(volume, env);
  if (volume.emptyDisk) return prepareEmptyDisk(volume, env);
  if (volume.downwardMetrics) return prepareMetricsDisk(env);
  if (volume.persistentVolumeClaim || volume.dataVolume) return prepareClaim(volume, env);
  if (volume.ephemeral) return prepareEphemeral(volume, env);
  const config = await prepareConfigDisk(volume, env);
  if (config) return config;
  const kind = Object.keys(volume).find((key) => key !== 'name') ?? 'no source';
  throw new DiskError(
    'UNSUPPORTED_FIELD',
    `spec.volumes[${volume.name}]: a disk with ${kind} is not supported by this launcher: remove it, or use another volume`,
  );
}

/** A fresh disk that lives as long as the pod (`pkg/emptydisk`). */
async function prepareEmptyDisk(volume: Volume, env: DiskEnv): Promise<ResolvedDisk> {
  const capacity = volume.emptyDisk?.capacity;
  const sizeBytes = Math.floor((parseQuantity(capacity) ?? 0) / mebibyte) * mebibyte;
  if (sizeBytes <= 0 || !Number.isSafeInteger(sizeBytes)) {
    throw new DiskError(
      'INVALID_FIELD',
      `spec.volumes[${volume.name}].emptyDisk.capacity: ${JSON.stringify(capacity)} is not a size of at least 1Mi and less than 8Pi`,
    );
  }
  const file = path.join(env.paths.emptyDiskDir, `${volume.name}.qcow2`);
  await ensureEmptyImage(file, sizeBytes, env);
  return { path: file, format: 'qcow2', isBlock: false };
}

/** Figures of the host and the VM: the node's agent writes them into the file once the guest runs. */
async function prepareMetricsDisk(env: DiskEnv): Promise<ResolvedDisk> {
  const file = path.join(env.paths.privateDir, path.basename(vhostmdDisk.directory), vhostmdDisk.name);
  await ensureCreated(file, env, async (part) => {
    const handle = await open(part, 'wx', 0o640);
    try {
      await handle.truncate(vhostmdDiskBytes);
      for (const { at, bytes } of vhostmdWrites('<metrics></metrics>')) await handle.write(bytes, 0, bytes.length, at);
      await giveToQemu(handle, env, 0o640);
    } finally {
      await handle.close();
    }
  });
  return { path: file, format: 'raw', isBlock: false, readonly: true };
}

function cloudInitKind(volume: Volume): CloudInitKind | undefined {
  if (volume.cloudInitNoCloud) return 'noCloud';
  return volume.cloudInitConfigDrive ? 'configDrive' : undefined;
}

/** A guest reads one of them; which one would be chance. */
function refuseSecondCloudInit(entries: readonly DiskEntry[]): void {
  const names = entries.flatMap(({ volume }) => (volume && cloudInitKind(volume) ? [volume.name] : []));
  if (names.length < 2) return;
  throw new DiskError('BAD_CLOUD_INIT', `spec.volumes: ${names.join(' and ')} are all cloud-init disks: keep one`);
}
