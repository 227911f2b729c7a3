import { parseQuantity } from '../../../api/index.ts';
import { isRecord } from '../../../base/index.ts';

/** Keys below which strings are quantities. */
const quantityKeys = new Set(['memory', 'capacity', 'requests', 'resources']);

/**
 * Equal in meaning, as the API server's readers see it (pkg/virt-handler/vm.go): absent, null, empty list and empty map are
 * one, times count by instant, quantities by value.
 */
export function semanticEqual(left: unknown, right: unknown, key = '', inQuantities = false): boolean {
  if (Object.is(left, right)) return true;
  if (isNothing(left) || isNothing(right)) return isNothing(left) && isNothing(right);
  const quantities = inQuantities || quantityKeys.has(key);
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((item, at) => semanticEqual(item, right[at], key, quantities));
  }
  if (isRecord(left) && isRecord(right)) {
    const keys = new Set([...Object.keys(left), ...Object.keys(right)]);
    return [...keys].every((name) => semanticEqual(left[name], right[name], name, quantities));
  }
  return isSameScalar(left, right, key, quantities);
}

function isNothing(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  if (Array.isArray(value)) return value.length === 0;
  return isRecord(value) && Object.keys(value).length === 0;
}

function isSameScalar(left: unknown, right: unknown, key: string, quantities: boolean): boolean {
  if (/Time(stamp)?$/.test(key) && typeof left === 'string' && typeof right === 'string') {
    return Date.parse(left) === Date.parse(right);
  }
  if (!quantities || !isScalar(left) || !isScalar(right)) return false;
  const value = parseQuantity(left);
  return value !== undefined && value === parseQuantity(right);
}

function isScalar(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number';
}
