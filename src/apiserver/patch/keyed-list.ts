import { isObject, type JsonObject } from '../object.ts';

/** What names an element of a list: a plain value. undefined for anything else. */
export function plainId(value: unknown): unknown {
  return typeof value === 'object' ? undefined : value;
}

/** A list whose elements are found by one of their members, of which the first with a value counts. */
export class KeyedList {
  readonly #elements: (unknown | undefined)[];
  readonly #places = new Map<unknown, number>();

  constructor(elements: readonly unknown[], key: string) {
    this.#elements = [...elements];
    for (const [place, element] of elements.entries()) {
      const id = isObject(element) ? plainId(element[key]) : undefined;
      if (id !== undefined && !this.#places.has(id)) this.#places.set(id, place);
    }
  }

  get(id: unknown): JsonObject | undefined {
    const found = this.#elements[this.#places.get(id) ?? -1];
    return isObject(found) ? found : undefined;
  }

  put(id: unknown, element: JsonObject): void {
    const place = this.#places.get(id) ?? this.#elements.length;
    this.#places.set(id, place);
    this.#elements[place] = element;
  }

  /** Leaves a hole, so that the other places stay. */
  remove(id: unknown): void {
    const place = this.#places.get(id);
    if (place === undefined) return;
    this.#places.delete(id);
    this.#elements[place] = undefined;
  }

  toArray(): unknown[] {
    return this.#elements.filter((element) => element !== undefined);
  }
}
