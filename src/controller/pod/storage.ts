import type { Container, PodVolume, VolumeMount } from '../../api/index.ts';

/** Volumes of a launcher pod, and how `compute` has them. */
export interface PodStorage {
  readonly volumes: PodVolume[];
  readonly mounts: VolumeMount[];
  /** Claims that are block devices. */
  readonly devices: NonNullable<Container['volumeDevices']>;
  /** Directories that other nodes write, too. */
  readonly sharedPaths: string[];
}

export function addMounted(
  { volumes, mounts }: PodStorage,
  name: string,
  source: Partial<PodVolume>,
  mountPath: string,
  readOnly = false,
): void {
  volumes.push({ name, ...source });
  mounts.push({ name, mountPath, ...(readOnly && { readOnly }) });
}

export function addEmptyDir(
  { volumes, mounts }: PodStorage,
  name: string,
  mountPath: string,
  mountPropagation?: VolumeMount['mountPropagation'],
): void {
  volumes.push({ name, emptyDir: {} });
  mounts.push({ name, mountPath, ...(mountPropagation && { mountPropagation }) });
}
