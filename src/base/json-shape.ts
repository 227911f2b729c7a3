import { isRecord } from './json.ts';

/** What a value that came as JSON must be, as plain data. Members that are not named may be anything. */
export type JsonShape =
  | 'string'
  | 'number'
  | 'boolean'
  | 'object'
  | 'string or number'
  | { readonly list: JsonShape }
  | { readonly map: JsonShape }
  | { readonly members: Readonly<Record<string, JsonShape>>; readonly required?: readonly string[] };

/** Makes the error for what does not fit: `must be a list`. */
type Misfit = (path: string, problem: string) => Error;

/** More is no list that a person wrote, and would cost time by its square. */
const maxItems = 1024;

const plain = {
  string: { test: (value: unknown) => typeof value === 'string', problem: 'must be a string' },
  /** `1e999` is JSON, and infinite here. */
  number: { test: Number.isFinite, problem: 'must be a number' },
  boolean: { test: (value: unknown) => typeof value === 'boolean', problem: 'must be true or false' },
  object: { test: isRecord, problem: 'must be an object' },
  'string or number': {
    test: (value: unknown) => typeof value === 'string' || Number.isFinite(value),
    problem: 'must be a string or a number',
  },
} as const;

/**
 * The value, if it has the shape: a copy in which named members that are null are left out, as JSON of Go means the same by both.
 * Throws what `misfit` makes of the first place that has another shape.
 */
export function shapedJson(value: unknown, shape: JsonShape, path: string, misfit: Misfit): unknown {
  if (typeof shape === 'string') {
    if (plain[shape].test(value)) return value;
    throw misfit(path, plain[shape].problem);
  }
  if ('list' in shape) return shapedList(value, shape.list, path, misfit);
  if (!isRecord(value)) throw misfit(path, plain.object.problem);
  if ('map' in shape) return shapedMembers(value, () => shape.map, path, misfit);
  const missing = shape.required?.find((name) => value[name] === undefined || value[name] === null);
  if (missing !== undefined) throw misfit(`${path}.${missing}`, 'is missing');
  const { members } = shape;
  return shapedMembers(value, (name) => (Object.hasOwn(members, name) ? members[name] : undefined), path, misfit);
}

function shapedList(value: unknown, item: JsonShape, path: string, misfit: Misfit): unknown[] {
  if (!Array.isArray(value)) throw misfit(path, 'must be a list');
  if (value.length > maxItems) throw misfit(path, `has ${value.length} items, ${maxItems} are possible`);
  return value.map((each, index) => shapedJson(each, item, `${path}[${index}]`, misfit));
}

function shapedMembers(
  value: Readonly<Record<string, unknown>>,
  shapeOf: (name: string) => JsonShape | undefined,
  path: string,
  misfit: Misfit,
): Record<string, unknown> {
  const entries = Object.entries(value).flatMap(([name, member]): [string, unknown][] => {
    const shape = shapeOf(name);
    if (shape === undefined) return [[name, member]];
    if (member === undefined || member === null) return [];
    return [[name, shapedJson(member, shape, `${path}.${name}`, misfit)]];
  });
  return Object.fromEntries(entries);
}
