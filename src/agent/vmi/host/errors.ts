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
  | 'NOT_SUPPORTED';

export class HostError extends CodedError<HostErrorCode> {}
