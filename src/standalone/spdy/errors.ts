import { CodedError } from '../../base/index.ts';

export type SpdyErrorCode =
  /** What the other side sent is no SPDY/3.1. */
  | 'MALFORMED'
  /** It is, and more than is taken. */
  | 'TOO_LARGE';

export class SpdyError extends CodedError<SpdyErrorCode> {}
