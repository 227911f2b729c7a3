import { CodedError } from '../../base/index.ts';

/** The VMI asks for what no launcher pod can be made of. The message goes into a condition and an event. */
export class PodRenderError extends CodedError<
  | 'RESERVED_NAME'
  | 'UNSUPPORTED'
  | 'BAD_QUANTITY'
  | 'BAD_LABEL'
  | 'BAD_PROBE'
  | 'CLAIM_MISSING'
  | 'BAD_SIDECAR'
  | 'NOT_PERMITTED'
  | 'NO_SELINUX_CONTEXT'
  | 'BAD_NETWORK'
  | 'NO_HOST_MODEL'
> {}
