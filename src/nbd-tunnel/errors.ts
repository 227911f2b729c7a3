import { CodedError } from '../base/index.ts';

/** `BROKEN`: what came is no gRPC, or no message of these calls; `CUT`: the stream ended before the answer did; `REFUSED`: the other side says why. */
export class TunnelError extends CodedError<'BROKEN' | 'CUT' | 'REFUSED'> {}
