import { CodedError } from '../base/index.ts';

export type DomainCacheErrorCode =
  /** The disk is full; the record is kept in memory and written as soon as there is room. */
  | 'NO_SPACE'
  /** Any other failure to write or remove a record; kept in memory and tried again, too. */
  | 'RECORD_NOT_SAVED'
  /** A record that cannot be: an empty field, a UID that is no file name. */
  | 'RECORD_INVALID'
  /** The notify pipe could not be made in the launcher's root. */
  | 'PIPE_FAILED'
  /** An event, or an answer, about another VMI than the one its channel belongs to. */
  | 'WRONG_IDENTITY'
  /** A Kubernetes event without a usable reason. */
  | 'EVENT_INVALID';

export class DomainCacheError extends CodedError<DomainCacheErrorCode> {}
