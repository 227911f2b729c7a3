import { CodedError } from '../../../base/index.ts';

export type LibvirtFileErrorCode =
  | 'MISSING'
  /** It cannot be read, or it is no plain file. */
  | 'UNREADABLE'
  | 'TOO_LARGE'
  /** Not well-formed: torn while it is being written, or no XML. */
  | 'NO_XML'
  /** Another document than the one that belongs in this file. */
  | 'WRONG_DOCUMENT'
  /** More names than any hypervisor has. */
  | 'TOO_MANY_NAMES';

/** One of libvirt's capability files cannot be used; the message says what is wrong with it. */
export class LibvirtFileError extends CodedError<LibvirtFileErrorCode> {}
