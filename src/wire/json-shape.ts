import { WireError } from './errors.ts';

/** Checks a parsed value and gives it back with zero values filled in. Objects are changed in place. */
export type Shape = (value: unknown, path: string) => unknown;
type JsonObject = Record<string, unknown>;

export const str: Shape = (value, path) => primitive(value, path, 'string', '');
export const num: Shape = (value, path) => primitive(value, path, 'number', 0);
export const bool: Shape = (value, path) => primitive(value, path, 'boolean', false);

/** A string or no key at all; `null` and `""` count as no key. */
export const optionalStr: Shape = (value, path) => primitive(value, path, 'string', '') || undefined;

/** Any object, not looked into. */
export const record: Shape = (value, path) => asObject(value, path);

export function nullable(shape: Shape): Shape {
  return (value, path) => (value === null || value === undefined ? null : shape(value, path));
}

export function list(shape: Shape): Shape {
  return (value, path) => {
    if (value === null || value === undefined) return [];
    if (!Array.isArray(value)) throw wrong(path, 'a list', value);
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
