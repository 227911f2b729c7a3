import type { Container, VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';

/** Of the program that side containers run; the kubelet's directory of its container tells the agent how images come. */
const binaryContainer = 'container-disk-binary';
export const binaryVolume = 'virt-bin-share-dir';
const program = '/usr/bin/container-disk';

const noPrivileges = {
  runAsUser: 107,
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  capabilities: { drop: ['ALL'] },
};

export interface DiskContainers {
  readonly initContainers: readonly Container[];
  readonly containers: readonly Container[];
}

interface Image {
  /** As a volume would be called. */
  readonly name: string;
  readonly image: string;
  readonly pullPolicy: string | undefined;
  /** What its socket is called, without `.sock`. */
  readonly socket: string;
}

/**
 * Containers that bring images without image volumes (upstream: pkg/container-disk/container-disk.go): each image runs the program
 * container-disk, which an init container takes from the launcher's image; the agent finds the image as the root of that
 * process. Images are pulled by init containers before the launcher starts.
 */
export function diskContainers(vmi: VirtualMachineInstance, config: ControllerConfig): DiskContainers {
  const images = imagesOf(vmi);
  if (config.imageVolume || images.length === 0) return { initContainers: [], containers: [] };
  const isGuaranteed = hasGuaranteedResources(vmi);
  return {
    initContainers: [
      copyBinary(vmi, config, isGuaranteed),
      ...images.map((image) => ({
        ...diskContainer(image, vmi, isGuaranteed),
        name: `volume${image.name}-init`,
        args: ['--no-op'],
      })),
    ],
    containers: images.map((image) => diskContainer(image, vmi, isGuaranteed)),
  };
}

function imagesOf({ spec }: VirtualMachineInstance): Image[] {
  const disks = (spec.volumes ?? []).flatMap(({ name, containerDisk }, index) => {
    if (!containerDisk) return [];
    const { image, imagePullPolicy: pullPolicy } = containerDisk;
    return [{ name, image, pullPolicy, socket: `disk_${index}` }];
  });
  const boot = spec.domain.firmware?.kernelBoot?.container;
  if (!boot?.image) return disks;
  const { image, imagePullPolicy: pullPolicy } = boot;
  return [...disks, { name: 'kernel-boot-volume', image, pullPolicy, socket: 'kernel-boot' }];
}

function copyBinary(vmi: VirtualMachineInstance, config: ControllerConfig, isGuaranteed: boolean): Container {
  const isNonRoot = (vmi.status?.runtimeUser ?? 0) !== 0;
  const limits = { cpu: isGuaranteed ? '10m' : '100m', memory: '40M' };
  return {
    name: binaryContainer,
    image: config.launcherImage,
    imagePullPolicy: config.imagePullPolicy,
    command: ['/usr/bin/cp', '--preserve=all', program, `/init${program}`],
    volumeMounts: [{ name: binaryVolume, mountPath: '/init/usr/bin' }],
    resources: { requests: isGuaranteed ? limits : { cpu: '10m', memory: '1M' }, limits },
    securityContext: isNonRoot
      ? { ...noPrivileges, runAsGroup: 107 }
      : { runAsUser: 0, capabilities: noPrivileges.capabilities },
  };
}

function diskContainer(image: Image, vmi: VirtualMachineInstance, isGuaranteed: boolean): Container {
  const shared = `/var/run/kubevirt/container-disks/${vmi.metadata.uid ?? ''}`;
  const limits = { cpu: '10m', memory: '40M' };
  const requests = isGuaranteed ? limits : { cpu: '1m', memory: '1M' };
  return {
    name: `volume${image.name}`,
    image: image.image,
    ...(image.pullPolicy ? { imagePullPolicy: image.pullPolicy } : {}),
    command: [program],
    args: ['--copy-path', `${shared}/${image.socket}`],
    volumeMounts: [
      { name: 'container-disks', mountPath: shared },
      { name: binaryVolume, mountPath: '/usr/bin' },
    ],
    resources: { requests: { ...requests, 'ephemeral-storage': '50M' }, limits },
    securityContext: noPrivileges,
  };
}

/** A pod with one container that is not Guaranteed is not Guaranteed as a whole. */
export function hasGuaranteedResources({ spec }: VirtualMachineInstance): boolean {
  if (spec.domain.cpu?.dedicatedCpuPlacement) return true;
  const { requests = {}, limits = {} } = spec.domain.resources ?? {};
  const isSame = (name: string) => limits[name] !== undefined && String(requests[name]) === String(limits[name]);
  return isSame('cpu') && isSame('memory');
}
