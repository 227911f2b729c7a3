import type { Response } from 'express';
import { apiVersionOf } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import type { ApiType } from '../api-type.ts';
import { ApiError, badRequest, invalidOptions, unsupportedField } from '../errors.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import type { Propagation, RemovalOptions } from '../objects/index.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';
import { isDryRun, type ResourcePath, targetOf } from './request.ts';
import { sendValue } from './respond.ts';
import { jsonWithList, sendPieces } from './send-pieces.ts';

export async function deleteObject(
  context: ApiContext,
  path: ResourcePath,
  call: ResourceCall,
  response: Response,
): Promise<void> {
  const { object, gone } = await context.remover.remove(path.type, targetOf(path), deleteOptions(call));
  // Kubernetes gives a deleted pod back, and a Status for most others.
  if (gone && path.type.resource !== 'pods') sendValue(response, 200, successOf(path.type, object));
  else sendValue(response, 200, object);
}

/** Deletes what the selectors match; what another client deletes meanwhile is fine. */
export async function deleteCollection(
  context: ApiContext,
  path: ResourcePath,
  call: ResourceCall,
  response: Response,
): Promise<void> {
  const { type } = path;
  if (type.namespaced && path.namespace === undefined) {
    throw new ApiError('METHOD_NOT_ALLOWED', 'a collection is deleted namespace by namespace');
  }
  const options = deleteOptions(call);
  const { entries, revision } = context.reader.list(type, path.namespace, call.query);
  const removals = entries.map(async ({ namespace, name, object }) => {
    try {
      return (await context.remover.remove(type, { namespace, name }, options)).object;
    } catch (error) {
      if (error instanceof ApiError && error.code === 'NOT_FOUND') return object;
      throw error;
    }
  });
  const items = await Promise.all(removals);
  const head = { kind: `${type.kind}List`, apiVersion: apiVersionOf(type) };
  const metadata = { resourceVersion: String(revision) };
  sendPieces(response, jsonWithList({ ...head, metadata }, 'items', textsOf(items)));
}

function* textsOf(items: readonly ApiObject[]): Generator<string> {
  for (const item of items) yield JSON.stringify(item);
}

function successOf(type: ApiType, object: ApiObject): object {
  const { name, uid } = object.metadata;
  const details = { name, ...(type.group === '' ? {} : { group: type.group }), kind: type.resource, uid };
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details };
}

/** Options come as a body, as query parameters, or not at all. */
export function deleteOptions({ body, contentType, query }: ResourceCall): RemovalOptions {
  const given = body.length === 0 ? {} : parseBody(body, contentType);
  if (!isRecord(given) || (given.kind !== undefined && given.kind !== 'DeleteOptions')) {
    throw badRequest('the body of a DELETE must be DeleteOptions');
  }
  const grace = given.gracePeriodSeconds ?? query.gracePeriodSeconds;
  const propagation = propagationOf(given.propagationPolicy ?? query.propagationPolicy, given.orphanDependents);
  const uid = stringAt(given, 'preconditions', 'uid');
  const resourceVersion = stringAt(given, 'preconditions', 'resourceVersion');
  return {
    dryRun: isDryRun(given.dryRun) || isDryRun(query.dryRun),
    ...(grace === undefined || grace === null || grace === '' ? {} : { gracePeriodSeconds: graceOf(grace) }),
    ...(propagation === undefined ? {} : { propagation }),
    ...(at(given, 'preconditions') === undefined
      ? {}
      : { preconditions: { ...(uid ? { uid } : {}), ...(resourceVersion ? { resourceVersion } : {}) } }),
  };
}

function graceOf(value: unknown): number {
  const seconds = typeof value === 'string' || typeof value === 'number' ? Number(value) : Number.NaN;
  if (Number.isSafeInteger(seconds) && seconds >= 0) return seconds;
  throw badRequest(`Invalid value: ${JSON.stringify(value)}: gracePeriodSeconds must be a whole number, 0 or more`);
}

function propagationOf(policy: unknown, orphanDependents: unknown): Propagation | undefined {
  if (policy === undefined || policy === null || policy === '') return orphanDependents === true ? 'Orphan' : undefined;
  if (policy === 'Background' || policy === 'Foreground' || policy === 'Orphan') return policy;
  const allowed = ['Background', 'Foreground', 'Orphan'];
  throw invalidOptions('DeleteOptions', unsupportedField('propagationPolicy', policy, allowed));
}
