import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire';
import { TunnelError } from './errors.ts';

/** What is worth reading of a disk. `length` 0: to its end. */
export interface MapRequest {
  readonly exportName: string;
  /** What has changed since a checkpoint; empty: what is there at all. */
  readonly bitmapName: string;
  readonly offset: number;
  readonly length: number;
}

export interface Extent {
  readonly offset: number;
  readonly length: number;
  readonly flags: number;
  readonly description: string;
}

export interface MapAnswer {
  readonly extents: readonly Extent[];
  readonly nextOffset: number;
}

/** `length` 0: to the end of the disk. */
export interface ReadRequest {
  readonly exportName: string;
  readonly offset: number;
  readonly length: number;
}

export interface DataChunk {
  readonly offset: number;
  readonly data: Uint8Array;
}

interface Codec<T> {
  encode(message: T): Uint8Array;
  /** Throws TunnelError BROKEN. */
  decode(bytes: Uint8Array): T;
}

/** A call that is asked once and answered many times. */
export interface StreamingCall<Request, Answer> {
  readonly path: string;
  readonly request: Codec<Request>;
  readonly answer: Codec<Answer>;
}

/** What a field holds. The wire type is protobuf's: 0 for numbers, 2 for what has a length. */
interface Kind<Value> {
  readonly wire: 0 | 2;
  /** Of a field that is not there. */
  none(): Value;
  /** What is empty, or 0, is not written. */
  write(writer: BinaryWriter, tag: number, value: Value): void;
  /** With what was read of it before: a field may come again. */
  read(reader: BinaryReader, before: Value): Value;
}

const text: Kind<string> = {
  wire: 2,
  none: () => '',
  write: (writer, tag, value) => void (value !== '' && writer.uint32(tag).string(value)),
  read: (reader) => reader.string(),
};
const number: Kind<number> = {
  wire: 0,
  none: () => 0,
  write: (writer, tag, value) => void (value !== 0 && writer.uint32(tag).uint64(value)),
  read: safe,
};
const data: Kind<Uint8Array> = {
  wire: 2,
  none: () => new Uint8Array(),
  write: (writer, tag, value) => void (value.length > 0 && writer.uint32(tag).bytes(value)),
  read: (reader) => reader.bytes(),
};
const many = <T>(codec: Codec<T>): Kind<readonly T[]> => ({
  wire: 2,
  none: () => [],
  write: (writer, tag, values) => {
    for (const value of values) writer.uint32(tag).bytes(codec.encode(value));
  },
  read: (reader, before) => {
    // It was made by `none` for this message alone; a copy for each would cost the square of a long answer.
    (before as T[]).push(codec.decode(reader.bytes()));
    return before;
  },
});

/** Numbers of the fields, ascending, and what is in them. */
type Fields<T> = { readonly [Name in keyof T]: readonly [field: number, kind: Kind<T[Name]>] };

function codecOf<T extends object>(fields: Fields<T>): Codec<T> {
  const names = Object.keys(fields) as (keyof T)[];
  const tagOf = (name: keyof T) => (fields[name][0] << 3) | fields[name][1].wire;
  const byTag = new Map(names.map((name) => [tagOf(name), name]));
  return {
    encode: (message) => {
      const writer = new BinaryWriter();
      for (const name of names) fields[name][1].write(writer, tagOf(name), message[name]);
      return writer.finish();
    },
    decode: (message) => {
      const found = Object.fromEntries(names.map((name) => [name, fields[name][1].none()])) as T;
      readFields(message, (reader, tag) => {
        const name = byTag.get(tag);
        if (name === undefined) reader.skip(tag & 7, tag >>> 3);
        else found[name] = fields[name][1].read(reader, found[name]);
      });
      return found;
    },
  };
}

const extent = codecOf<Extent>({
  offset: [1, number],
  length: [2, number],
  flags: [3, number],
  description: [4, text],
});

export const mapCall: StreamingCall<MapRequest, MapAnswer> = {
  path: '/kubevirt.nbd.NBD/Map',
  request: codecOf({ exportName: [1, text], bitmapName: [2, text], offset: [3, number], length: [4, number] }),
  answer: codecOf({ extents: [1, many(extent)], nextOffset: [2, number] }),
};
export const readCall: StreamingCall<ReadRequest, DataChunk> = {
  path: '/kubevirt.nbd.NBD/Read',
  request: codecOf({ exportName: [1, text], offset: [2, number], length: [3, number] }),
  answer: codecOf({ offset: [1, number], data: [2, data] }),
};

function readFields(message: Uint8Array, read: (reader: BinaryReader, tag: number) => void): void {
  const reader = new BinaryReader(message);
  try {
    while (reader.pos < reader.len) read(reader, reader.uint32());
  } catch (cause) {
    if (cause instanceof TunnelError) throw cause;
    throw new TunnelError('BROKEN', 'a message is no protobuf of these calls', { cause });
  }
}

/** Disks are smaller than what a number holds. */
function safe(reader: BinaryReader): number {
  const value = Number(reader.uint64());
  if (Number.isSafeInteger(value)) return value;
  throw new TunnelError('BROKEN', `${value} is no place in a disk`);
}
