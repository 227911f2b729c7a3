import { CodedError } from '../base/index.ts';

/**
 * `BROKEN`: what came is no gRPC, or no message of these calls; `CLOSED`: the connection is on its way out, and nothing
 * was asked; `CUT`: the stream ended before the answer did; `REFUSED`: the other side says why.
 */
export class TunnelError extends CodedError<'BROKEN' | 'CLOSED' | 'CUT' | 'REFUSED'> {}
