import { CodedError } from '../base/index.ts';

/** A certificate cannot be made; the message says what to do. */
export class CertificateError extends CodedError<'BAD_NAME' | 'BAD_AUTHORITY' | 'NOT_VERIFIED'> {}
