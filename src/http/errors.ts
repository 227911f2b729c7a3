import { CodedError } from '../base/index.ts';

/** A server cannot listen; the message says what to do. Other failures of listening are the system's own errors. */
export class ListenError extends CodedError<'PORT_IN_USE' | 'PATH_TOO_LONG' | 'NO_SOCKET' | 'SOCKET_IN_USE'> {}
