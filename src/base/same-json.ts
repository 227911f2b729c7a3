import { isRecord } from './json.ts';

/**
 * Equality of JSON data: the order of members does not matter, absent and undefined are the same. `onCompare` hears of how
 * many values are about to be looked at, and may throw to end the comparison.
 */
export function sameJson(left: unknown, right: unknown, onCompare?: (values: number) => void): boolean {
  onCompare?.(1);
  if (left === right) return true;
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, index) => sameJson(item, right[index], onCompare));
  }
  if (!isRecord(left) || !isRecord(right)) return false;
  const names = presentNames(left);
  const others = presentNames(right);
  onCompare?.(names.length + others.length);
  if (names.length !== others.length) return false;
  return names.every((name) => Object.hasOwn(right, name) && sameJson(left[name], right[name], onCompare));
}

function presentNames(object: Record<string, unknown>): string[] {
  return Object.keys(object).filter((name) => object[name] !== undefined);
}
