import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import { errorMessage } from '../../../base/index.ts';
import { ApiError, badRequest } from '../../errors.ts';
import type { JsonObject } from '../../object.ts';
import { type Field, type MessageSchema, messages, typeMeta } from './schema.ts';

const magic = Buffer.from([0x6b, 0x38, 0x73, 0x00]);

export const protobufType = 'application/vnd.kubernetes.protobuf';

/** The reader drops the bits of a length above 32. A body has 3 MiB at the most, a length of it four bytes. */
const maxLengthBytes = 4;

/** One field of a message. Kubernetes uses two of the wire types here: varint and length-delimited. */
type WireField =
  | { readonly number: number; readonly kind: 'varint'; readonly value: number }
  | { readonly number: number; readonly kind: 'bytes'; readonly value: Buffer };

/**
 * The JSON form of an object in Kubernetes' protobuf envelope. Throws ApiError: BAD_REQUEST when it is malformed,
 * UNSUPPORTED_MEDIA_TYPE for a kind or a field that is not known here: nothing is dropped silently.
 */
export function decodeProtobuf(body: Buffer): JsonObject {
  if (!body.subarray(0, magic.length).equals(magic)) throw badRequest('the body is no Kubernetes protobuf message');
  try {
    return decodeEnvelope(body.subarray(magic.length));
  } catch (error) {
    if (error instanceof ApiError) throw error;
    throw badRequest(`the body is no Kubernetes protobuf message: ${errorMessage(error)}`, error);
  }
}

function decodeEnvelope(envelope: Buffer): JsonObject {
  let kind: JsonObject = {};
  let raw: Buffer = Buffer.alloc(0);
  for (const field of readFields(envelope)) {
    if (field.number === 1) kind = decodeMessage(bytesOf(field), typeMeta, 'typeMeta');
    else if (field.number === 2) raw = bytesOf(field);
  }
  const name = `${kind.apiVersion}/${kind.kind}`;
  const schema = Object.hasOwn(messages, name) ? messages[name] : undefined;
  if (!schema) throw notKnown(`${kind.kind} of ${kind.apiVersion}`);
  return { ...kind, ...decodeMessage(raw, schema, String(kind.kind)) };
}

function notKnown(what: string): ApiError {
  return new ApiError('UNSUPPORTED_MEDIA_TYPE', `this server does not read ${what} in protobuf: send JSON`);
}

function decodeMessage(buffer: Buffer, schema: MessageSchema, path: string): JsonObject {
  const result: JsonObject = {};
  for (const wire of readFields(buffer)) {
    const field = schema.get(wire.number);
    if (!field) throw notKnown(`field ${wire.number} of ${path}`);
    if (field.type === 'ignored') continue;
    const below = `${path}.${field.name}`;
    if (typeof field.type === 'object' && 'map' in field.type) {
      const present = (result[field.name] ?? {}) as JsonObject;
      result[field.name] = Object.assign(present, decodeMapEntry(bytesOf(wire), field.type.map));
      continue;
    }
    const value = decodeValue(wire, field, below);
    if (field.repeated) {
      const list = (result[field.name] ?? []) as unknown[];
      list.push(value);
      result[field.name] = list;
    } else if (!isLeftOut(value, field)) result[field.name] = value;
  }
  return result;
}

function isLeftOut(value: unknown, { type }: Field): boolean {
  if (value === undefined || value === '') return true;
  if (type === 'int' || type === 'bool') return value === 0 || value === false;
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}

function decodeValue(wire: WireField, { type }: Field, path: string): unknown {
  switch (type) {
    case 'ignored':
      return undefined;
    case 'string':
      return bytesOf(wire).toString('utf8');
    case 'bytes':
      return bytesOf(wire).toString('base64');
    case 'int':
    case 'int?':
      return numberOf(wire);
    case 'bool':
    case 'bool?':
      return numberOf(wire) !== 0;
    case 'time':
      return decodeTime(bytesOf(wire), 'seconds');
    case 'microtime':
      return decodeTime(bytesOf(wire), 'micros');
    case 'int-or-string':
      return decodeIntOrString(bytesOf(wire));
    default:
      if ('message' in type) return decodeMessage(bytesOf(wire), type.message, path);
      throw new Error(`a map at ${path}`);
  }
}

function decodeMapEntry(buffer: Buffer, type: 'string' | 'bytes'): JsonObject {
  let key = '';
  let value = Buffer.alloc(0);
  for (const field of readFields(buffer)) {
    if (field.number === 1) key = bytesOf(field).toString('utf8');
    else if (field.number === 2) value = Buffer.from(bytesOf(field));
  }
  if (key === '__proto__') throw badRequest('a member may not be called "__proto__"');
  return { [key]: value.toString(type === 'bytes' ? 'base64' : 'utf8') };
}

/** A zero time is an empty message: absent in JSON. */
function decodeTime(buffer: Buffer, unit: 'seconds' | 'micros'): string | undefined {
  let seconds = 0;
  let nanos = 0;
  for (const field of readFields(buffer)) {
    if (field.number === 1) seconds = numberOf(field);
    else if (field.number === 2) nanos = numberOf(field);
  }
  if (buffer.length === 0) return undefined;
  const text = new Date(seconds * 1000).toISOString().slice(0, 19);
  if (unit === 'seconds') return `${text}Z`;
  return `${text}.${String(Math.floor(nanos / 1000)).padStart(6, '0')}Z`;
}

function decodeIntOrString(buffer: Buffer): number | string {
  let isText = false;
  let number = 0;
  let text = '';
  for (const field of readFields(buffer)) {
    if (field.number === 1) isText = numberOf(field) === 1;
    else if (field.number === 2) number = numberOf(field);
    else if (field.number === 3) text = bytesOf(field).toString('utf8');
  }
  return isText ? text : number;
}

/** The fields of one message, in order. Throws an error for people where the bytes are none. */
function* readFields(buffer: Uint8Array): Generator<WireField> {
  const reader = new BinaryReader(buffer);
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    if (wireType === WireType.Varint) yield { number, kind: 'varint', value: Number(reader.int64()) };
    else if (wireType === WireType.LengthDelimited) yield { number, kind: 'bytes', value: readBytes(reader) };
    else throw new Error(`field ${number} has wire type ${wireType}`);
  }
}

function readBytes(reader: BinaryReader): Buffer {
  const start = reader.pos;
  const { buffer, byteOffset, length } = reader.bytes();
  if (reader.pos - start - length > maxLengthBytes) throw new Error('a length has more than four bytes');
  return Buffer.from(buffer, byteOffset, length);
}

function bytesOf(field: WireField): Buffer {
  if (field.kind === 'bytes') return field.value;
  throw new Error(`field ${field.number} is a number`);
}

function numberOf(field: WireField): number {
  if (field.kind === 'varint') return field.value;
  throw new Error(`field ${field.number} is no number`);
}
