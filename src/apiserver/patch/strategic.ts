import { isRecord } from '../../base/index.ts';
import { badRequest } from '../errors.ts';
import type { JsonObject } from '../object.ts';
import type { StrategicSchema } from './strategic-schema.ts';

/**
 * Kubernetes' strategic merge patch: as a merge patch, but lists named in the schema are merged element by element, and the
 * directives `$patch` (replace, merge, delete), `$deleteFromPrimitiveList/…`, `$setElementOrder/…` and `$retainKeys` are
 * obeyed. Gives a new value. Throws ApiError BAD_REQUEST for a malformed patch.
 */
export function applyStrategicPatch(target: unknown, patch: unknown, schema: StrategicSchema): unknown {
  if (!isRecord(patch)) throw badRequest('a strategic merge patch is an object');
  return mergeObjects(isRecord(target) ? target : {}, patch, '', schema);
}

const deletePrefix = '$deleteFromPrimitiveList/';
const orderPrefix = '$setElementOrder/';

function mergeObjects(target: JsonObject, patch: JsonObject, path: string, schema: StrategicSchema): JsonObject {
  const directive = patch.$patch;
  if (directive === 'delete') return {};
  if (directive === 'replace') return withoutDirectives(patch);
  if (directive !== undefined && directive !== 'merge') throw badRequest(`unknown $patch ${JSON.stringify(directive)}`);
  const result = retained(target, patch);
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith('$')) continue;
    const below = path === '' ? key : `${path}.${key}`;
    if (value === null) delete result[key];
    else result[key] = mergeValue(result[key], value, below, schema);
  }
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith(deletePrefix)) removeValues(result, key.slice(deletePrefix.length), asList(key, value));
  }
  for (const [key, value] of Object.entries(patch)) {
    if (!key.startsWith(orderPrefix)) continue;
    const name = key.slice(orderPrefix.length);
    const rule = schema.lists[path === '' ? name : `${path}.${name}`];
    if (rule) setOrder(result, name, asList(key, value), rule);
  }
  return result;
}

function retained(target: JsonObject, patch: JsonObject): JsonObject {
  const keep = patch.$retainKeys;
  if (keep === undefined) return { ...target };
  const names = new Set(asList('$retainKeys', keep));
  return Object.fromEntries(Object.entries(target).filter(([key]) => names.has(key)));
}

function mergeValue(target: unknown, value: unknown, path: string, schema: StrategicSchema): unknown {
  if (Array.isArray(value)) {
    const rule = schema.lists[path];
    const current = Array.isArray(target) ? target : [];
    if (rule === undefined) return value.map(withoutDirectivesDeep);
    return rule === 'set' ? mergeSet(current, value, path) : mergeList(current, value, rule.key, path, schema);
  }
  if (!isRecord(value)) return value;
  return mergeObjects(isRecord(target) ? target : {}, value, path, schema);
}

function mergeSet(target: readonly unknown[], patch: readonly unknown[], path: string): unknown[] {
  if (patch.some((value) => typeof value === 'object'))
    throw badRequest(`${path}: elements of this list are plain values`);
  const present = new Set(target);
  return [...target, ...new Set(patch.filter((value) => !present.has(value)))];
}

function mergeList(
  target: readonly unknown[],
  patch: readonly unknown[],
  key: string,
  path: string,
  schema: StrategicSchema,
): unknown[] {
  const elements = patch.filter(isRecord);
  if (elements.length !== patch.length) throw badRequest(`${path}: elements of this list must be objects`);
  const isReplace = elements.some((element) => isWholeReplace(element, key));
  const list = new KeyedList(isReplace ? [] : target, key);
  for (const element of elements) {
    if (isWholeReplace(element, key)) continue;
    const id = plainId(element[key]);
    if (id === undefined) throw badRequest(`${path}: an element needs a plain "${key}", by which this list is merged`);
    if (element.$patch === 'delete') list.remove(id);
    else list.put(id, mergeObjects(list.get(id) ?? {}, element, path, schema));
  }
  return list.toArray();
}

function isWholeReplace(element: JsonObject, key: string): boolean {
  return element.$patch === 'replace' && element[key] === undefined;
}

function removeValues(object: JsonObject, name: string, values: readonly unknown[]): void {
  const list = object[name];
  const removed = new Set(values);
  if (Array.isArray(list)) object[name] = list.filter((value) => !removed.has(value));
}

/** Elements named in the order come in that order; others keep their place relative to what stood before them. */
function setOrder(object: JsonObject, name: string, order: readonly unknown[], rule: { key: string } | 'set'): void {
  const list = object[name];
  if (!Array.isArray(list)) return;
  const idOf = (value: unknown) => plainId(rule === 'set' ? value : isRecord(value) ? value[rule.key] : undefined);
  const ranks = new Map<unknown, number>();
  for (const [index, value] of order.entries()) if (!ranks.has(idOf(value))) ranks.set(idOf(value), index);
  const rank = (value: unknown) => ranks.get(idOf(value)) ?? -1;
  const ordered = list.filter((value) => rank(value) >= 0).sort((a, b) => rank(a) - rank(b));
  const next = ordered.values();
  object[name] = list.map((value) => (rank(value) >= 0 ? next.next().value : value));
}

function withoutDirectives(patch: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(patch)
      .filter(([key, value]) => !key.startsWith('$') && value !== null)
      .map(([key, value]) => [key, withoutDirectivesDeep(value)]),
  );
}

function withoutDirectivesDeep(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDirectivesDeep);
  return isRecord(value) ? withoutDirectives(value) : value;
}

function asList(name: string, value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw badRequest(`${name} must be a list`);
  return value;
}

/** What names an element of a list: a plain value. undefined for anything else. */
function plainId(value: unknown): unknown {
  return typeof value === 'object' ? undefined : value;
}

/** A list whose elements are found by one of their members, of which the first with a value counts. */
class KeyedList {
  readonly #elements: (unknown | undefined)[];
  readonly #indexes = new Map<unknown, number>();

  constructor(elements: readonly unknown[], key: string) {
    this.#elements = [...elements];
    for (const [index, element] of elements.entries()) {
      const id = isRecord(element) ? plainId(element[key]) : undefined;
      if (id !== undefined && !this.#indexes.has(id)) this.#indexes.set(id, index);
    }
  }

  get(id: unknown): JsonObject | undefined {
    const found = this.#elements[this.#indexes.get(id) ?? -1];
    return isRecord(found) ? found : undefined;
  }

  put(id: unknown, element: JsonObject): void {
    const index = this.#indexes.get(id) ?? this.#elements.length;
    this.#indexes.set(id, index);
    this.#elements[index] = element;
  }

  /** Leaves a hole, so that the other indexes stay. */
  remove(id: unknown): void {
    const index = this.#indexes.get(id);
    if (index === undefined) return;
    this.#indexes.delete(id);
    this.#elements[index] = undefined;
  }

  toArray(): unknown[] {
    return this.#elements.filter((element) => element !== undefined);
  }
}
