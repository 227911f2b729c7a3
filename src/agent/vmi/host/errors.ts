import { CodedError } from '../../../base/index.ts';

export type HostErrorCode =
  /** Ends a VMI that has not started, as upstream's critical network errors do; all others are tried again. */
  | 'CRITICAL_NETWORK'
  /** The pod's network is not as it has to be yet, or a tool for it failed: tried again. */
  | 'POD_NETWORK'
  | 'NO_HYPERVISOR'
  | 'NO_VOLUME_STATUS'
  | 'DISK_TOO_LARGE'
  /** A volume or a file that no directory can have, or may have here. */
  | 'DISK_NAME'
  /** What is in the disk's place is no plain file, or was put there while the disk was made. */
  | 'DISK_REPLACED'
  /** The file system of the volume did not take it. */
  | 'DISK_NOT_MADE'
  /** Directories of several pods of this VMI are there: those of the old ones have to go first. */
  | 'SEVERAL_PODS'
  /** A side container with an image does not come up, or what answers in its place is another process. */
  | 'DISK_CONTAINER'
  /** The image in a side container is not there, or no plain file. */
  | 'DISK_IMAGE'
  /** What has to be mounted on, or made, in the launcher's pod is something else. */
  | 'MOUNT_TARGET'
  /** What is mounted could not be written down, or what was written down cannot be read. */
  | 'MOUNT_RECORD'
  /** What an attachment pod has for a volume is no device or image, or what answers in its place is another process. */
  | 'HOTPLUG_SOURCE'
  /** The launcher's pod takes no volumes while it runs. */
  | 'HOTPLUG_DISABLED'
  /** Whether plug-ins have hooks is not known. */
  | 'PLUGIN_HOOKS'
  /** A file system that side containers of the pod are to serve is not served. */
  | 'NO_VIRTIOFS'
  /** The kernel does not grant memory, CPUs or priority. */
  | 'LIMITS_REFUSED'
  /** The guest's process is not there, or not yet. */
  | 'NO_QEMU'
  | 'BAD_CPU_MASK'
  | 'NOT_SUPPORTED';

export class HostError extends CodedError<HostErrorCode> {}
