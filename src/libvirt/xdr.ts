import { CodedError } from '../base/index.ts';

export type XdrErrorCode =
  /** The bytes end before the value does. */
  | 'XDR_TRUNCATED'
  /** A length or count is above what the protocol allows. */
  | 'XDR_TOO_LONG'
  /** A value that its type cannot have (an optional flag of 7, an unknown union arm). */
  | 'XDR_INVALID'
  /** Bytes are left after the value. */
  | 'XDR_TRAILING'
  /** Encoding only: the caller's value does not fit the wire type. */
  | 'XDR_OUT_OF_RANGE';

/** Malformed bytes, or a value that cannot be put on the wire (RFC 4506 as libvirt uses it). */
export class XdrError extends CodedError<XdrErrorCode> {}

const padding = (length: number) => (4 - (length % 4)) % 4;

/** Appends XDR values to one growing buffer. All integers are big-endian. */
export class XdrWriter {
  #buffer = Buffer.alloc(256);
  #length = 0;

  int(value: number): void {
    inRange(value, -0x80000000, 0x7fffffff, 'int');
    const offset = this.#take(4);
    this.#buffer.writeInt32BE(value, offset);
  }

  uint(value: number): void {
    inRange(value, 0, 0xffffffff, 'unsigned int');
    const offset = this.#take(4);
    this.#buffer.writeUInt32BE(value, offset);
  }

  hyper(value: bigint): void {
    if (BigInt.asIntN(64, value) !== value) throw outOfRange(value, 'hyper');
    const offset = this.#take(8);
    this.#buffer.writeBigInt64BE(value, offset);
  }

  uhyper(value: bigint): void {
    if (BigInt.asUintN(64, value) !== value) throw outOfRange(value, 'unsigned hyper');
    const offset = this.#take(8);
    this.#buffer.writeBigUInt64BE(value, offset);
  }

  double(value: number): void {
    const offset = this.#take(8);
    this.#buffer.writeDoubleBE(value, offset);
  }

  /** Bytes and zero padding, without a length. */
  raw(bytes: Uint8Array): void {
    const offset = this.#take(bytes.length + padding(bytes.length));
    this.#buffer.set(bytes, offset);
  }

  /** Length, bytes, padding. */
  opaque(bytes: Uint8Array, maxBytes: number): void {
    if (bytes.length > maxBytes) throw outOfRange(`${bytes.length} bytes`, `at most ${maxBytes} bytes`);
    this.uint(bytes.length);
    this.raw(bytes);
  }

  /** UTF-8. libvirt's strings end at a NUL, so a NUL inside would silently cut them: refused. */
  string(text: string, maxBytes: number): void {
    if (text.includes('\0')) throw outOfRange('text with a NUL byte', 'string');
    this.opaque(Buffer.from(text, 'utf8'), maxBytes);
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Room for `size` zero bytes; gives their offset. It may replace the buffer: take first, then write. */
  #take(size: number): number {
    const offset = this.#length;
    this.#length += size;
    if (this.#length > this.#buffer.length) {
      const grown = Buffer.alloc(Math.max(this.#length, this.#buffer.length * 2));
      this.#buffer.copy(grown, 0, 0, offset);
      this.#buffer = grown;
    }
    return offset;
  }
}

/** Reads XDR values from a packet's payload. Never reads or allocates past the bytes that are really there. */
export class XdrReader {
  readonly #buffer: Buffer;
  #offset = 0;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  get remaining(): number {
    return this.#buffer.length - this.#offset;
  }

  int(): number {
    return this.#buffer.readInt32BE(this.#take(4));
  }

  uint(): number {
    return this.#buffer.readUInt32BE(this.#take(4));
  }

  hyper(): bigint {
    return this.#buffer.readBigInt64BE(this.#take(8));
  }

  uhyper(): bigint {
    return this.#buffer.readBigUInt64BE(this.#take(8));
  }

  double(): number {
    return this.#buffer.readDoubleBE(this.#take(8));
  }

  /** A view of `length` bytes; their padding is skipped, whatever it holds (as C decoders do). */
  raw(length: number): Buffer {
    const offset = this.#take(length + padding(length));
    return this.#buffer.subarray(offset, offset + length);
  }

  opaque(maxBytes: number): Buffer {
    return this.raw(this.count(maxBytes));
  }

  /** Bytes that are not UTF-8 (guest-made text) become U+FFFD. */
  string(maxBytes: number): string {
    return this.opaque(maxBytes).toString('utf8');
  }

  /** A length or count word, bounded by the protocol. */
  count(max: number): number {
    const count = this.uint();
    if (count > max) throw new XdrError('XDR_TOO_LONG', `count ${count} is above the limit of ${max}`);
    return count;
  }

  /** Every reply and event of the protocol is read to its last byte. */
  end(): void {
    if (this.remaining > 0) throw new XdrError('XDR_TRAILING', `${this.remaining} bytes are left after the value`);
  }

  #take(size: number): number {
    if (size > this.remaining) {
      throw new XdrError('XDR_TRUNCATED', `${size} bytes wanted at offset ${this.#offset}, ${this.remaining} left`);
    }
    const offset = this.#offset;
    this.#offset += size;
    return offset;
  }
}

function inRange(value: number, min: number, max: number, type: string): void {
  if (!Number.isInteger(value) || value < min || value > max) throw outOfRange(value, type);
}

function outOfRange(value: unknown, type: string): XdrError {
  return new XdrError('XDR_OUT_OF_RANGE', `${String(value)} does not fit ${type}`);
}
