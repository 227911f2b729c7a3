import type { KubeObject } from '../api/index.ts';
import { isRecord } from '../base/index.ts';

/** Any Kubernetes object, with the fields that are not named. Objects in the store are shared: never change them in place. */
export interface ApiObject extends KubeObject {
  [field: string]: unknown;
}

export type JsonObject = Record<string, unknown>;

/** Value at a path of member names; undefined when a step is missing. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let current = value;
  for (const step of path) {
    if (typeof step === 'number') current = Array.isArray(current) ? current[step] : undefined;
    else current = isRecord(current) && Object.hasOwn(current, step) ? current[step] : undefined;
  }
  return current;
}

/** The text at a path, also an empty one, which a field of an object may mean: `textAt` of `base` knows none. Undefined when it is missing or no text. */
export function stringAt(value: unknown, ...path: readonly (string | number)[]): string | undefined {
  const found = at(value, ...path);
  return typeof found === 'string' ? found : undefined;
}

export function numberAt(value: unknown, ...path: readonly (string | number)[]): number | undefined {
  const found = at(value, ...path);
  return typeof found === 'number' ? found : undefined;
}

/** The objects of a list at a path; empty when there is none. */
export function objectsAt(value: unknown, ...path: readonly (string | number)[]): JsonObject[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found.filter(isRecord) : [];
}

/** The object at a path, made (with those above it) when missing. Changes `root`. */
export function ensureObject(root: JsonObject, ...path: readonly string[]): JsonObject {
  let current = root;
  for (const step of path) {
    const next = current[step];
    if (isRecord(next)) current = next;
    else {
      const made: JsonObject = {};
      current[step] = made;
      current = made;
    }
  }
  return current;
}
