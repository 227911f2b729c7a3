import { XdrError, XdrReader, XdrWriter } from './xdr.ts';

/** Both directions of one wire type. Methods, so that a `Codec<number>` is usable as a `Codec<unknown>`. */
export interface Codec<T> {
  encode(writer: XdrWriter, value: T): void;
  decode(reader: XdrReader): T;
}

export type ValueOf<C> = C extends Codec<infer T> ? T : never;

/** REMOTE_STRING_MAX of the protocol. */
const maxStringBytes = 4_194_304;

export const nothing: Codec<void> = { encode: () => undefined, decode: () => undefined };
export const int: Codec<number> = { encode: (w, v) => w.int(v), decode: (r) => r.int() };
export const uint: Codec<number> = { encode: (w, v) => w.uint(v), decode: (r) => r.uint() };
export const hyper: Codec<bigint> = { encode: (w, v) => w.hyper(v), decode: (r) => r.hyper() };
export const uhyper: Codec<bigint> = { encode: (w, v) => w.uhyper(v), decode: (r) => r.uhyper() };
export const double: Codec<number> = { encode: (w, v) => w.double(v), decode: (r) => r.double() };
/** C booleans: any value but 0 is true. */
export const bool: Codec<boolean> = { encode: (w, v) => w.int(v ? 1 : 0), decode: (r) => r.int() !== 0 };
export const string: Codec<string> = {
  encode: (w, v) => w.string(v, maxStringBytes),
  decode: (r) => r.string(maxStringBytes),
};

export function opaque(maxBytes: number): Codec<Uint8Array> {
  return { encode: (w, v) => w.opaque(v, maxBytes), decode: (r) => r.opaque(maxBytes) };
}

/** `*T`: a presence word of 0 or 1, then the value. */
export function optional<T>(codec: Codec<T>): Codec<T | undefined> {
  return {
    encode(writer, value) {
      writer.uint(value === undefined ? 0 : 1);
      if (value !== undefined) codec.encode(writer, value);
    },
    decode(reader) {
      const present = reader.uint();
      if (present > 1) throw new XdrError('XDR_INVALID', `presence word ${present} of an optional value`);
      return present === 1 ? codec.decode(reader) : undefined;
    },
  };
}

/** `T<max>`. The list grows as elements are really read: a lying count costs nothing. */
export function array<T>(codec: Codec<T>, max: number): Codec<readonly T[]> {
  return {
    encode(writer, values) {
      if (values.length > max) {
        throw new XdrError('XDR_OUT_OF_RANGE', `${values.length} elements, the protocol allows ${max}`);
      }
      writer.uint(values.length);
      for (const value of values) codec.encode(writer, value);
    },
    decode(reader) {
      const count = reader.count(max);
      const values: T[] = [];
      while (values.length < count) values.push(codec.decode(reader));
      return values;
    },
  };
}

type StructValue<Fields> = { readonly [K in keyof Fields]: ValueOf<Fields[K]> };

/** Fields in the order in which they are written down. */
export function struct<Fields extends Readonly<Record<string, Codec<unknown>>>>(
  fields: Fields,
): Codec<StructValue<Fields>> {
  const entries = Object.entries(fields);
  return {
    encode(writer, value) {
      const record: Readonly<Record<string, unknown>> = value;
      for (const [name, codec] of entries) codec.encode(writer, record[name]);
    },
    decode(reader) {
      const record = Object.fromEntries(entries.map(([name, codec]) => [name, codec.decode(reader)]));
      return record as StructValue<Fields>;
    },
  };
}

/** `char name[n]`: libvirt writes each char as a 4-byte word (docs/kbase/internals/rpc.rst of libvirt). Text up to the first zero. */
export function charArray(length: number): Codec<string> {
  return {
    encode(writer, value) {
      const bytes = Buffer.from(value, 'latin1');
      if (bytes.length > length) throw new XdrError('XDR_OUT_OF_RANGE', `text longer than char[${length}]`);
      for (let i = 0; i < length; i++) writer.int(bytes[i] ?? 0);
    },
    decode(reader) {
      const chars = Array.from({ length }, () => reader.int() & 0xff);
      const end = chars.indexOf(0);
      return Buffer.from(end < 0 ? chars : chars.slice(0, end)).toString('latin1');
    },
  };
}

export function encodeWith<T>(codec: Codec<T>, value: T): Buffer {
  const writer = new XdrWriter();
  codec.encode(writer, value);
  return writer.bytes();
}

/** Reads exactly one value that fills `bytes`. Throws `XdrError`. */
export function decodeWith<T>(codec: Codec<T>, bytes: Buffer): T {
  const reader = new XdrReader(bytes);
  const value = codec.decode(reader);
  reader.end();
  return value;
}
