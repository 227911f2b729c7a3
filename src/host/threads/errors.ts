import { CodedError } from '../../base/index.ts';

export type ThreadErrorCode =
  /** It ended, or could not be started: the next call starts another one. */
  | 'THREAD_ENDED'
  /** It did not answer in time: what it is at may still happen, and its answer is thrown away. */
  | 'THREAD_LATE'
  /** Not begun, since earlier calls of this owner, or of too many others, are still held by the kernel. */
  | 'THREADS_HELD';

export class ThreadError extends CodedError<ThreadErrorCode> {}
