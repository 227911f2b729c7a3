import { parseQuantity } from '../../api/index.ts';
import { isRecord, sameJson } from '../../base/index.ts';
import { duplicateField, type FieldError, invalidField, requiredField, unsupportedField } from '../errors.ts';
import { formOf, memberNode, pathText, type SchemaNode } from './node.ts';

/** More are neither reported nor looked for. */
const mostErrors = 100;

/** What the schemas demand of a text, by the pattern they write: literals, whose time is known. */
const patterns: ReadonlyMap<string, (text: string) => boolean> = new Map([
  [
    '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$',
    (text) => parseQuantity(text) !== undefined,
  ],
  ['^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$', (text) => /^[A-Za-z][A-Za-z0-9_,:]*$/.test(text) && !/[,:]$/.test(text)],
  [
    '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$',
    isQualifiedName,
  ],
  ['^(0(?:\\.\\d{1,3})?|1)$', (text) => /^(?:0(?:\.\d{1,3})?|1)$/.test(text)],
]);

/** `Ready`, or `example.org/Ready`. */
function isQualifiedName(text: string): boolean {
  const [name = '', prefix, ...more] = text.split('/').reverse();
  const isName = /^[A-Za-z0-9][-A-Za-z0-9_.]*$/.test(name) && /[A-Za-z0-9]$/.test(name);
  const labels = prefix?.split('.') ?? [];
  return (
    isName && more.length === 0 && labels.every((label) => /^[a-z0-9][-a-z0-9]*$/.test(label) && !label.endsWith('-'))
  );
}

/** Patterns of a schema that would not be checked: a test wants none. */
export function isKnownPattern(pattern: string): boolean {
  return patterns.has(pattern);
}

/** `2026-01-02T03:04:05.678Z`, or with an offset. */
const dateTime = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/;

export interface CheckOptions {
  /** Of the types of Kubernetes itself only the form counts: their Go code takes a missing or null value for the empty one. */
  readonly formOnly: boolean;
  /** Members of the root that have rules of their own. */
  readonly except: readonly string[];
}

/** What is wrong with a pruned object, field by field, in the words of an API server. */
export function checkSchema(object: unknown, schema: SchemaNode, { formOnly, except }: CheckOptions): FieldError[] {
  const errors: FieldError[] = [];
  const steps: (string | number)[] = [];

  const path = () => pathText(steps);
  const add = (value: unknown, why: string) => errors.push(invalidField(path(), value, `${path()} in body ${why}`));

  function walk(value: unknown, node: SchemaNode): void {
    if (errors.length >= mostErrors || value === undefined) return;
    if (value === null && (formOnly || node.nullable === true)) return;
    const form = formOf(node);
    if (!hasType(value, form)) {
      // Not the value itself: it may be a secret.
      const kind = kindOf(value);
      const text = `${path()} in body must be of type ${typeName(form)}: "${kind}"`;
      errors.push({ ...invalidField(path(), kind, text), reason: 'FieldValueTypeInvalid' });
      return;
    }
    if (!formOnly) checkValue(value, form);
    if (Array.isArray(value)) walkList(value, form);
    else if (isRecord(value)) walkObject(value, form, steps.length === 0 ? except : []);
  }

  function walkObject(value: Record<string, unknown>, form: SchemaNode, skipped: readonly string[]): void {
    for (const name of formOnly ? [] : (form.required ?? [])) {
      if (value[name] === undefined) errors.push(requiredField(pathText([...steps, name])));
    }
    for (const name in value) {
      const node = memberNode(form, name);
      if (node === undefined || skipped.includes(name)) continue;
      steps.push(name);
      walk(value[name], node);
      steps.pop();
    }
  }

  function walkList(list: readonly unknown[], form: SchemaNode): void {
    const { items } = form;
    if (!formOnly) checkUnique(list, form);
    if (items === undefined) return;
    for (const [index, item] of list.entries()) {
      steps.push(index);
      walk(item, items);
      steps.pop();
    }
  }

  function checkUnique(list: readonly unknown[], form: SchemaNode): void {
    const kind = form['x-kubernetes-list-type'];
    if (kind !== 'set' && kind !== 'map') return;
    const names = form['x-kubernetes-list-map-keys'];
    const seen = new Set<string>();
    for (const [index, item] of list.entries()) {
      const key = kind === 'map' && isRecord(item) ? names?.map((name) => item[name]) : item;
      const text = JSON.stringify(key);
      if (seen.has(text)) errors.push(duplicateField(pathText([...steps, index]), key));
      seen.add(text);
    }
  }

  function checkValue(value: unknown, form: SchemaNode): void {
    if (form.enum && !form.enum.some((allowed) => sameJson(allowed, value))) {
      errors.push(unsupportedField(path(), value, form.enum.map(String)));
    }
    if (typeof value === 'string') checkText(value, form);
    if (typeof value === 'number') checkNumber(value, form);
    const { maxItems } = form;
    if (Array.isArray(value) && maxItems !== undefined && value.length > maxItems) {
      const message = `Too many: ${value.length}: must have at most ${maxItems} items`;
      errors.push({ field: path(), reason: 'FieldValueTooMany', message });
    }
  }

  function checkText(text: string, { minLength, maxLength, pattern, format }: SchemaNode): void {
    const length = [...text].length;
    if (minLength !== undefined && length < minLength) add(text, `should be at least ${minLength} chars long`);
    if (maxLength !== undefined && length > maxLength) {
      const message = `Too long: may not be more than ${maxLength} bytes`;
      errors.push({ field: path(), reason: 'FieldValueTooLong', message });
    }
    if (pattern !== undefined && patterns.get(pattern)?.(text) === false) add(text, `should match '${pattern}'`);
    if (format === 'date-time' && !dateTime.test(text)) add(text, `must be of type date-time: ${JSON.stringify(text)}`);
  }

  function checkNumber(number: number, { minimum, maximum }: SchemaNode): void {
    if (minimum !== undefined && number < minimum) add(number, `should be greater than or equal to ${minimum}`);
    if (maximum !== undefined && number > maximum) add(number, `should be less than or equal to ${maximum}`);
  }

  walk(object, schema);
  return errors.slice(0, mostErrors);
}

function hasType(value: unknown, form: SchemaNode): boolean {
  if (form['x-kubernetes-int-or-string']) return typeof value === 'string' || isInteger(value, 'int64');
  if (form.format === 'quantity') return isQuantity(value);
  switch (form.type) {
    case 'object':
      return isRecord(value);
    case 'array':
      return Array.isArray(value);
    case 'integer':
      return isInteger(value, form.format);
    case 'number':
      return typeof value === 'number';
    case 'boolean':
    case 'string':
      return typeof value === form.type;
    default:
      return true;
  }
}

function isQuantity(value: unknown): boolean {
  return (typeof value === 'string' || typeof value === 'number') && parseQuantity(value) !== undefined;
}

/** Beyond 2^53 a number of JSON is not what was written. */
function isInteger(value: unknown, format: string | undefined): boolean {
  if (!Number.isInteger(value)) return false;
  const bits = format === 'int32' ? 31 : 63;
  return Math.abs(Number(value)) < 2 ** bits;
}

function typeName(form: SchemaNode): string {
  if (form['x-kubernetes-int-or-string']) return 'integer or string';
  if (form.format === 'quantity') return 'quantity';
  return form.type === 'integer' && form.format !== undefined ? form.format : String(form.type);
}

/** Type of a value in the words of OpenAPI. */
function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  return typeof value;
}
