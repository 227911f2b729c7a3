import type { VirtualMachineInstance } from '../../../../api/index.ts';
import { errorCode } from '../../../../base/index.ts';
import { openNoFollow, SafePathError } from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import type { LauncherRoot } from '../launcher-root.ts';
import { containerDisksDirectory } from './mount-records.ts';

/** What a pod has that brings its images by side containers: the kubelet keeps a directory per container. */
const sidecarPod = 'containers/container-disk-binary';

export interface PodOptions {
  readonly podsDir: string;
  /** Empty: pods of all nodes count. */
  readonly nodeName: string;
}

/** UID of the pod with the launcher's directory of container disks. Throws HostError SEVERAL_PODS; undefined: there is none. */
export function podOf(vmi: VirtualMachineInstance, options: PodOptions): string | undefined {
  const [found, other] = podsWith(containerDisksDirectory, vmi, options);
  if (other === undefined) return found;
  const problem = `the directories of several pods are there (${found}, ${other}): it waits until the old one is removed`;
  throw new HostError('SEVERAL_PODS', problem);
}

/**
 * Images are mounted by the agent, and not by the kubelet as volumes. Gate and pod may differ: a pod keeps the way it was made for when the
 * gate is switched (pkg/virt-handler/container-disk/mount.go, needsBindMount).
 */
export function bringsImagesBySidecars(
  vmi: VirtualMachineInstance,
  launcher: LauncherRoot,
  options: PodOptions & { readonly imageVolume: boolean },
): boolean {
  if (options.imageVolume) return podsWith(sidecarPod, vmi, options).length > 0;
  return !imageVolumePaths(vmi).some((path) => launcher.use(path, (found) => found.stat().isDirectory()));
}

function imageVolumePaths({ spec }: VirtualMachineInstance): string[] {
  const disks = (spec.volumes ?? []).flatMap(({ containerDisk }, index) =>
    containerDisk ? [`/var/run/kubevirt-image-volume/disk_${index}`] : [],
  );
  return [...disks, ...(spec.domain.firmware?.kernelBoot?.container ? ['/var/run/kubevirt-kernel-boot'] : [])];
}

function podsWith(directory: string, vmi: VirtualMachineInstance, { podsDir, nodeName }: PodOptions): string[] {
  return Object.entries(vmi.status?.activePods ?? {})
    .filter(([, node]) => nodeName === '' || node === nodeName)
    .map(([podUid]) => podUid)
    .filter((podUid) => !podUid.includes('/') && isThere(podsDir, `${podUid}/${directory}`));
}

function isThere(podsDir: string, relative: string): boolean {
  try {
    openNoFollow(podsDir, relative).close();
    return true;
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR' || error instanceof SafePathError) return false;
    throw error;
  }
}
