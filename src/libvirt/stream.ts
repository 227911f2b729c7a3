import { deadline } from '../base/index.ts';
import { decodeWith } from './codec.ts';
import { clientError, fromWireError, type LibvirtError, wireError } from './error.ts';
import { PacketStatus } from './frame.ts';

/** What a stream needs from its connection. */
export interface StreamTransport {
  /** Sends one STREAM packet of this stream; resolves when the socket takes more. */
  send(status: number, payload: Buffer): Promise<void>;
  /** Stops and goes on reading the whole connection: streams have no flow control of their own (docs/kbase/internals/rpc.rst of libvirt). */
  holdReading(hold: boolean): void;
  /** The stream has ended: its serial means nothing any more. */
  release(): void;
}

/** VIR_NET_MESSAGE_LEGACY_PAYLOAD_MAX: the most bytes that every daemon takes in one stream packet. */
const maxStreamDataBytes = 262_120;

type StreamState =
  | { readonly kind: 'open' }
  /** The daemon has sent all; the client's finish is not answered yet. */
  | { readonly kind: 'drained' }
  | { readonly kind: 'ended'; readonly error?: LibvirtError };

/**
 * Bytes both ways over a call's serial. Reading: `for await (const chunk of stream)`; leaving the loop early aborts.
 * One reader at a time. After `highWaterBytes` of unread data the connection is no longer read.
 */
export class RpcStream implements AsyncIterable<Buffer> {
  readonly #transport: StreamTransport;
  readonly #highWaterBytes: number;
  #state: StreamState = { kind: 'open' };
  #chunks: Buffer[] = [];
  #bufferedBytes = 0;
  #holding = false;
  #wake: (() => void)[] = [];

  constructor(transport: StreamTransport, highWaterBytes: number) {
    this.#transport = transport;
    this.#highWaterBytes = highWaterBytes;
  }

  /** A STREAM packet for this serial came. */
  receive(status: number, payload: Buffer): void {
    if (status === PacketStatus.CONTINUE && payload.length > 0) this.#receiveData(payload);
    else if (status === PacketStatus.CONTINUE) this.#setState({ kind: 'drained' });
    else if (status === PacketStatus.OK) this.#end();
    else this.#end(streamError(payload));
  }

  /** The connection has ended. */
  fail(error: LibvirtError): void {
    this.#end(error);
  }

  /** Sends bytes to the guest's side; resolves when the socket takes more. */
  async write(data: Uint8Array): Promise<void> {
    for (let offset = 0; offset < data.length; offset += maxStreamDataBytes) {
      this.#throwIfEnded();
      await this.#transport.send(
        PacketStatus.CONTINUE,
        Buffer.from(data.subarray(offset, offset + maxStreamDataBytes)),
      );
    }
  }

  /** Says that nothing more is written and waits for the daemon's answer. */
  async finish(): Promise<void> {
    if (this.#hasEnded()) return;
    await this.#transport.send(PacketStatus.OK, Buffer.alloc(0));
    while (!this.#hasEnded()) await this.#changed();
    this.#throwIfEnded();
  }

  /** Gives the stream up at once; a reader gets `error`, or `CALL_ABORTED`. */
  abort(error: LibvirtError = clientError('CALL_ABORTED', 'stream aborted')): void {
    if (this.#state.kind === 'ended') return;
    this.#transport.send(PacketStatus.ERROR, Buffer.alloc(0)).catch(() => undefined);
    this.#end(error);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, void> {
    try {
      for (;;) {
        const chunk = this.#chunks.shift();
        if (chunk) {
          this.#bufferedBytes -= chunk.length;
          this.#updateHold();
          yield chunk;
        } else if (this.#state.kind === 'open') await this.#changed();
        else break;
      }
      await this.finish();
      this.#throwIfEnded();
    } finally {
      this.abort();
    }
  }

  #receiveData(payload: Buffer): void {
    if (this.#state.kind !== 'open') return;
    this.#chunks.push(payload);
    this.#bufferedBytes += payload.length;
    this.#updateHold();
    this.#notify();
  }

  #updateHold(): void {
    const hold = this.#state.kind === 'open' && this.#bufferedBytes >= this.#highWaterBytes;
    if (hold === this.#holding) return;
    this.#holding = hold;
    this.#transport.holdReading(hold);
  }

  #end(error?: LibvirtError): void {
    if (this.#state.kind === 'ended') return;
    this.#setState(error ? { kind: 'ended', error } : { kind: 'ended' });
    this.#transport.release();
  }

  #setState(state: StreamState): void {
    if (this.#state.kind === 'ended') return;
    this.#state = state;
    this.#updateHold();
    this.#notify();
  }

  #hasEnded(): boolean {
    return this.#state.kind === 'ended';
  }

  #throwIfEnded(): void {
    if (this.#state.kind === 'ended' && this.#state.error) throw this.#state.error;
  }

  #changed(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  #notify(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}

function streamError(payload: Buffer): LibvirtError {
  try {
    return fromWireError(decodeWith(wireError, payload));
  } catch (cause) {
    return clientError('PROTOCOL_VIOLATION', 'the daemon failed a stream with an unreadable error', cause);
  }
}

export interface CollectOptions {
  readonly maxBytes: number;
  /** Longest time for the whole stream. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** Reads a stream to its end. Throws `STREAM_TOO_LONG`, `CALL_TIMEOUT`, `CALL_ABORTED` or the daemon's error. */
export async function collectStream(stream: RpcStream, options: CollectOptions): Promise<Buffer> {
  const { maxBytes, timeoutMs, signal } = options;
  const ending = deadline(timeoutMs, signal);
  const onAbort = () =>
    stream.abort(
      signal?.aborted
        ? clientError('CALL_ABORTED', 'stream aborted by the caller', signal.reason)
        : clientError('CALL_TIMEOUT', `the stream did not end within ${timeoutMs} ms`),
    );
  ending.addEventListener('abort', onAbort, { once: true });
  if (ending.aborted) onAbort();
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxBytes) throw clientError('STREAM_TOO_LONG', `the stream is longer than ${maxBytes} bytes`);
    }
  } finally {
    ending.removeEventListener('abort', onAbort);
  }
  return Buffer.concat(chunks);
}
