import { CodedError } from '../base/index.ts';

export type WireErrorCode =
  /** Not even the last component of the path fits into a socket address. */
  | 'PATH_TOO_LONG'
  | 'JSON_TOO_LARGE'
  | 'JSON_TOO_DEEP'
  | 'JSON_INVALID'
  /** Valid JSON with a wrong type at a place that we read. */
  | 'JSON_SHAPE'
  | 'NO_COMMON_VERSION';

export class WireError extends CodedError<WireErrorCode> {}
