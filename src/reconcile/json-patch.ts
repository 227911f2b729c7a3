export type JsonPatchOperation =
  | { readonly op: 'test' | 'add' | 'replace'; readonly path: string; readonly value: unknown }
  | { readonly op: 'remove'; readonly path: string };

export interface GuardOptions {
  /** The fields that this writer may change, as JSON pointers whose members need no escape. Others stay as they are. */
  readonly fields: readonly string[];
  /** Tested even when they do not change: what the change depends on. */
  readonly always: readonly string[];
  readonly isSame: (left: unknown, right: unknown) => boolean;
}

/**
 * What differs between two states of an object, as a JSON patch that the API server refuses (422) when a field is no longer
 * what it was in `old`. Empty: nothing differs. A field that `old` does not have cannot be tested.
 */
export function guardedPatch(
  old: object,
  wanted: object,
  { fields, always, isSame }: GuardOptions,
): JsonPatchOperation[] {
  const changed = fields.filter((path) => !isSame(valueAt(old, path), valueAt(wanted, path)));
  if (changed.length === 0) return [];
  const tests = [...new Set([...always, ...changed])]
    .map((path) => ({ op: 'test', path, value: valueAt(old, path) }) as const)
    .filter(({ value }) => value !== undefined);
  return [...tests, ...changed.map((path) => change(path, valueAt(old, path), valueAt(wanted, path)))];
}

function change(path: string, old: unknown, wanted: unknown): JsonPatchOperation {
  if (wanted === undefined) return { op: 'remove', path };
  return { op: old === undefined ? 'add' : 'replace', path, value: wanted };
}

function valueAt(object: object, path: string): unknown {
  let value: unknown = object;
  for (const member of path.slice(1).split('/'))
    value = (value as Record<string, unknown> | null | undefined)?.[member];
  return value;
}
