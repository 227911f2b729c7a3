import { SpdyError } from './errors.ts';

/** Kinds of control frames: SPDY Protocol, Draft 3.1, section 2.6. */
export const frameTypes = {
  synStream: 1,
  synReply: 2,
  rstStream: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  headers: 8,
  windowUpdate: 9,
} as const;

export const finFlag = 0x01;
/** Of RST_STREAM. */
export const rstStatus = { protocolError: 1, refusedStream: 3, cancel: 5 } as const;

/** A frame as it was read; `payload` is what follows its eight bytes. */
export type Frame =
  | { readonly kind: 'control'; readonly type: number; readonly flags: number; readonly payload: Buffer }
  | { readonly kind: 'data'; readonly streamId: number; readonly flags: number; readonly payload: Buffer };

const headBytes = 8;
const version = 3;
const maxControlBytes = 64 * 1024;
const maxDataBytes = 1024 * 1024;

export function dataFrame(streamId: number, payload: Buffer, isLast = false): Buffer {
  return Buffer.concat([head(streamId & 0x7fffffff, isLast ? finFlag : 0, payload.length), payload]);
}

export function controlFrame(type: number, payload: Buffer, flags = 0): Buffer {
  return Buffer.concat([head(((0x8000 | version) << 16) | type, flags, payload.length), payload]);
}

/** A control frame of numbers of 32 bits. */
export function numbersFrame(type: number, ...numbers: readonly number[]): Buffer {
  const payload = Buffer.alloc(numbers.length * 4);
  numbers.forEach((number, at) => {
    payload.writeUInt32BE(number >>> 0, at * 4);
  });
  return controlFrame(type, payload);
}

function head(first: number, flags: number, length: number): Buffer {
  const bytes = Buffer.alloc(headBytes);
  bytes.writeUInt32BE(first >>> 0);
  bytes.writeUInt32BE(((flags << 24) | length) >>> 0, 4);
  return bytes;
}

/** Cuts bytes into frames. Throws SpdyError. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0);

  /** The frames that are whole with these bytes. */
  *read(bytes: Buffer): Generator<Frame, void> {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    for (;;) {
      if (this.#rest.length < headBytes) return;
      const [first, second] = [this.#rest.readUInt32BE(0), this.#rest.readUInt32BE(4)];
      const [flags, length] = [second >>> 24, second & 0xffffff];
      const isControl = first >>> 31 === 1;
      if (isControl && ((first >>> 16) & 0x7fff) !== version) throw new SpdyError('MALFORMED', 'no frame of SPDY/3');
      if (length > (isControl ? maxControlBytes : maxDataBytes)) {
        throw new SpdyError('TOO_LARGE', `a frame of ${length} bytes`);
      }
      if (this.#rest.length < headBytes + length) return;
      const payload = this.#rest.subarray(headBytes, headBytes + length);
      this.#rest = this.#rest.subarray(headBytes + length);
      yield isControl
        ? { kind: 'control', type: first & 0xffff, flags, payload }
        : { kind: 'data', streamId: first & 0x7fffffff, flags, payload };
    }
  }
}

/** A number of 32 bits in a payload. Throws SpdyError. */
export function numberAt(payload: Buffer, offset: number): number {
  if (payload.length < offset + 4) throw new SpdyError('MALFORMED', 'a frame is too short');
  return payload.readUInt32BE(offset);
}
