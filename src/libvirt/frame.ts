import { clientError } from './error.ts';

/** Packet types (docs/kbase/internals/rpc.rst of libvirt). Types with file descriptors (4, 5) cannot be received by Node.js and are never asked for. */
export const PacketType = { CALL: 0, REPLY: 1, MESSAGE: 2, STREAM: 3, STREAM_HOLE: 6 } as const;
export const PacketStatus = { OK: 0, ERROR: 1, CONTINUE: 2 } as const;

export const headerBytes = 28;
/** VIR_NET_MESSAGE_MAX and its length word. */
export const maxPacketBytes = 4 + 33_554_432;

export interface Packet {
  readonly program: number;
  readonly version: number;
  readonly procedure: number;
  readonly type: number;
  readonly serial: number;
  readonly status: number;
  readonly payload: Buffer;
}

export function encodePacket(packet: Packet): Buffer {
  const bytes = Buffer.allocUnsafe(headerBytes + packet.payload.length);
  bytes.writeUInt32BE(bytes.length, 0);
  bytes.writeUInt32BE(packet.program, 4);
  bytes.writeUInt32BE(packet.version, 8);
  bytes.writeInt32BE(packet.procedure, 12);
  bytes.writeUInt32BE(packet.type, 16);
  bytes.writeUInt32BE(packet.serial, 20);
  bytes.writeUInt32BE(packet.status, 24);
  packet.payload.copy(bytes, headerBytes);
  return bytes;
}

/** `bytes` is one whole packet. */
function decodePacket(bytes: Buffer): Packet {
  return {
    program: bytes.readUInt32BE(4),
    version: bytes.readUInt32BE(8),
    procedure: bytes.readInt32BE(12),
    type: bytes.readUInt32BE(16),
    serial: bytes.readUInt32BE(20),
    status: bytes.readUInt32BE(24),
    payload: bytes.subarray(headerBytes),
  };
}

/**
 * Cuts a byte stream into packets. Holds at most one unfinished packet, in a buffer that grows with the bytes that really
 * came: a lying length word allocates nothing.
 */
export class PacketSplitter {
  readonly #maxPacketBytes: number;
  #partial = Buffer.alloc(0);
  #partialBytes = 0;

  constructor(limit: number = maxPacketBytes) {
    this.#maxPacketBytes = limit;
  }

  /** Bytes reserved for the unfinished packet. */
  get reservedBytes(): number {
    return this.#partial.length;
  }

  /** Throws `PROTOCOL_VIOLATION` at a length below 28 or above the limit, after the packets before it. */
  *push(chunk: Buffer): Generator<Packet, void, void> {
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#partialBytes > 0) {
        rest = this.#fill(rest);
        const held = this.#partial.subarray(0, this.#partialBytes);
        if (this.#packetLength(held) !== held.length) continue;
        this.#reset();
        yield decodePacket(held);
      } else {
        const length = this.#packetLength(rest);
        if (length === undefined || rest.length < length) {
          this.#append(rest);
          return;
        }
        yield decodePacket(rest.subarray(0, length));
        rest = rest.subarray(length);
      }
    }
  }

  /** Moves bytes to the unfinished packet, as many as its length word or its body still needs; gives what is left. */
  #fill(chunk: Buffer): Buffer {
    const length = this.#packetLength(this.#partial.subarray(0, this.#partialBytes)) ?? 4;
    const missing = Math.min(length - this.#partialBytes, chunk.length);
    this.#append(chunk.subarray(0, missing));
    return chunk.subarray(missing);
  }

  #append(bytes: Buffer): void {
    const needed = this.#partialBytes + bytes.length;
    if (needed > this.#partial.length) {
      const grown = Buffer.alloc(Math.min(Math.max(needed, this.#partial.length * 2, 256), this.#maxPacketBytes));
      this.#partial.copy(grown, 0, 0, this.#partialBytes);
      this.#partial = grown;
    }
    bytes.copy(this.#partial, this.#partialBytes);
    this.#partialBytes = needed;
  }

  #reset(): void {
    this.#partial = Buffer.alloc(0);
    this.#partialBytes = 0;
  }

  /** Undefined until the length word is there. */
  #packetLength(bytes: Buffer): number | undefined {
    if (bytes.length < 4) return undefined;
    const length = bytes.readUInt32BE(0);
    if (length >= headerBytes && length <= this.#maxPacketBytes) return length;
    throw clientError(
      'PROTOCOL_VIOLATION',
      `packet length ${length} is not between ${headerBytes} and ${this.#maxPacketBytes}`,
    );
  }
}
