import { parseQuantity } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { type FieldError, invalidField, requiredField, unsupportedField } from '../errors.ts';

/** Checks one value and names what is wrong by its path. Absent values (undefined, null) are never wrong here. */
export type FieldShape = (value: unknown, field: string) => FieldError[];

function plain(what: string, test: (value: unknown) => boolean): FieldShape {
  return (value, field) => (test(value) ? [] : [invalidField(field, value, `must be ${what}`)]);
}

export const text = plain('a string', (value) => typeof value === 'string');
export const flag = plain('true or false', (value) => typeof value === 'boolean');
export const anyObject = plain('an object', isRecord);

export function integer(min: number, max = Number.MAX_SAFE_INTEGER): FieldShape {
  const what = max === Number.MAX_SAFE_INTEGER ? `an integer of at least ${min}` : `an integer from ${min} to ${max}`;
  return plain(what, (value) => Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max);
}

export const quantity = plain('a quantity like "64Mi", "1500m" or 2, not negative', (value) => {
  const number = typeof value === 'string' || typeof value === 'number' ? parseQuantity(value) : undefined;
  return number !== undefined && number >= 0;
});

export function oneOf(...allowed: readonly string[]): FieldShape {
  return (value, field) =>
    typeof value === 'string' && allowed.includes(value) ? [] : [unsupportedField(field, value, allowed)];
}

export function listOf(shape: FieldShape, maxItems = 256): FieldShape {
  return (value, field) => {
    if (!Array.isArray(value)) return [invalidField(field, value, 'must be a list')];
    if (value.length > maxItems) return [invalidField(field, value.length, `must have at most ${maxItems} items`)];
    return value.flatMap((item, index) => shape(item, `${field}[${index}]`));
  };
}

export function mapOf(shape: FieldShape): FieldShape {
  return (value, field) => {
    if (!isRecord(value)) return [invalidField(field, value, 'must be an object')];
    return Object.entries(value).flatMap(([key, item]) => shape(item, `${field}.${key}`));
  };
}

/** Members that are not named are let through unseen. */
export function objectOf(members: Readonly<Record<string, FieldShape>>, required: readonly string[] = []): FieldShape {
  return (value, field) => {
    if (!isRecord(value)) return [invalidField(field, value, 'must be an object')];
    const missing = required
      .filter((name) => value[name] === undefined || value[name] === null || value[name] === '')
      .map((name) => requiredField(`${field}.${name}`));
    const wrong = Object.entries(members).flatMap(([name, shape]) => {
      const member = value[name];
      return member === undefined || member === null ? [] : shape(member, `${field}.${name}`);
    });
    return [...missing, ...wrong];
  };
}
