import { CodedError } from '../../../base/index.ts';

export type RestErrorCode =
  | 'BAD_REQUEST'
  | 'NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'TOO_LARGE'
  | 'UNSUPPORTED_ENCODING'
  | 'UPGRADE_REQUIRED'
  /** The launcher says that a checkpoint is corrupt; callers look for this status. */
  | 'CHECKPOINT_INVALID'
  /** Too many calls of one VMI are under way. */
  | 'BUSY'
  /** The launcher cannot be reached, or did not do it. */
  | 'LAUNCHER_FAILED'
  | 'INTERNAL'
  | 'NOT_SUPPORTED'
  /** Not now: the VMIs are not listed yet, or the agent leaves. */
  | 'UNAVAILABLE';

const statuses: Readonly<Record<RestErrorCode, number>> = {
  BAD_REQUEST: 400,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  TOO_LARGE: 413,
  UNSUPPORTED_ENCODING: 415,
  UPGRADE_REQUIRED: 426,
  CHECKPOINT_INVALID: 422,
  BUSY: 429,
  LAUNCHER_FAILED: 500,
  INTERNAL: 500,
  NOT_SUPPORTED: 501,
  UNAVAILABLE: 503,
};

/** An answer that is no success; the message is its body. */
export class RestError extends CodedError<RestErrorCode> {
  readonly httpStatus: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: RestErrorCode,
    message: string,
    { headers = {}, ...options }: ErrorOptions & { readonly headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(code, message, options);
    this.httpStatus = statuses[code];
    this.headers = headers;
  }
}

export function badRequest(message: string, cause?: unknown): RestError {
  return new RestError('BAD_REQUEST', message, { cause });
}
