import { CodedError } from '../../base/index.ts';

export type HostErrorCode =
  /** Ends the VMI (spec 10b §3). */
  'CRITICAL_NETWORK' | 'NO_HYPERVISOR' | 'NO_VOLUME_STATUS' | 'DISK_TOO_LARGE' | 'DISK_NAME' | 'NOT_SUPPORTED';

export class HostError extends CodedError<HostErrorCode> {}
