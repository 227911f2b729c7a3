import { CodedError } from '../base/index.ts';
import { int, optional, string, struct, type ValueOf } from './codec.ts';
import { ErrorNumber, ErrorOrigin } from './constants.ts';
import { domain, uuid } from './domain.ts';

/** Made on this side; the daemon never sends them. */
export type ClientErrorCode =
  /** The socket could not be reached. */
  | 'CONNECT_FAILED'
  /** The daemon wants a way of authentication that this client does not have, or refused it. */
  | 'AUTH_REFUSED'
  /** The connection ended before the answer; whether the call took effect is unknown. */
  | 'CONNECTION_LOST'
  /** No answer within the call's deadline; the daemon may still carry it out. */
  | 'CALL_TIMEOUT'
  /** The caller's signal fired; the daemon may still carry the call out. */
  | 'CALL_ABORTED'
  /** The peer sent what the protocol does not allow. */
  | 'PROTOCOL_VIOLATION'
  /** An argument cannot be put on the wire; nothing was sent. */
  | 'INVALID_ARGUMENT'
  /** More calls wait on one connection than its limit; nothing was sent. */
  | 'TOO_MANY_CALLS'
  /** A stream carried more than the caller's limit. */
  | 'STREAM_TOO_LONG';

export type LibvirtErrorCode = keyof typeof ErrorNumber | ClientErrorCode | 'LIBVIRT_ERROR';

export interface LibvirtErrorFields {
  /** libvirt's error number (virErrorNumber). */
  readonly libvirtCode: number;
  /** The component it comes from (virErrorDomain). */
  readonly domainCode: number;
  /** 1 warning, 2 error. */
  readonly level: number;
  /** The first detail number: errno for SYSTEM_ERROR. */
  readonly int1: number;
}

/**
 * Every failure of this folder. `code` is the name of libvirt's number, `LIBVIRT_ERROR` for numbers without a name here,
 * or a `ClientErrorCode`; those carry the numbers that libvirt's own client library would report.
 */
export class LibvirtError extends CodedError<LibvirtErrorCode> implements LibvirtErrorFields {
  readonly libvirtCode: number;
  readonly domainCode: number;
  readonly level: number;
  readonly int1: number;

  constructor(
    code: LibvirtErrorCode,
    message: string,
    fields: Partial<LibvirtErrorFields> = {},
    options?: ErrorOptions,
  ) {
    super(code, message, options);
    this.libvirtCode = fields.libvirtCode ?? ErrorNumber.INTERNAL_ERROR;
    this.domainCode = fields.domainCode ?? ErrorOrigin.NONE;
    this.level = fields.level ?? 2;
    this.int1 = fields.int1 ?? -1;
  }
}

/** Upstream's text form, which the agent may show. */
export function formatLibvirtError(error: LibvirtError): string {
  return `LibvirtError(Code=${error.libvirtCode}, Domain=${error.domainCode}, Message='${error.message}')`;
}

/** True for a `LibvirtError` with one of `codes`. */
export function isLibvirtError(error: unknown, ...codes: readonly LibvirtErrorCode[]): error is LibvirtError {
  return error instanceof LibvirtError && (codes.length === 0 || codes.includes(error.code));
}

/** `remote_error`: the payload of a reply or stream packet with status ERROR (remote_protocol.x of libvirt). */
export const wireError = struct({
  code: int,
  domainCode: int,
  message: optional(string),
  level: int,
  domain: optional(domain),
  str1: optional(string),
  str2: optional(string),
  str3: optional(string),
  int1: int,
  int2: int,
  network: optional(struct({ name: string, uuid })),
});

const namesByNumber = new Map(
  Object.entries(ErrorNumber).map(([name, number]) => [number as number, name as keyof typeof ErrorNumber]),
);

export function fromWireError(wire: ValueOf<typeof wireError>): LibvirtError {
  const code = namesByNumber.get(wire.code) ?? 'LIBVIRT_ERROR';
  const message = wire.message ?? `libvirt error ${wire.code} without a message`;
  const { domainCode, level, int1 } = wire;
  return new LibvirtError(code, message, { libvirtCode: wire.code, domainCode, level, int1 });
}

const clientNumbers: Readonly<Record<ClientErrorCode, number>> = {
  CONNECT_FAILED: ErrorNumber.SYSTEM_ERROR,
  AUTH_REFUSED: ErrorNumber.AUTH_FAILED,
  CONNECTION_LOST: ErrorNumber.INTERNAL_ERROR,
  CALL_TIMEOUT: ErrorNumber.OPERATION_TIMEOUT,
  CALL_ABORTED: ErrorNumber.OPERATION_ABORTED,
  PROTOCOL_VIOLATION: ErrorNumber.RPC,
  INVALID_ARGUMENT: ErrorNumber.INVALID_ARG,
  TOO_MANY_CALLS: ErrorNumber.RESOURCE_BUSY,
  STREAM_TOO_LONG: ErrorNumber.INVALID_STREAM,
};

/** An error of this side. */
export function clientError(code: ClientErrorCode, message: string, cause?: unknown): LibvirtError {
  const fields = { libvirtCode: clientNumbers[code], domainCode: ErrorOrigin.RPC };
  return new LibvirtError(code, message, fields, cause === undefined ? undefined : { cause });
}
