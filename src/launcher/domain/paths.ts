import path from 'node:path';
import { virtiofsDir } from '../../api/index.ts';
import { deviceMetadataDir } from './claimed-devices.ts';
import { ConvertError } from './errors.ts';
import { networkInfoFile } from './network-info.ts';

/** Directories inside the launcher pod at upstream's paths. All absolute. */
export interface LauncherPaths {
  /** Serial and VNC sockets live in `<privateDir>/<vmi uid>/`; secrets in `<privateDir>/secret/`. */
  readonly privateDir: string;
  readonly ephemeralDir: string;
  readonly containerDiskDir: string;
  /** Image volumes: `disk_<index in spec.volumes>` is the root of that volume's image. */
  readonly imageVolumeDir: string;
  /** Image volume of `firmware.kernelBoot.container`. */
  readonly kernelBootDir: string;
  readonly hotplugDiskDir: string;
  readonly emptyDiskDir: string;
  readonly nvramDir: string;
  /** What swtpm keeps of the TPM, by the domain's UUID. */
  readonly swtpmDir: string;
  /** Which blocks of disks change, by volume. */
  readonly trackingDir: string;
  readonly serviceAccountDir: string;
  /** Sockets of side containers that serve file systems. */
  readonly virtiofsDir: string;
  /** Which devices of the machine the pod's networks are. */
  readonly networkInfoFile: string;
  /** Which devices of the machine the pod's claims got. */
  readonly deviceMetadataDir: string;
  /** Block-mode PVCs are `<devDir>/<volume>`. */
  readonly devDir: string;
}

/** The paths of a launcher pod; `root` moves all of them below another directory (tests). */
export function launcherPaths(options: { readonly nonRoot: boolean; readonly root?: string }): LauncherPaths {
  const at = (absolute: string) => path.join(options.root ?? '/', absolute);
  const privateDir = at('/var/run/kubevirt-private');
  return {
    privateDir,
    ephemeralDir: at('/var/run/kubevirt-ephemeral-disks'),
    containerDiskDir: at('/var/run/kubevirt/container-disks'),
    imageVolumeDir: at('/var/run/kubevirt-image-volume'),
    kernelBootDir: at('/var/run/kubevirt-kernel-boot'),
    hotplugDiskDir: at('/var/run/kubevirt/hotplug-disks'),
    emptyDiskDir: at('/var/run/libvirt/empty-disks'),
    nvramDir: options.nonRoot ? path.join(privateDir, 'libvirt/qemu/nvram') : at('/var/lib/libvirt/qemu/nvram'),
    swtpmDir: options.nonRoot ? path.join(privateDir, 'libvirt/qemu/swtpm') : at('/var/lib/libvirt/swtpm'),
    trackingDir: options.nonRoot ? path.join(privateDir, trackingSuffix) : at(`/var/lib/${trackingSuffix}`),
    serviceAccountDir: at('/var/run/secrets/kubernetes.io/serviceaccount'),
    virtiofsDir: at(virtiofsDir),
    networkInfoFile: at(networkInfoFile),
    deviceMetadataDir: at(deviceMetadataDir),
    devDir: at('/dev'),
  };
}

/** Upstream: `PathForCBT` of pkg/storage/cbt/cbt.go. */
const trackingSuffix = 'libvirt/qemu/cbt';

/** Whether a disk's source is a record of changed blocks. The XML of libvirt before 10.10 has no `dataStore` to tell it by. */
export function isTrackingRecord(file: string): boolean {
  return path.dirname(file).endsWith(`/${trackingSuffix}`) && file.endsWith('.qcow2');
}

/** Limit of `sun_path` without its final zero. */
const maxSocketPathBytes = 107;

/** The path itself, when a Unix socket can be bound there; else `PATH_TOO_LONG`. */
export function socketPath(file: string): string {
  const bytes = Buffer.byteLength(file);
  if (bytes <= maxSocketPathBytes) return file;
  throw new ConvertError(
    'PATH_TOO_LONG',
    `the Unix socket path ${file} has ${bytes} bytes, ${maxSocketPathBytes} are possible: use a shorter private directory`,
  );
}

export function serialSocket(paths: LauncherPaths, uid: string): string {
  return socketPath(path.join(paths.privateDir, uid, 'virt-serial0'));
}

export function vncSocket(paths: LauncherPaths, uid: string): string {
  return socketPath(path.join(paths.privateDir, uid, 'virt-vnc'));
}
