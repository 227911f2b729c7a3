import { CodedError } from '../base/index.ts';

/** Something of TLS that came from outside cannot be used; the message says why, without any of its secrets. */
export class TlsInputError extends CodedError<'NO_FILE' | 'UNREADABLE' | 'BAD_CERTIFICATE' | 'BAD_KEY' | 'MISMATCH'> {}
