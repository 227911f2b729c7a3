import type { ApiType } from '../api-type.ts';
import { ApiError, badRequest, invalidOptions, unsupportedField } from '../errors.ts';
import type { Target } from '../objects/index.ts';
import { findType } from '../types/index.ts';

/** What a URL below `/api/<version>` or `/apis/<group>/<version>` names. */
export interface ResourcePath {
  readonly type: ApiType;
  /** undefined: all namespaces, or the type has none. */
  readonly namespace: string | undefined;
  /** undefined: the collection. */
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** `rest` are the decoded path segments after the version. Throws ApiError NOT_FOUND. */
export function parsePath(group: string, version: string, rest: readonly string[]): ResourcePath {
  const [first, second, third, ...more] = rest;
  const isInNamespace =
    first === 'namespaces' && second !== undefined && third !== undefined && !isNamespaceSubresource(third, more);
  const [resource = '', name, subresource, ...extra] = isInNamespace ? [third, ...more] : rest;
  const type = findType(group, version, resource);
  if (!type || extra.length > 0) throw noSuchPath(group, version, resource);
  const namespace = isInNamespace ? second : undefined;
  if (isInNamespace && !type.namespaced) throw noSuchPath(group, version, resource);
  if (type.namespaced && name !== undefined && namespace === undefined) throw noSuchPath(group, version, resource);
  return { type, namespace, name: name || undefined, subresource };
}

/** `/api/v1/namespaces/x/status` is about the namespace, `/api/v1/namespaces/x/pods` about its pods. */
function isNamespaceSubresource(segment: string, more: readonly string[]): boolean {
  return (segment === 'status' || segment === 'finalize') && more.length === 0;
}

export function noSuchPath(group: string, version: string, resource: string): ApiError {
  const what = [resource || 'resource', version, group].filter(Boolean).join('.');
  const text = `the server could not find the requested resource: this small server has no ${what} (see kubectl api-resources)`;
  return new ApiError('NOT_FOUND', text);
}

/** Of a kind that this server has. Throws ApiError NOT_FOUND. */
export function servedType(group: string, version: string, resource: string): ApiType {
  const type = findType(group, version, resource);
  if (!type) throw noSuchPath(group, version, resource);
  return type;
}

export function targetOf(path: ResourcePath): Target {
  if (path.name === undefined) throw badRequest('a name is needed');
  return { namespace: path.namespace ?? '', name: path.name };
}

export type Query = Readonly<Record<string, string>>;

/** Query parameters; of one given more than once the first counts. */
export function parseQuery(url: string): Query {
  const at = url.indexOf('?');
  const parameters = new URLSearchParams(at < 0 ? '' : url.slice(at + 1));
  const query: Record<string, string> = {};
  for (const [key, value] of parameters) if (!Object.hasOwn(query, key) && key !== '__proto__') query[key] = value;
  return query;
}

export function isTrue(value: string | undefined): boolean {
  return value === 'true' || value === '1' || value === '';
}

/** Throws ApiError INVALID for a value Kubernetes does not know either. */
export function isDryRun(value: unknown): boolean {
  if (value === undefined || value === null || value === '') return false;
  const values = Array.isArray(value) ? value : [value];
  if (values.length === 0) return false;
  if (values.every((item) => item === 'All')) return true;
  throw invalidOptions('CreateOptions', unsupportedField('dryRun', value, ['All']));
}

/** Throws ApiError METHOD_NOT_ALLOWED: sub-resources of `subresources.kubevirt.io` that change something take PUT only. */
export function requirePut({ method }: { readonly method: string }, subresource: string): void {
  if (method !== 'PUT')
    throw new ApiError('METHOD_NOT_ALLOWED', `${method} is not supported on ${subresource}: use PUT`);
}
