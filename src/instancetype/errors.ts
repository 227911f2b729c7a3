import { CodedError } from '../base/index.ts';

export type InstancetypeErrorCode =
  /** The VM says itself what its instance type says. */
  | 'CONFLICT'
  /** The preference asks for more than the VM gets. */
  | 'REQUIREMENT'
  /** Something is no instance type, preference or template. */
  | 'MALFORMED';

/** Why no machine can be made of a VM and what it refers to, in words for its user. */
export class InstancetypeError extends CodedError<InstancetypeErrorCode> {}
