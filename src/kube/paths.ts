import type { ResourceType } from '../api/index.ts';
import { KubeError } from './errors.ts';

/** Which object of a type. `namespace` is left out for cluster-wide types. */
export interface ObjectRef {
  readonly namespace?: string | undefined;
  readonly name: string;
}

export type QueryParameters = Readonly<Record<string, string | number | boolean | undefined>>;

/** Path of a collection: all namespaces when none is given. */
export function collectionPath(type: ResourceType, namespace?: string): string {
  const root = type.group === '' ? `/api/${type.version}` : `/apis/${type.group}/${type.version}`;
  const scope = type.namespaced && namespace !== undefined ? `/namespaces/${segment(namespace)}` : '';
  return `${root}${scope}/${type.resource}`;
}

/** Path of one object. Throws INVALID for a name that would lead elsewhere. */
export function objectPath(type: ResourceType, ref: ObjectRef, subresource?: string): string {
  if (type.namespaced && !ref.namespace) {
    throw new KubeError('INVALID', `${type.kind} ${ref.name}: a namespace is needed`);
  }
  const base = `${collectionPath(type, ref.namespace)}/${segment(ref.name)}`;
  return subresource ? `${base}/${subresource}` : base;
}

export function withQuery(path: string, query: QueryParameters): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') parameters.set(name, String(value));
  }
  return parameters.size > 0 ? `${path}?${parameters}` : path;
}

/** A name from elsewhere must stay one path segment. */
function segment(name: string): string {
  if (name === '' || name === '.' || name === '..' || name.includes('/')) {
    throw new KubeError('INVALID', `${JSON.stringify(name)} is no object name`);
  }
  return encodeURIComponent(name);
}

/** `metadata.name=x,metadata.namespace=y`, with the characters of the syntax escaped in values. */
export function fieldSelector(fields: Readonly<Record<string, string>>): string {
  return Object.entries(fields)
    .map(([field, value]) => `${field}=${value.replace(/[\\,=]/g, (character) => `\\${character}`)}`)
    .join(',');
}
