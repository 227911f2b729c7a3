import type { Clock } from '../base/index.ts';
import type { LibvirtCallOptions } from './calls/connection-calls.ts';
import { clientError, type LibvirtError } from './error.ts';
import type { RpcStream } from './stream.ts';

export interface CallRequest {
  readonly program: number;
  readonly procedure: number;
  readonly payload: Buffer;
  readonly opensStream?: boolean;
}

export interface CallReply {
  readonly payload: Buffer;
  /** Of a call that opens one. */
  readonly stream?: RpcStream;
}

/** A call that was sent and not answered. */
export interface PendingCall extends CallRequest {
  readonly serial: number;
  /** False when the caller has given up: the answer only frees the call's slot. */
  readonly wanted: boolean;
  resolve(reply: CallReply): void;
  reject(error: LibvirtError): void;
}

export interface CallQueueOptions {
  readonly callTimeoutMs: number;
  readonly maxInFlightCalls: number;
  readonly maxQueuedCalls: number;
}

export interface CallQueueDeps {
  readonly clock: Clock;
  readonly send: (call: PendingCall) => void;
  /** All slots are held by calls whose callers have given up: nothing can be sent any more. */
  readonly onStalled: () => void;
}

interface Settle {
  readonly resolve: (reply: CallReply) => void;
  readonly reject: (error: LibvirtError) => void;
}

class Call implements PendingCall {
  readonly program: number;
  readonly procedure: number;
  readonly payload: Buffer;
  readonly opensStream: boolean;
  serial = 0;
  #settled = false;
  readonly #settle: Settle;
  /** Removes the deadline and the signal's listener. */
  release: () => void = () => undefined;

  constructor(request: CallRequest, settle: Settle) {
    this.program = request.program;
    this.procedure = request.procedure;
    this.payload = request.payload;
    this.opensStream = request.opensStream ?? false;
    this.#settle = settle;
  }

  get wanted(): boolean {
    return !this.#settled;
  }

  resolve(reply: CallReply): void {
    this.#finish();
    this.#settle.resolve(reply);
  }

  reject(error: LibvirtError): void {
    this.#finish();
    this.#settle.reject(error);
  }

  #finish(): void {
    this.#settled = true;
    this.release();
  }
}

/**
 * Calls in the order in which they were made, a bounded number of them sent at a time, each with its deadline. A call
 * that was given up after it was sent keeps its slot until the daemon answers, because it keeps it there too.
 */
export class CallQueue {
  readonly #options: CallQueueOptions;
  readonly #deps: CallQueueDeps;
  readonly #waiting = new Set<Call>();
  readonly #sent = new Map<number, Call>();
  #lastSerial = 0;
  #ended: (() => LibvirtError) | undefined;

  constructor(options: CallQueueOptions, deps: CallQueueDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  add(
    request: CallRequest,
    { signal, timeoutMs = this.#options.callTimeoutMs }: LibvirtCallOptions,
  ): Promise<CallReply> {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended());
      if (signal?.aborted) return reject(aborted(signal));
      if (this.#waiting.size >= this.#options.maxQueuedCalls) {
        return reject(clientError('TOO_MANY_CALLS', `${this.#waiting.size} calls wait on one libvirt connection`));
      }
      const call = new Call(request, { resolve, reject });
      const cancelDeadline = this.#deps.clock.schedule(timeoutMs, () => {
        this.#giveUp(
          call,
          clientError('CALL_TIMEOUT', `libvirt did not answer procedure ${call.procedure} in ${timeoutMs} ms`),
        );
      });
      const onAbort = () => this.#giveUp(call, aborted(signal));
      signal?.addEventListener('abort', onAbort, { once: true });
      call.release = () => {
        cancelDeadline();
        signal?.removeEventListener('abort', onAbort);
      };
      this.#waiting.add(call);
      this.#pump();
    });
  }

  /** The call of this serial, when it was sent and not answered. */
  sent(serial: number): PendingCall | undefined {
    return this.#sent.get(serial);
  }

  /** The call that a reply answers; it leaves the queue. */
  take(serial: number): PendingCall | undefined {
    const call = this.#sent.get(serial);
    if (this.#sent.delete(serial)) this.#pump();
    return call;
  }

  /** Rejects everything, now and from now on. */
  end(error: () => LibvirtError): void {
    this.#ended = error;
    const calls = [...this.#sent.values(), ...this.#waiting];
    this.#sent.clear();
    this.#waiting.clear();
    for (const call of calls) if (call.wanted) call.reject(error());
  }

  #giveUp(call: Call, error: LibvirtError): void {
    const wasWaiting = this.#waiting.delete(call);
    call.reject(error);
    if (wasWaiting) return;
    const abandoned = [...this.#sent.values()].filter((each) => !each.wanted).length;
    if (abandoned >= this.#options.maxInFlightCalls) this.#deps.onStalled();
  }

  #pump(): void {
    for (const call of this.#waiting) {
      if (this.#sent.size >= this.#options.maxInFlightCalls) return;
      this.#waiting.delete(call);
      call.serial = this.#nextSerial();
      this.#sent.set(call.serial, call);
      this.#deps.send(call);
    }
  }

  #nextSerial(): number {
    do this.#lastSerial = this.#lastSerial >= 0xffffffff ? 1 : this.#lastSerial + 1;
    while (this.#sent.has(this.#lastSerial));
    return this.#lastSerial;
  }
}

function aborted(signal: AbortSignal | undefined): LibvirtError {
  return clientError('CALL_ABORTED', 'call to libvirt aborted by the caller', signal?.reason);
}
