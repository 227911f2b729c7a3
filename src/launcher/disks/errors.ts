import { CodedError } from '../../base/index.ts';

/**
 * `IMAGE_MISSING`: file or directory of an image is not there; `BAD_IMAGE`: not a raw or plain qcow2 image;
 * `UNSAFE_PATH`: a link or name that leads out of its directory; `BAD_CLOUD_INIT`: its data cannot be used; `MISSING_SOURCE`:
 * a secret, config map or claim is not mounted; `DIRECT_IO_UNSUPPORTED`: cache none on a file system without O_DIRECT;
 * `IO_FAILED`: the operating system refused (rights, a full disk); `NO_SPACE`; `INVALID_FIELD`; `UNSUPPORTED_FIELD`; `TOOL_FAILED`: qemu-img or genisoimage failed or is not installed.
 */
export type DiskErrorCode =
  | 'IMAGE_MISSING'
  | 'BAD_IMAGE'
  | 'UNSAFE_PATH'
  | 'BAD_CLOUD_INIT'
  | 'MISSING_SOURCE'
  | 'DIRECT_IO_UNSUPPORTED'
  | 'IO_FAILED'
  | 'NO_SPACE'
  | 'INVALID_FIELD'
  | 'UNSUPPORTED_FIELD'
  | 'TOOL_FAILED';

/** Why the disks of a VMI cannot be prepared. The message names volume and directory; it is shown to the user. */
export class DiskError extends CodedError<DiskErrorCode> {}
