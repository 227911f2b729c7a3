import { type ServiceError, status } from '@grpc/grpc-js';
import { CodedError, errorMessage, goQuote, plainText } from '../base/index.ts';

export type LauncherClientErrorCode =
  /** The connection ended because the launcher did; callers that end a VM count it as success. */
  | 'DISCONNECTED'
  | 'UNIMPLEMENTED'
  /** The launcher answered success=false; `launcherMessage` is its own text. */
  | 'COMMAND_FAILED'
  /** No answer before the deadline. */
  | 'TIMEOUT'
  /** The connection broke although the launcher seems to run. */
  | 'UNAVAILABLE'
  /** Any other gRPC status. */
  | 'RPC_FAILED'
  /** Refused because it, or its answer, is above the message limit. */
  | 'TOO_LARGE'
  /** The answer is not what the protocol says (JSON, limits, another VMI's domain). */
  | 'BAD_ANSWER'
  | 'NO_SOCKET'
  | 'MULTIPLE_SOCKETS'
  /** The socket file is there and nothing listens: proof that the launcher ended. */
  | 'NOT_LISTENING'
  /** No common protocol version, or no version service at all. */
  | 'INCOMPATIBLE'
  /** The process behind the socket is not known. */
  | 'NO_PEER'
  /** This client was closed. */
  | 'CLOSED'
  /** The caller's signal fired. */
  | 'ABORTED';

export class LauncherClientError extends CodedError<LauncherClientErrorCode> {
  /** COMMAND_FAILED: the launcher's text without our prefix. */
  readonly launcherMessage: string | undefined;

  constructor(
    code: LauncherClientErrorCode,
    message: string,
    options: ErrorOptions & { launcherMessage?: string } = {},
  ) {
    // It may cite the launcher, and goes into conditions, events and logs.
    super(code, plainText(message), options);
    this.launcherMessage = options.launcherMessage === undefined ? undefined : plainText(options.launcherMessage);
  }
}

const goCodeNames: Readonly<Record<number, string>> = {
  [status.CANCELLED]: 'Canceled',
  [status.UNKNOWN]: 'Unknown',
  [status.INVALID_ARGUMENT]: 'InvalidArgument',
  [status.DEADLINE_EXCEEDED]: 'DeadlineExceeded',
  [status.NOT_FOUND]: 'NotFound',
  [status.ALREADY_EXISTS]: 'AlreadyExists',
  [status.PERMISSION_DENIED]: 'PermissionDenied',
  [status.RESOURCE_EXHAUSTED]: 'ResourceExhausted',
  [status.FAILED_PRECONDITION]: 'FailedPrecondition',
  [status.ABORTED]: 'Aborted',
  [status.OUT_OF_RANGE]: 'OutOfRange',
  [status.UNIMPLEMENTED]: 'Unimplemented',
  [status.INTERNAL]: 'Internal',
  [status.UNAVAILABLE]: 'Unavailable',
  [status.DATA_LOSS]: 'DataLoss',
  [status.UNAUTHENTICATED]: 'Unauthenticated',
};

/** A gRPC status as upstream prints it: conditions and events carry this text. */
function rpcErrorText({ code, details }: Pick<ServiceError, 'code' | 'details'>): string {
  return `rpc error: code = ${goCodeNames[code] ?? `Code(${code})`} desc = ${details}`;
}

/**
 * In the order and the words of upstream's `pkg/virt-handler/cmd-client/errors.go`. `launcherEnded`: whether the launcher is
 * proven gone; then a broken connection counts as disconnected (upstream only knows CANCELLED and calls the usual UNAVAILABLE
 * a failure).
 */
export function mapRpcError(command: string, error: ServiceError, launcherEnded: boolean): LauncherClientError {
  const raw = rpcErrorText(error);
  const options = { cause: error };
  const broken = error.code === status.UNAVAILABLE && launcherEnded;
  if (error.code === status.CANCELLED || broken) return new LauncherClientError('DISCONNECTED', raw, options);
  if (error.code === status.UNIMPLEMENTED) return new LauncherClientError('UNIMPLEMENTED', raw, options);
  const text = `unknown error encountered sending command ${command}: ${raw}`;
  return new LauncherClientError(codeOf(error.code), text, options);
}

function codeOf(code: status): LauncherClientErrorCode {
  if (code === status.DEADLINE_EXCEEDED) return 'TIMEOUT';
  if (code === status.UNAVAILABLE) return 'UNAVAILABLE';
  if (code === status.RESOURCE_EXHAUSTED) return 'TOO_LARGE';
  return 'RPC_FAILED';
}

/** `success=false` as an error. The message goes into VMI conditions; `EFI OVMF rom missing` is searched for there. */
export function commandFailed(command: string, message: string): LauncherClientError {
  const text = `server error. command ${command} failed: ${goQuote(message)}`;
  return new LauncherClientError('COMMAND_FAILED', text, { launcherMessage: message });
}

export function badAnswer(what: string, cause: unknown): LauncherClientError {
  return new LauncherClientError('BAD_ANSWER', `the launcher's ${what} is unusable: ${errorMessage(cause)}`, { cause });
}
