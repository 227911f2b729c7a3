import { CodedError } from '../../base/index.ts';

export type MountErrorCode =
  /** This process may not enter the namespace, or not mount in it. */
  | 'NO_RIGHTS'
  /** Linux before 5.12. */
  | 'KERNEL_TOO_OLD'
  /** The process whose namespace it is has ended. */
  | 'NAMESPACE_GONE'
  /** What was opened belongs to another mount namespace, or was unmounted meanwhile. */
  | 'NOT_IN_NAMESPACE'
  | 'NOT_MOUNTED'
  /** A directory onto a file, or the other way round. */
  | 'OTHER_KIND'
  /** Any other refusal of the kernel. */
  | 'REFUSED'
  /** The thread that mounts ended, did not answer in time or could not be started: the next call starts another one. */
  | 'THREAD_ENDED'
  /** Not tried: earlier calls are still held by storage that does not answer. */
  | 'THREADS_HELD';

export class MountError extends CodedError<MountErrorCode> {}
