import { apiVersionOf } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import type { ApiType } from '../api-type.ts';
import { ApiError, badRequest, type FieldError, invalid, invalidField } from '../errors.ts';
import type { ApiObject, JsonObject } from '../object.ts';
import type { Target } from './context.ts';

export const maxObjectBytes = 1.5 * 1024 * 1024;

/** Checks that a body is an object of this type and fills in what its URL says. Gives a copy. Throws ApiError BAD_REQUEST. */
export function asObject(body: unknown, type: ApiType, namespace: string): ApiObject {
  if (!isRecord(body)) throw badRequest('the body must be one object');
  const wanted = apiVersionOf(type);
  if (type.custom) checkPresent(body, 'apiVersion', 'kind');
  const { apiVersion = wanted, kind = type.kind } = body;
  // Not even their names go into a message: an object with a `toString` of its own cannot be made text.
  if (typeof apiVersion !== 'string' || typeof kind !== 'string') throw badRequest('apiVersion and kind must be text');
  if (apiVersion !== wanted) {
    throw badRequest(`the API version in the data (${apiVersion}) does not match the expected API version (${wanted})`);
  }
  if (kind !== type.kind) {
    throw badRequest(`the kind in the data (${kind}) does not match the expected kind (${type.kind})`);
  }
  const metadata = body.metadata ?? {};
  if (!isRecord(metadata)) throw badRequest('metadata must be an object');
  for (const name of ['name', 'generateName', 'namespace', 'uid', 'resourceVersion']) {
    const value = metadata[name];
    if (value !== undefined && value !== null && typeof value !== 'string')
      throw badRequest(`metadata.${name} must be text`);
  }
  // Only apply on the server would use them.
  const { managedFields: _dropped, selfLink: _old, ...kept } = metadata;
  const object = { ...body, apiVersion: wanted, kind: type.kind, metadata: withoutNulls(kept) } as unknown as ApiObject;
  if (type.namespaced) checkNamespace(object, namespace);
  else delete object.metadata.namespace;
  return object;
}

/** A URL tells the kind of built-in types; custom resources are read without that knowledge. */
function checkPresent(body: JsonObject, ...names: readonly string[]): void {
  const missing = names.find((name) => typeof body[name] !== 'string' || body[name] === '');
  if (missing !== undefined) throw badRequest(`${missing} is missing in the object`);
}

function withoutNulls(metadata: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== null && value !== ''));
}

function checkNamespace(object: ApiObject, namespace: string): void {
  object.metadata.namespace ??= namespace;
  if (object.metadata.namespace === namespace) return;
  throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
}

/** A write to a URL must carry the name of the URL, or none. */
export function checkName(object: ApiObject, { name }: Target): void {
  object.metadata.name ??= name;
  if (object.metadata.name === name) return;
  throw badRequest(`the name of the object (${object.metadata.name}) does not match the name on the URL (${name})`);
}

/** Throws ApiError TOO_LARGE. */
export function checkSize(object: ApiObject): void {
  const bytes = Buffer.byteLength(JSON.stringify(object));
  if (bytes <= maxObjectBytes) return;
  throw new ApiError('TOO_LARGE', `the object has ${bytes} bytes, more than the limit of ${maxObjectBytes}`);
}

/** System members of the metadata stay as they are. Changes `next`. */
export function keepSystemMetadata(next: ApiObject, old: ApiObject): void {
  const kept = ['uid', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds', 'generation'] as const;
  for (const name of [...kept, 'resourceVersion', 'generateName'] as const) {
    if (old.metadata[name] === undefined) delete next.metadata[name];
    else Object.assign(next.metadata, { [name]: old.metadata[name] });
  }
}

/** Once an object is being deleted, finalizers only go. */
export function checkFinalizers(next: ApiObject, old: ApiObject, type: ApiType): void {
  if (old.metadata.deletionTimestamp === undefined) return;
  const before = new Set(old.metadata.finalizers);
  const added = (next.metadata.finalizers ?? []).filter((item) => !before.has(item));
  if (added.length === 0) return;
  const text = 'Forbidden: no new finalizers can be added if the object is being deleted';
  const errors: FieldError[] = [invalidField('metadata.finalizers', added, text)];
  throw invalid(type, old.metadata.name, errors);
}
