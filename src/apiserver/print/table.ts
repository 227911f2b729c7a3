import type { ApiType, Column } from '../api-type.ts';
import type { ApiObject } from '../object.ts';
import { plain } from './column.ts';

/** What of the object goes along with a row. */
export type IncludeObject = 'None' | 'Metadata' | 'Object';

export interface Table {
  readonly kind: 'Table';
  readonly apiVersion: 'meta.k8s.io/v1';
  readonly metadata: object;
  readonly columnDefinitions: readonly object[];
  readonly rows: readonly object[];
}

export interface TableOptions {
  readonly include: IncludeObject;
  readonly now: Date;
  /** Members of the table's metadata: resourceVersion, continue. */
  readonly metadata: object;
  /** A watch describes its columns in its first event only. */
  readonly withColumns: boolean;
}

/** The server-side table that `kubectl get` prints. */
export function toTable(type: ApiType, objects: readonly ApiObject[], options: TableOptions): Table {
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: options.metadata,
    columnDefinitions: options.withColumns ? type.columns.map(definition) : [],
    rows: objects.map((object) => ({
      cells: type.columns.map((column) => cellOf(column, object, options.now)),
      ...(options.include === 'None' ? {} : { object: included(object, options.include) }),
    })),
  };
}

/** One object with a member that cannot be made text, as with a `toString` of its own, must not hide all others. */
function cellOf(column: Column, object: ApiObject, now: Date): string | number | boolean {
  try {
    return plain(column.cell(object, now));
  } catch {
    return '<invalid>';
  }
}

function definition(column: Column): object {
  const { name, type, format = '', description, priority } = column;
  return { name, type, format, description, priority };
}

function included(object: ApiObject, include: IncludeObject): object {
  return include === 'Object' ? object : partialMetadata(object);
}

export function partialMetadata(object: ApiObject): object {
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata };
}
