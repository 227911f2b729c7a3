import { WireError } from './errors.ts';

/** Checks a parsed value and gives it back with zero values filled in. Objects are changed in place. */
export type Shape = (value: unknown, path: string) => unknown;
type JsonObject = Record<string, unknown>;

/**
 * Entries of one list. What is filled in takes many times the bytes that were sent: a megabyte of empty disks would stay in
 * memory as 70. A guest with every virtual interface of a busy Kubernetes node has a few thousand.
 */
const maxItems = 8_192;

export const str: Shape = (value, path) => primitive(value, path, 'string', '');
/** `1e999` is JSON, and infinite here: it would be written as null where a number is wanted. */
export const num: Shape = (value, path) => {
  const number = primitive(value, path, 'number', 0);
  if (Number.isFinite(number)) return number;
  throw new WireError('JSON_SHAPE', `${path}: expected a number, found one beyond all bounds`);
};
export const bool: Shape = (value, path) => primitive(value, path, 'boolean', false);

/** A string or no key at all; `null` and `""` count as no key. */
export const optionalStr: Shape = (value, path) => primitive(value, path, 'string', '') || undefined;

/** `true` or no key at all. */
export const optionalTrue: Shape = (value, path) => primitive(value, path, 'boolean', false) || undefined;

/** Any object, not looked into. */
export const record: Shape = (value, path) => asObject(value, path);

export function nullable(shape: Shape): Shape {
  return (value, path) => (value === null || value === undefined ? null : shape(value, path));
}

export function list(shape: Shape): Shape {
  return (value, path) => {
    if (value === null || value === undefined) return [];
    if (!Array.isArray(value)) throw wrong(path, 'a list', value);
    if (value.length > maxItems) {
      throw new WireError('JSON_SHAPE', `${path}: a list of ${value.length} entries, ${maxItems} are possible`);
    }
    return value.map((item, index) => shape(item, `${path}[${index}]`));
  };
}

export function object(fields: Readonly<Record<string, Shape>>): Shape {
  return (value, path) => {
    const target = asObject(value, path);
    for (const [name, shape] of Object.entries(fields)) {
      const filled = shape(target[name], `${path}.${name}`);
      if (filled === undefined) delete target[name];
      else target[name] = filled;
    }
    return target;
  };
}

/** Applies an object shape at the top, where nothing may be missing. Throws WireError JSON_SHAPE. */
export function fill(value: unknown, shape: Shape, path: string): JsonObject {
  if (value === null || value === undefined) throw wrong(path, 'an object', value);
  return shape(value, path) as JsonObject;
}

function asObject(value: unknown, path: string): JsonObject {
  if (value === null || value === undefined) return {};
  if (typeof value !== 'object' || Array.isArray(value)) throw wrong(path, 'an object', value);
  return value as JsonObject;
}

function primitive<T>(value: unknown, path: string, type: string, zero: T): T {
  if (value === null || value === undefined) return zero;
  if (typeof value !== type) throw wrong(path, `a ${type}`, value);
  return value as T;
}

function wrong(path: string, expected: string, value: unknown): WireError {
  const found = value === null ? 'null' : Array.isArray(value) ? 'a list' : `a ${typeof value}`;
  return new WireError('JSON_SHAPE', `${path}: expected ${expected}, found ${found}`);
}
