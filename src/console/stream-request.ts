import type { Socket } from 'node:net';

/** What is behind a stream (spec 30 §4.1). */
export type StreamKind = 'console' | 'vnc' | 'usbredir';

/**
 * What a newcomer does with the session that is there. `take`: becomes the writer, whoever was it is told (upstream's only
 * behaviour, the default); `take-if-free`: is refused while there is a writer (upstream's `preserveSession`); `view`: reads
 * only, beside any number of others.
 */
export type Access = 'take' | 'take-if-free' | 'view';

/** One wish for a stream, before its handshake. */
export interface StreamRequest {
  readonly kind: StreamKind;
  /** Of the VMI: sessions are shared by it, so that a later VMI of the same name has its own. */
  readonly uid: string;
  /** `namespace/name`, for logs and messages. */
  readonly shown: string;
  readonly access: Access;
  /** Connects to the guest's device. Rejects with an error whose message is for the client. */
  readonly open: (signal: AbortSignal) => Promise<Socket>;
}
