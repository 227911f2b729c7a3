import type { StatusObject } from '../api/index.ts';
import { CodedError } from '../base/index.ts';

export type KubeErrorCode =
  | 'NOT_FOUND'
  | 'CONFLICT'
  | 'ALREADY_EXISTS'
  /** 410: the resource version or the continue token is too old. List again. */
  | 'GONE'
  | 'FORBIDDEN'
  | 'UNAUTHORIZED'
  /** The server (or this client, before sending) refuses the content. Repeating it does not help. */
  | 'INVALID'
  /** 413, or more than the store behind the server takes. */
  | 'TOO_LARGE'
  | 'TOO_MANY_REQUESTS'
  | 'SERVER_ERROR'
  /** No answer: refused, reset, unknown host, bad certificate. */
  | 'UNREACHABLE'
  | 'TIMEOUT'
  /** An answer that is not what the API promises: no JSON, cut off, too long. */
  | 'BAD_RESPONSE'
  /** The kubeconfig or the service account files cannot be used. */
  | 'BAD_CONFIG';

export interface KubeErrorDetails extends ErrorOptions {
  readonly httpStatus?: number | undefined;
  readonly status?: StatusObject | undefined;
  readonly retryAfterMs?: number | undefined;
}

/** Everything src/kube throws, apart from the caller's own abort reason. */
export class KubeError extends CodedError<KubeErrorCode> {
  readonly httpStatus: number | undefined;
  /** The server's own words, where it gave some. */
  readonly status: StatusObject | undefined;
  /** From `Retry-After`. */
  readonly retryAfterMs: number | undefined;

  constructor(code: KubeErrorCode, message: string, details: KubeErrorDetails = {}) {
    super(code, message, details.cause === undefined ? {} : { cause: details.cause });
    this.httpStatus = details.httpStatus;
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
  }
}

export function isKubeError(error: unknown, ...codes: KubeErrorCode[]): error is KubeError {
  return error instanceof KubeError && (codes.length === 0 || codes.includes(error.code));
}

const byHttpStatus: Readonly<Record<number, KubeErrorCode>> = {
  400: 'INVALID',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  405: 'INVALID',
  409: 'CONFLICT',
  410: 'GONE',
  413: 'TOO_LARGE',
  415: 'INVALID',
  422: 'INVALID',
  429: 'TOO_MANY_REQUESTS',
  504: 'TIMEOUT',
};

/** A refusal as an error. `what` says which call it was: `PUT /apis/...`. */
export function refusalError(
  httpStatus: number,
  status: StatusObject | undefined,
  what: string,
  retryAfterMs?: number,
): KubeError {
  // The server may have put anything there, also what cannot be made text.
  const text = typeof status?.message === 'string' ? status.message : `HTTP ${httpStatus}`;
  return new KubeError(refusalCode(httpStatus, status?.reason, text), `${what}: ${text}`, {
    httpStatus,
    status,
    retryAfterMs,
  });
}

/** etcd's limit on a request (1.5 MiB) and gRPC's on a message (2 MiB) come through as errors of the server. */
const tooLargeForStore = /request is too large|message larger than max/;

function refusalCode(httpStatus: number, reason: string | undefined, text: string): KubeErrorCode {
  if (httpStatus >= 500 && tooLargeForStore.test(text)) return 'TOO_LARGE';
  if (reason === 'AlreadyExists') return 'ALREADY_EXISTS';
  if (reason === 'Expired' || reason === 'Gone') return 'GONE';
  const known = byHttpStatus[httpStatus];
  if (known) return known;
  return httpStatus >= 500 ? 'SERVER_ERROR' : 'INVALID';
}
