import type { Container, PodVolume, Quantity, VirtualMachineInstance } from '../../api/index.ts';
import type { ControllerConfig } from '../../cluster-config/index.ts';
import { ownDirectories } from './user.ts';

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
  readonly volumes: readonly PodVolume[];
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
  if (images.length === 0) return { initContainers: [], containers: [], volumes: [] };
  if (config.imageVolume) return digestContainers(images, vmi, config);
  const initContainers = [
    copyBinary(vmi, config),
    ...images.map((image) => ({
      ...diskContainer(image, vmi, config),
      name: `volume${image.name}-init`,
      args: ['--no-op'],
    })),
  ];
  return { initContainers, containers: images.map((image) => diskContainer(image, vmi, config)), volumes: [] };
}

const launcherVolume = 'launcher-volume';
const launcherMount = '/container-disk-binary';

/** A kubelet reports the digest of an image that a container runs, and of a volume's image does not: a migration needs the very same image. */
function digestContainers(images: readonly Image[], vmi: VirtualMachineInstance, config: ControllerConfig) {
  const { launcherImage: reference, imagePullPolicy: pullPolicy } = config;
  const initContainers = images.map((image) => ({
    ...diskContainer(image, vmi, config),
    command: [launcherMount + program],
    args: ['--no-op'],
    volumeMounts: [{ name: launcherVolume, mountPath: launcherMount, readOnly: true }],
  }));
  return { initContainers, containers: [], volumes: [{ name: launcherVolume, image: { reference, pullPolicy } }] };
}

/** Runs an image only for its digest, which is known when the image is named by it. */
export const isDigestContainer = ({ command, args }: Container) =>
  command?.[0] === launcherMount + program && args?.[0] === '--no-op';

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

function copyBinary(vmi: VirtualMachineInstance, config: ControllerConfig): Container {
  const isNonRoot = (vmi.status?.runtimeUser ?? 0) !== 0;
  const defaults = hasGuaranteedResources(vmi)
    ? { requests: {}, limits: { cpu: '10m', memory: '40M' } }
    : { requests: { cpu: '10m', memory: '1M' }, limits: { cpu: '100m', memory: '40M' } };
  return {
    name: binaryContainer,
    image: config.launcherImage,
    imagePullPolicy: config.imagePullPolicy,
    command: ['/usr/bin/cp', '--preserve=all', program, `/init${program}`],
    env: ownDirectories(isNonRoot),
    volumeMounts: [{ name: binaryVolume, mountPath: '/init/usr/bin' }],
    resources: sideResources(vmi, config, defaults),
    terminationMessagePolicy: 'FallbackToLogsOnError',
    securityContext: isNonRoot
      ? { ...noPrivileges, runAsGroup: 107 }
      : { runAsUser: 0, capabilities: noPrivileges.capabilities },
  };
}

function diskContainer(image: Image, vmi: VirtualMachineInstance, config: ControllerConfig): Container {
  const shared = `/var/run/kubevirt/container-disks/${vmi.metadata.uid ?? ''}`;
  const defaults = { requests: { cpu: '1m', memory: '1M' }, limits: { cpu: '10m', memory: '40M' } };
  const { requests, limits } = sideResources(vmi, config, defaults);
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

type Amounts = {
  readonly requests: Readonly<Record<string, Quantity>>;
  readonly limits: Readonly<Record<string, Quantity>>;
};

/** As the KubeVirt object says, else as given; a pod that is Guaranteed stays it. */
function sideResources(vmi: VirtualMachineInstance, { launcherPods }: ControllerConfig, defaults: Amounts): Amounts {
  const said = launcherPods.sideContainers['container-disk'];
  const limits = { ...defaults.limits, ...said?.limits };
  return { requests: hasGuaranteedResources(vmi) ? limits : { ...defaults.requests, ...said?.requests }, limits };
}

/** A pod with one container that is not Guaranteed is not Guaranteed as a whole. */
export function hasGuaranteedResources({ spec }: VirtualMachineInstance): boolean {
  if (spec.domain.cpu?.dedicatedCpuPlacement) return true;
  const { requests = {}, limits = {} } = spec.domain.resources ?? {};
  const isSame = (name: string) => limits[name] !== undefined && String(requests[name]) === String(limits[name]);
  return isSame('cpu') && isSame('memory');
}
