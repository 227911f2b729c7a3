/** Numbers and layouts of the protocol; what is longer than a byte has its highest byte first. */

/** "NBDMAGIC" and "IHAVEOPT". */
export const greetingMagic = 0x4e42444d41474943n;
export const optionMagic = 0x49484156454f5054n;
export const optionReplyMagic = 0x0003e889045565a9n;
export const requestMagic = 0x25609513;
export const chunkMagic = 0x668e33ef;

/** Bit 0: options are negotiated; bit 1: no zeros for nothing. */
export const fixedNewstyle = 1;
export const noZeroes = 2;

export const options = { go: 7, structuredReply: 8, setMetaContext: 10 } as const;
export const optionReplies = { ack: 1, info: 3, metaContext: 4 } as const;
/** Replies from here on say why not. */
export const firstOptionError = 2 ** 31;
export const exportInfo = 0;

export const commands = { read: 0, disconnect: 2, blockStatus: 7 } as const;
export const chunkTypes = { none: 0, offsetData: 1, offsetHole: 2, blockStatus: 5 } as const;
/** Chunks from here on say why not. */
export const firstChunkError = 2 ** 15;
export const lastChunk = 1;

export const allocationContext = 'base:allocation';
export const dirtyBitmapContext = (bitmap: string) => `qemu:dirty-bitmap:${bitmap}`;
/** Of `base:allocation`: nothing is stored there; it reads as zeros. */
export const holeFlag = 1;
export const zeroFlag = 2;

/** Of a request for it. */
export function optionRequest(option: number, data: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(16);
  head.writeBigUInt64BE(optionMagic);
  head.writeUInt32BE(option, 8);
  head.writeUInt32BE(data.length, 12);
  return Buffer.concat([head, data]);
}

export interface OptionReply {
  readonly option: number;
  readonly type: number;
  readonly length: number;
}

export const optionReplyBytes = 20;

/** Undefined: it is none. */
export function readOptionReply(head: Buffer): OptionReply | undefined {
  if (head.readBigUInt64BE() !== optionReplyMagic) return undefined;
  return { option: head.readUInt32BE(8), type: head.readUInt32BE(12), length: head.readUInt32BE(16) };
}

function counted(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** Data of `setMetaContext`. */
export function contextsOf(exportName: string, contexts: readonly string[]): Buffer {
  const count = Buffer.alloc(4);
  count.writeUInt32BE(contexts.length);
  return Buffer.concat([counted(exportName), count, ...contexts.map(counted)]);
}

/** Data of `go`, which asks for no further facts. */
export function exportOf(exportName: string): Buffer {
  return Buffer.concat([counted(exportName), Buffer.alloc(2)]);
}

export interface Request {
  readonly command: number;
  readonly cookie: number;
  readonly offset: number;
  readonly length: number;
}

export function requestOf({ command, cookie, offset, length }: Request): Buffer {
  const request = Buffer.alloc(28);
  request.writeUInt32BE(requestMagic);
  request.writeUInt16BE(command, 6);
  request.writeBigUInt64BE(BigInt(cookie), 8);
  request.writeBigUInt64BE(BigInt(offset), 16);
  request.writeUInt32BE(length, 24);
  return request;
}

export interface ChunkHead {
  readonly isLast: boolean;
  readonly type: number;
  readonly cookie: bigint;
  readonly length: number;
}

export const chunkHeadBytes = 20;

/** Undefined: it is none. */
export function readChunkHead(head: Buffer): ChunkHead | undefined {
  if (head.readUInt32BE() !== chunkMagic) return undefined;
  return {
    isLast: (head.readUInt16BE(4) & lastChunk) !== 0,
    type: head.readUInt16BE(6),
    cookie: head.readBigUInt64BE(8),
    length: head.readUInt32BE(16),
  };
}
