import { CodedError } from '../../../../base/index.ts';

export type HostWorkErrorCode =
  /** Not the text of a checkpoint, or of another UID. */
  | 'CHECKPOINT_INVALID'
  /** Written by a newer agent, to which it is left. */
  | 'CHECKPOINT_NEWER'
  | 'CHECKPOINT_TOO_LARGE'
  /** The disk did not give it: what is in it is not known. */
  | 'CHECKPOINT_UNREADABLE'
  | 'CHECKPOINT_NOT_SAVED'
  /** By another agent of this node, since it was read. */
  | 'CHECKPOINT_CHANGED'
  | 'CHECKPOINT_NOT_REMOVED'
  /** A state or facts that this build cannot read, or of a hook that it does not have. */
  | 'STATE_UNREADABLE'
  | 'HOOK_TIMEOUT'
  /** It was given up and has not ended yet. */
  | 'HOOK_BUSY';

export class HostWorkError extends CodedError<HostWorkErrorCode> {}
