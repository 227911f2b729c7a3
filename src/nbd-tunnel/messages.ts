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

/** As protobuf numbers them: `field << 3 | type`, with 0 for numbers and 2 for what has a length. */
const number = (field: number) => field << 3;
const bytes = (field: number) => (field << 3) | 2;

const mapRequest: Codec<MapRequest> = {
  encode: ({ exportName, bitmapName, offset, length }) => {
    const writer = new BinaryWriter();
    text(writer, 1, exportName);
    text(writer, 2, bitmapName);
    numbers(writer, { 3: offset, 4: length });
    return writer.finish();
  },
  decode: (message) => {
    const found = { exportName: '', bitmapName: '', offset: 0, length: 0 };
    readFields(message, {
      [bytes(1)]: (reader) => {
        found.exportName = reader.string();
      },
      [bytes(2)]: (reader) => {
        found.bitmapName = reader.string();
      },
      [number(3)]: (reader) => {
        found.offset = safe(reader);
      },
      [number(4)]: (reader) => {
        found.length = safe(reader);
      },
    });
    return found;
  },
};

const extent: Codec<Extent> = {
  encode: ({ offset, length, flags, description }) => {
    const writer = new BinaryWriter();
    numbers(writer, { 1: offset, 2: length, 3: flags });
    text(writer, 4, description);
    return writer.finish();
  },
  decode: (message) => {
    const found = { offset: 0, length: 0, flags: 0, description: '' };
    readFields(message, {
      [number(1)]: (reader) => {
        found.offset = safe(reader);
      },
      [number(2)]: (reader) => {
        found.length = safe(reader);
      },
      [number(3)]: (reader) => {
        found.flags = safe(reader);
      },
      [bytes(4)]: (reader) => {
        found.description = reader.string();
      },
    });
    return found;
  },
};

const mapAnswer: Codec<MapAnswer> = {
  encode: ({ extents, nextOffset }) => {
    const writer = new BinaryWriter();
    for (const each of extents) writer.uint32(bytes(1)).bytes(extent.encode(each));
    numbers(writer, { 2: nextOffset });
    return writer.finish();
  },
  decode: (message) => {
    const extents: Extent[] = [];
    let nextOffset = 0;
    readFields(message, {
      [bytes(1)]: (reader) => void extents.push(extent.decode(reader.bytes())),
      [number(2)]: (reader) => {
        nextOffset = safe(reader);
      },
    });
    return { extents, nextOffset };
  },
};

const readRequest: Codec<ReadRequest> = {
  encode: ({ exportName, offset, length }) => {
    const writer = new BinaryWriter();
    text(writer, 1, exportName);
    numbers(writer, { 2: offset, 3: length });
    return writer.finish();
  },
  decode: (message) => {
    const found = { exportName: '', offset: 0, length: 0 };
    readFields(message, {
      [bytes(1)]: (reader) => {
        found.exportName = reader.string();
      },
      [number(2)]: (reader) => {
        found.offset = safe(reader);
      },
      [number(3)]: (reader) => {
        found.length = safe(reader);
      },
    });
    return found;
  },
};

const dataChunk: Codec<DataChunk> = {
  encode: ({ offset, data }) => {
    const writer = new BinaryWriter();
    numbers(writer, { 1: offset });
    if (data.length > 0) writer.uint32(bytes(2)).bytes(data);
    return writer.finish();
  },
  decode: (message) => {
    const found = { offset: 0, data: new Uint8Array() as Uint8Array };
    readFields(message, {
      [number(1)]: (reader) => {
        found.offset = safe(reader);
      },
      [bytes(2)]: (reader) => {
        found.data = reader.bytes();
      },
    });
    return found;
  },
};

export const mapCall: StreamingCall<MapRequest, MapAnswer> = {
  path: '/kubevirt.nbd.NBD/Map',
  request: mapRequest,
  answer: mapAnswer,
};
export const readCall: StreamingCall<ReadRequest, DataChunk> = {
  path: '/kubevirt.nbd.NBD/Read',
  request: readRequest,
  answer: dataChunk,
};

/** What is empty, or 0, is not written. */
function text(writer: BinaryWriter, field: number, value: string): void {
  if (value !== '') writer.uint32(bytes(field)).string(value);
}

function numbers(writer: BinaryWriter, values: Readonly<Record<number, number>>): void {
  for (const [field, value] of Object.entries(values))
    if (value !== 0) writer.uint32(number(Number(field))).uint64(value);
}

type Fields = Readonly<Record<number, (reader: BinaryReader) => void>>;

function readFields(message: Uint8Array, fields: Fields): void {
  const reader = new BinaryReader(message);
  try {
    while (reader.pos < reader.len) {
      const tag = reader.uint32();
      const read = fields[tag];
      if (read) read(reader);
      else reader.skip(tag & 7, tag >>> 3);
    }
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
