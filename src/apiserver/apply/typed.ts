import { copyJson, isRecord, sameJson } from '../../base/index.ts';
import { formOf, memberNode, type SchemaNode } from '../schema/index.ts';
import { FieldSet, type PathElement } from './field-set.ts';

/** What Kubernetes' rules of merging say of one value: which of its parts have owners of their own (sigs.k8s.io/structured-merge-diff). */
type Shape =
  | { readonly kind: 'leaf' }
  | { readonly kind: 'map'; readonly form: SchemaNode }
  | { readonly kind: 'list'; readonly item: SchemaNode; readonly keys: readonly string[] | 'value' };

type Json = Record<string, unknown>;

/** Of what no schema knows maps are taken apart and lists are not. */
const unknownNode: SchemaNode = {};

function shapeOf(node: SchemaNode, value: unknown): Shape {
  const form = formOf(node);
  const isAtomic = node['x-kubernetes-map-type'] === 'atomic' || form['x-kubernetes-map-type'] === 'atomic';
  if (isRecord(value)) return isAtomic ? { kind: 'leaf' } : { kind: 'map', form };
  if (!Array.isArray(value)) return { kind: 'leaf' };
  const type = form['x-kubernetes-list-type'];
  const item = form.items ?? unknownNode;
  if (type === 'set') return { kind: 'list', item, keys: 'value' };
  const keys = form['x-kubernetes-list-map-keys'];
  return type === 'map' && keys ? { kind: 'list', item, keys } : { kind: 'leaf' };
}

const nodeOf = (form: SchemaNode, name: string) => memberNode(form, name) ?? unknownNode;

const isNamed = (form: SchemaNode, name: string) => Object.hasOwn(form.properties ?? {}, name);

/** The element of a list; a key that is not there has its default. */
function elementOf(item: unknown, { item: node, keys }: Extract<Shape, { kind: 'list' }>): PathElement {
  if (keys === 'value') return `v:${JSON.stringify(item)}`;
  const { properties } = formOf(node);
  const entries = [...keys].sort().flatMap((name): [string, unknown][] => {
    const value = (isRecord(item) ? item[name] : undefined) ?? properties?.[name]?.default;
    return value === undefined ? [] : [[name, value]];
  });
  return `k:${JSON.stringify(Object.fromEntries(entries))}`;
}

/** The parts of a value with their elements; of an element that occurs twice the last one. */
function partsOf(value: unknown, node: SchemaNode): Map<PathElement, { value: unknown; node: SchemaNode }> | undefined {
  const shape = shapeOf(node, value);
  if (shape.kind === 'leaf') return undefined;
  if (shape.kind === 'map') {
    const { form } = shape;
    const names = Object.keys(value as Json);
    return new Map(names.map((name) => [`f:${name}`, { value: (value as Json)[name], node: nodeOf(form, name) }]));
  }
  const items = value as readonly unknown[];
  return new Map(items.map((each) => [elementOf(each, shape), { value: each, node: shape.item }]));
}

/** The fields that a configuration names. */
export function fieldsOf(value: unknown, node: SchemaNode): FieldSet {
  const set = new FieldSet();
  const parts = partsOf(value, node);
  const { kind } = shapeOf(node, value);
  for (const [element, part] of parts ?? []) {
    const below = fieldsOf(part.value, part.node);
    if (!below.isEmpty) set.children.set(element, below);
    const isFree = kind === 'map' && !isNamed(formOf(node), element.slice(2));
    if (kind === 'list' || isFree || below.isEmpty) set.members.add(element);
  }
  return set;
}

/** The live value with all that the configuration says of it; what that does not name stays. Gives a new value. */
export function mergeTyped(live: unknown, config: unknown, node: SchemaNode): unknown {
  if (config === undefined) return copyJson(live);
  const [shape, liveShape] = [shapeOf(node, config), shapeOf(node, live)];
  if (shape.kind === 'leaf' || shape.kind !== liveShape.kind) return copyJson(config);
  if (shape.kind === 'list') return mergeLists(live as unknown[], config as unknown[], shape);
  const merged: Json = copyJson(live as Json);
  for (const [name, value] of Object.entries(config as Json)) {
    merged[name] = mergeTyped((live as Json)[name], value, nodeOf(shape.form, name));
  }
  return merged;
}

