import { CodedError } from '../../base/index.ts';

export type StoreErrorCode =
  /** The database cannot be read; the message says what to do. */
  | 'STORE_CORRUPT'
  /** Another process has it open. */
  | 'STORE_IN_USE'
  /** Written by a newer version. */
  | 'STORE_TOO_NEW'
  /** Cannot be opened for another reason: rights, disk. */
  | 'STORE_UNAVAILABLE'
  /** A write did not reach the disk; nothing of it is visible. */
  | 'STORE_WRITE_FAILED'
  | 'STORE_CLOSED';

export class StoreError extends CodedError<StoreErrorCode> {}
