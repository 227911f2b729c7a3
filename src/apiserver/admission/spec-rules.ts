import { parseQuantity } from '../../api/index.ts';
import type { ClusterDefaults } from '../api-type.ts';
import { duplicateField, type FieldError } from '../errors.ts';
import type { JsonObject } from '../object.ts';

/** The spec of a VMI, or of a template, as its rules see it. */
export interface SpecRules {
  readonly spec: JsonObject;
  /** Its path. */
  readonly field: string;
  /** Nothing is added to it: no instance type and no preference. What is missing is missing. */
  readonly isWhole: boolean;
  readonly cluster: ClusterDefaults;
}

/** Members with a value, but those of these names. */
export function presentMembers(item: JsonObject, ignored: readonly string[]): string[] {
  return Object.keys(item).filter((key) => !ignored.includes(key) && item[key] !== undefined && item[key] !== null);
}

export function duplicates(items: readonly JsonObject[], field: string): FieldError[] {
  const seen = new Set<unknown>();
  return items.flatMap(({ name }, index) => {
    const isFirst = !seen.has(name);
    seen.add(name);
    return isFirst ? [] : [duplicateField(`${field}[${index}].name`, name)];
  });
}

/** Of a quantity; undefined when there is none. */
export function amountOf(value: unknown): number | undefined {
  return typeof value === 'string' || typeof value === 'number' ? parseQuantity(value) : undefined;
}
