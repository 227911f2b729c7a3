import { Duplex } from 'node:stream';
import { SpdyError } from './errors.ts';
import type { Frame } from './frames.ts';
import {
  controlFrame,
  dataFrame,
  FrameReader,
  finFlag,
  frameTypes,
  numberAt,
  numbersFrame,
  rstStatus,
} from './frames.ts';
import { EmptyHeaderWriter, HeaderReader } from './header-block.ts';

/** Open ones of a session. */
const maxStreams = 256;
/** What one stream may have waiting before the whole session waits: SPDY's windows are not kept by Kubernetes' clients. */
const maxWaitingBytes = 1024 * 1024;
const protocolErrorOfGoAway = 1;

type Send = (frame: Buffer, done?: (error?: Error | null) => void) => void;

/** One stream, opened by the client; each side ends its half. */
export class SpdyStream extends Duplex {
  readonly id: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly #send: Send;
  #wake: () => void = () => undefined;
  #hasEnded = false;

  constructor(id: number, headers: ReadonlyMap<string, string>, send: Send) {
    super({ allowHalfOpen: true, readableHighWaterMark: maxWaitingBytes });
    this.id = id;
    this.headers = headers;
    this.#send = send;
    // A pipeline that begins and ends in it listens more than ten times for its end.
    this.setMaxListeners(20);
    // A client that goes away is no failure of this program.
    this.on('error', () => undefined);
    this.once('close', () => this.#wake());
  }

  /** Resolves when there is room for more. */
  async deliver(piece: Buffer): Promise<void> {
    if (this.destroyed || this.#hasEnded || this.push(piece)) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
  }

  /** The client says nothing more. */
  finishReading(): void {
    if (!this.destroyed && !this.#hasEnded) this.push(null);
    this.#hasEnded = true;
  }

  override _read(): void {
    this.#wake();
  }

  override _write(piece: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#send(dataFrame(this.id, piece), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#send(dataFrame(this.id, Buffer.alloc(0), true), done);
  }

  /** Ends both halves at once, as one that failed. */
  reset(): void {
    if (!this.destroyed) this.#send(numbersFrame(frameTypes.rstStream, this.id, rstStatus.cancel));
    this.destroy();
  }
}

/** The server's side of SPDY/3.1 as Kubernetes' clients speak it (moby/spdystream): they open streams, and nothing is pushed to them. */
export class SpdySession {
  readonly #transport: Duplex;
  readonly #onStream: (stream: SpdyStream) => void;
  readonly #streams = new Map<number, SpdyStream>();
  readonly #headers = new HeaderReader();
  readonly #replies = new EmptyHeaderWriter();
  #lastId = 0;

  constructor(transport: Duplex, onStream: (stream: SpdyStream) => void) {
    this.#transport = transport;
    this.#onStream = onStream;
  }

  /** Until the client has gone. Rejects with SpdyError for what is no SPDY. All streams have ended then. */
  async run(): Promise<void> {
    const reader = new FrameReader();
    try {
      for await (const bytes of this.#transport as AsyncIterable<Buffer>) {
        for (const frame of reader.read(bytes)) {
          await (frame.kind === 'data' ? this.#data(frame) : this.#control(frame));
        }
      }
    } catch (error) {
      if (!(error instanceof SpdyError)) return;
      this.#transport.end(numbersFrame(frameTypes.goAway, this.#lastId, protocolErrorOfGoAway));
      throw error;
    } finally {
      for (const stream of this.#streams.values()) stream.destroy();
      this.#headers.close();
      this.#transport.destroy();
    }
  }

  async #data({ streamId, flags, payload }: Extract<Frame, { kind: 'data' }>): Promise<void> {
    const stream = this.#streams.get(streamId);
    // Of one that has just been reset.
    if (!stream) return;
    if (payload.length > 0) await stream.deliver(payload);
    if (flags & finFlag) stream.finishReading();
  }

  async #control({ type, flags, payload }: Extract<Frame, { kind: 'control' }>): Promise<void> {
    switch (type) {
      case frameTypes.synStream:
        return this.#open(payload, flags);
      case frameTypes.rstStream:
        this.#streams.get(numberAt(payload, 0))?.destroy();
        return;
      case frameTypes.ping:
        this.#send(controlFrame(frameTypes.ping, payload.subarray(0, 4)));
        return;
      case frameTypes.headers:
        // They are a part of the stream of zlib.
        await this.#headers.read(payload.subarray(4));
        return;
      default:
        // Settings, windows and goodbyes change nothing here.
        return;
    }
  }

  async #open(payload: Buffer, flags: number): Promise<void> {
    const id = numberAt(payload, 0) & 0x7fffffff;
    const headers = await this.#headers.read(payload.subarray(10));
    if (id % 2 === 0 || id <= this.#lastId) throw new SpdyError('MALFORMED', `stream ${id} after ${this.#lastId}`);
    this.#lastId = id;
    if (this.#streams.size >= maxStreams) {
      this.#send(numbersFrame(frameTypes.rstStream, id, rstStatus.refusedStream));
      return;
    }
    const stream = new SpdyStream(id, headers, this.#send);
    this.#streams.set(id, stream);
    stream.once('close', () => this.#streams.delete(id));
    const idBytes = Buffer.alloc(4);
    idBytes.writeUInt32BE(id);
    this.#send(controlFrame(frameTypes.synReply, Buffer.concat([idBytes, this.#replies.block()])));
    if (flags & finFlag) stream.finishReading();
    this.#onStream(stream);
  }

  readonly #send: Send = (frame, done = () => undefined) => {
    // The callback comes when the bytes have gone: so whoever writes waits for a client that does not read.
    if (this.#transport.writable) this.#transport.write(frame, done);
    else done(new Error('the client has gone'));
  };
}