/** Elements of the configuration come in its order; others stay behind what they stood behind, as far as that goes. */
function mergeLists(live: readonly unknown[], config: readonly unknown[], shape: Extract<Shape, { kind: 'list' }>) {
  const known = new Map(live.map((item) => [elementOf(item, shape), item]));
  const wanted = new Map(config.map((item) => [elementOf(item, shape), item]));
  const shared = [...wanted.keys()].filter((element) => known.has(element));
  const result: unknown[] = [];
  const rest = [...wanted.keys()];
  const take = (element: PathElement) => {
    result.push(mergeTyped(known.get(element), wanted.get(element), shape.item));
  };
  /** All of the configuration up to the next element that both have. */
  const takeUntil = (end: PathElement | undefined) => {
    for (let next = rest.shift(); next !== undefined; next = rest.shift()) {
      take(next);
      if (next === end) return;
    }
  };
  for (const [element, item] of known) {
    if (!wanted.has(element)) result.push(copyJson(item));
    else if (element === shared[0]) takeUntil(shared.shift());
  }
  takeUntil(undefined);
  return result;
}

export interface Comparison {
  readonly added: FieldSet;
  readonly modified: FieldSet;
  readonly removed: FieldSet;
}

/** What of a value is other than before, with the objects and elements that came or went. */
export function compareTyped(before: unknown, after: unknown, node: SchemaNode): Comparison {
  const result: Comparison = { added: new FieldSet(), modified: new FieldSet(), removed: new FieldSet() };
  const path: PathElement[] = [];

  function note(old: unknown, now: unknown): void {
    if (path.length === 0) return;
    if (old === undefined) result.added.insert(path);
    else if (now === undefined) result.removed.insert(path);
    else if (!sameJson(old, now)) result.modified.insert(path);
  }

  function walk(old: unknown, now: unknown, at: SchemaNode): void {
    if (old === undefined && now === undefined) return;
    const [oldParts, newParts] = [partsOf(old, at), partsOf(now, at)];
    const isLeaf = (oldParts?.size ?? 0) + (newParts?.size ?? 0) === 0;
    if (isLeaf || (old !== undefined && now !== undefined && (!oldParts || !newParts))) {
      note(old, now);
      return;
    }
    for (const [element, part] of new Map([...(oldParts ?? []), ...(newParts ?? [])])) {
      path.push(element);
      walk(oldParts?.get(element)?.value, newParts?.get(element)?.value, part.node);
      path.pop();
    }
    if (old === undefined || now === undefined) note(old, now);
  }

  walk(before, after, node);
  return result;
}

/** The value without these fields; objects and lists that lose all go, too. Gives a new value, undefined when nothing is left. */
export function withoutFields(value: unknown, fields: FieldSet, node: SchemaNode): unknown {
  const parts = partsOf(value, node);
  if (!parts || fields.isEmpty) return copyJson(value);
  const { kind } = shapeOf(node, value);
  const kept = [...parts].flatMap(([element, part]): [PathElement, unknown][] => {
    if (fields.members.has(element)) return [];
    const below = fields.children.get(element);
    const left = below ? withoutFields(part.value, below, part.node) : copyJson(part.value);
    return left === undefined ? [] : [[element, left]];
  });
  if (kept.length === 0) return undefined;
  if (kind === 'list') return kept.map(([, item]) => item);
  return Object.fromEntries(kept.map(([element, left]) => [element.slice(2), left]));
}

/** With each object that has a name in the schema and fields of its own in the set. */
export function withNamedObjects(set: FieldSet, node: SchemaNode): FieldSet {
  const form = formOf(node);
  const result = new FieldSet();
  for (const member of set.members) result.members.add(member);
  for (const [element, child] of set.children) {
    const name = element.slice(2);
    const isField = element.startsWith('f:');
    if (isField && isNamed(form, name)) result.members.add(element);
    const below = isField ? nodeOf(form, name) : (form.items ?? unknownNode);
    result.children.set(element, withNamedObjects(child, below));
  }
  return result;
}
