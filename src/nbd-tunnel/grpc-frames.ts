import { TunnelError } from './errors.ts';

/** gRPC's own limit unless told otherwise. */
const longestMessage = 4 * 1024 * 1024;
/** Compressed or not, and the length. */
const headBytes = 5;

/** A message as gRPC has it in the body. */
export function frameOf(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(headBytes + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, headBytes);
  return frame;
}

/** Messages out of a body that comes in pieces. */
export class FrameReader {
  #rest: Buffer[] = [];
  #bytes = 0;

  /** Those that are whole by now. Throws TunnelError BROKEN. */
  *push(piece: Buffer): Generator<Uint8Array> {
    this.#rest.push(piece);
    this.#bytes += piece.length;
    while (this.#bytes >= headBytes) {
      const head = this.#joined(headBytes);
      const length = head.readUInt32BE(1);
      if (head[0] !== 0) throw new TunnelError('BROKEN', 'a message is compressed, which was not asked for');
      if (length > longestMessage) throw new TunnelError('BROKEN', `a message has ${length} bytes`);
      if (this.#bytes < headBytes + length) return;
      const whole = this.#joined(headBytes + length);
      this.#rest = [whole.subarray(headBytes + length)];
      this.#bytes -= headBytes + length;
      yield whole.subarray(headBytes, headBytes + length);
    }
  }

  /** Half a message is left. */
  get isTorn(): boolean {
    return this.#bytes > 0;
  }

  /** The first piece has so many bytes then. */
  #joined(bytes: number): Buffer {
    const [first] = this.#rest;
    if (first && first.length >= bytes) return first;
    const joined = Buffer.concat(this.#rest);
    this.#rest = [joined];
    return joined;
  }
}

/** As gRPC writes messages in a header. */
export function headerText(text: string): string {
  const bytes = [...Buffer.from(text).subarray(0, 1_000)];
  return bytes.map((byte) => (isPlain(byte) ? String.fromCharCode(byte) : percent(byte))).join('');
}

const isPlain = (byte: number) => byte >= 0x20 && byte < 0x7f && byte !== 0x25;
const percent = (byte: number) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;

/** Never throws: what is no such text is shown as it is. */
export function textOfHeader(header: unknown): string {
  const text = typeof header === 'string' ? header : '';
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
