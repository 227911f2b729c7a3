import { type Condition, findCondition } from '../../api/index.ts';
import type { Column } from '../api-type.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import { age } from './duration.ts';

type Cell = Column['cell'];

export const nameColumn: Column = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description: 'Name must be unique within a namespace.',
  priority: 0,
  cell: (object) => object.metadata.name,
};

export function column(name: string, cell: Cell, more: Partial<Pick<Column, 'type' | 'priority'>> = {}): Column {
  return { name, type: 'string', description: name, priority: 0, cell, ...more };
}

/** Shown with `-o wide` only. */
export function wide(name: string, cell: Cell, more: Partial<Pick<Column, 'type'>> = {}): Column {
  return column(name, cell, { ...more, priority: 1 });
}

/** The plain value at a path, empty text when it is absent, as a CRD's JSONPath column shows it. */
export function atPath(...path: readonly (string | number)[]): Cell {
  return (object) => plain(at(object, ...path));
}

export function plain(value: unknown): string | number | boolean {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value;
  return JSON.stringify(value);
}

/** How long ago it was, as a CRD's column of type `date` shows it; empty when it is absent. */
export function ageAt(...path: readonly string[]): Cell {
  return (object, now) => {
    const time = stringAt(object, ...path);
    return time ? age(time, now) : '';
  };
}

/** `status` of a condition, empty when it is absent. */
export function conditionStatus(type: string): Cell {
  return (object) => {
    const conditions = at(object, 'status', 'conditions') as readonly Condition[] | undefined;
    return plain(findCondition(conditions, type)?.status);
  };
}

export const creationAge: Cell = (object: ApiObject, now: Date) => age(object.metadata.creationTimestamp, now);

/** `AGE` of built-in types is text, of custom resources a date: so it is on a real server. */
export const ageColumn = column('Age', creationAge);
export const ageDateColumn = column('Age', creationAge, { type: 'date' });
