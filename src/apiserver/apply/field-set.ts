import { isRecord } from '../../base/index.ts';

/** `f:name` a member, `k:{"name":"a"}` an element by its key, `v:"a"` one by its value, as `FieldsV1` spells them. */
export type PathElement = string;

/** A set of fields as a tree: an element may belong to the set, have fields below it that do, or both. Never changed once it is given away. */
export class FieldSet {
  readonly members = new Set<PathElement>();
  readonly children = new Map<PathElement, FieldSet>();

  static of(...paths: readonly (readonly PathElement[])[]): FieldSet {
    const set = new FieldSet();
    for (const path of paths) set.insert(path);
    return set;
  }

  get isEmpty(): boolean {
    return this.members.size === 0 && this.children.size === 0;
  }

  insert(path: readonly PathElement[]): void {
    let set: FieldSet = this;
    for (const element of path.slice(0, -1)) set = set.#descend(element);
    const last = path.at(-1);
    if (last !== undefined) set.members.add(last);
  }

  #descend(element: PathElement): FieldSet {
    const known = this.children.get(element);
    if (known) return known;
    const made = new FieldSet();
    this.children.set(element, made);
    return made;
  }

  union(other: FieldSet): FieldSet {
    const result = new FieldSet();
    for (const { members, children } of [this as FieldSet, other]) {
      for (const member of members) result.members.add(member);
      for (const [element, child] of children) {
        const known = result.children.get(element);
        result.children.set(element, known ? known.union(child) : child);
      }
    }
    return result;
  }

  intersection(other: FieldSet): FieldSet {
    const result = new FieldSet();
    for (const member of this.members) if (other.members.has(member)) result.members.add(member);
    for (const [element, child] of this.children) {
      const both = child.intersection(other.children.get(element) ?? nothing);
      if (!both.isEmpty) result.children.set(element, both);
    }
    return result;
  }

  difference(other: FieldSet): FieldSet {
    const result = new FieldSet();
    for (const member of this.members) if (!other.members.has(member)) result.members.add(member);
    for (const [element, child] of this.children) {
      const left = child.difference(other.children.get(element) ?? nothing);
      if (!left.isEmpty) result.children.set(element, left);
    }
    return result;
  }

  /** Without these members of the root and all that is below them. */
  withoutRoots(roots: readonly PathElement[]): FieldSet {
    const result = new FieldSet();
    for (const member of this.members) if (!roots.includes(member)) result.members.add(member);
    for (const [element, child] of this.children) if (!roots.includes(element)) result.children.set(element, child);
    return result;
  }

  equals(other: FieldSet): boolean {
    return this.difference(other).isEmpty && other.difference(this).isEmpty;
  }

  /** Each member of the set as its path. */
  *paths(prefix: readonly PathElement[] = []): Generator<readonly PathElement[]> {
    for (const member of this.members) yield [...prefix, member];
    for (const [element, child] of this.children) yield* child.paths([...prefix, element]);
  }

  toJson(): Record<string, unknown> {
    const elements = [...new Set([...this.members, ...this.children.keys()])].sort();
    return Object.fromEntries(
      elements.map((element) => {
        const below = this.children.get(element)?.toJson() ?? {};
        const isBoth = this.members.has(element) && this.children.has(element);
        return [element, isBoth ? { '.': {}, ...below } : below];
      }),
    );
  }

  /** undefined: it is no `FieldsV1`. */
  static fromJson(value: unknown): FieldSet | undefined {
    if (!isRecord(value)) return undefined;
    const set = new FieldSet();
    for (const [element, below] of Object.entries(value)) {
      if (element === '.') continue;
      if (!isElement(element) || !isRecord(below)) return undefined;
      const child = FieldSet.fromJson(below);
      if (child === undefined) return undefined;
      if (child.isEmpty || Object.hasOwn(below, '.')) set.members.add(element);
      if (!child.isEmpty) set.children.set(element, child);
    }
    return set;
  }
}

export const nothing = new FieldSet();

/** The list of a client may name fields in any way. */
function isElement(element: string): boolean {
  if (element.startsWith('f:')) return true;
  if (element.startsWith('i:')) return /^i:\d{1,9}$/.test(element);
  if (!element.startsWith('k:') && !element.startsWith('v:')) return false;
  try {
    JSON.parse(element.slice(2));
    return true;
  } catch {
    return false;
  }
}

/** As messages name a field: `.spec.ports[port=80,protocol="TCP"].name`. */
export function pathOfElements(path: readonly PathElement[]): string {
  return path.map(shownElement).join('');
}

function shownElement(element: PathElement): string {
  const text = element.slice(2);
  if (element.startsWith('f:')) return `.${text}`;
  if (element.startsWith('i:')) return `[${text}]`;
  if (element.startsWith('v:')) return `[=${text}]`;
  const key: Record<string, unknown> = JSON.parse(text);
  const parts = Object.entries(key).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return `[${parts.join(',')}]`;
}
