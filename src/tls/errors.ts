import { CodedError } from '../base/index.ts';

/** Certificates cannot be made here; the message says what to do. */
export class CertificateError extends CodedError<'BAD_NAME' | 'BAD_AUTHORITY' | 'NOT_VERIFIED'> {}

/** Something of TLS that came from outside cannot be used; the message says why, without any of its secrets. */
export class TlsInputError extends CodedError<'NO_FILE' | 'UNREADABLE' | 'BAD_CERTIFICATE' | 'BAD_KEY' | 'MISMATCH'> {}
