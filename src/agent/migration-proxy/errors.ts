import { CodedError } from '../../base/index.ts';

export const migrationProxyErrorCodes = [
  /** This node cannot serve migrations now; the message says what is missing. */
  'UNAVAILABLE',
  /** An address, port, UID or name that may not be written into a configuration. */
  'BAD_REQUEST',
  'LAUNCHER_GONE',
  /** Something in the pod is in the way of a socket. */
  'SOCKET_BLOCKED',
  /** The program ended, or did not begin to serve. */
  'START_FAILED',
  /** The program runs and does not answer, or the relay does not. */
  'NO_ANSWER',
  /** The program answers something else than was asked. */
  'UNREADABLE',
] as const;
export type MigrationProxyErrorCode = (typeof migrationProxyErrorCodes)[number];

export class MigrationProxyError extends CodedError<MigrationProxyErrorCode> {}
