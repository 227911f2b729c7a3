import { isRecord } from './json.ts';

/**
 * JSON Merge Patch (RFC 7396): null removes a member, objects are merged, all else is replaced. Gives a new value; neither
 * argument is changed, and what the patch does not touch is shared with the target.
 */
export function applyMergePatch(target: unknown, patch: Readonly<Record<string, unknown>>): Record<string, unknown>;
export function applyMergePatch(target: unknown, patch: unknown): unknown;
export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const result: Record<string, unknown> = isRecord(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = applyMergePatch(result[name], value);
  }
  return result;
}
