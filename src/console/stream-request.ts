import type { Socket } from 'node:net';
import { CodedError } from '../base/index.ts';
import type { ConsolePast } from './past.ts';

/** What is behind a stream: the device of the guest. */
export type StreamKind = 'console' | 'vnc' | 'usbredir';

/**
 * What a newcomer does with the session that is there. `take`: becomes the writer, and the session that was it is notified (upstream's only
 * behaviour, the default); `take-if-free`: is refused while there is a writer (upstream's `preserveSession`); `view`: reads
 * only, beside any number of others; `view-only`: the same, and can never become the writer. USB redirection knows no sharing and looks at none of it.
 */
export type Access = 'take' | 'take-if-free' | 'view' | 'view-only';

/** Begins as a reader. */
export function isView(access: Access): boolean {
  return access === 'view' || access === 'view-only';
}

/** Where a client that was cut off wants to go on. `line`: the id of the broadcast that it was notified of. */
export interface ResumePoint {
  readonly line: string;
  readonly from: number;
}

/** One wish for a stream, before its handshake. */
export interface StreamRequest {
  readonly kind: StreamKind;
  /** Of the VMI: sessions are shared by it, so that a later VMI of the same name has its own. */
  readonly uid: string;
  /** `namespace/name`, for logs and messages. */
  readonly shown: string;
  readonly access: Access;
  /**
   * Query `line` and `from`: goes on behind this many bytes of this broadcast, if it is still the one; else with all that is
   * remembered. For consoles of `session.virt-handler.io` only.
   */
  readonly resume?: ResumePoint;
  /**
   * Connects to the guest's device; not called while a console's broadcast is open. Rejects with StreamRefusal, or another
   * error whose message is for the client; the caller closes the socket.
   */
  readonly open: (signal: AbortSignal) => Promise<Socket>;
  /** Of a console: what the guest has written so far, as the log of its serial port has it. Undefined: there is no log. */
  readonly past?: () => Promise<ConsolePast | undefined>;
}

/** The plain answer to a client whose stream cannot be opened; the message is its body and may be empty. */
export class StreamRefusal extends CodedError<'NO_STREAM' | 'BUSY' | 'FAILED'> {
  readonly httpStatus: 400 | 404 | 500 | 503;

  constructor(
    code: StreamRefusal['code'],
    httpStatus: StreamRefusal['httpStatus'],
    message: string,
    options?: ErrorOptions,
  ) {
    super(code, message, options);
    this.httpStatus = httpStatus;
  }
}
