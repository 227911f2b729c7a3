import { isRecord } from '../../base/index.ts';
import { checkAccess } from '../access.ts';
import { ApiError, badRequest, invalid, requiredField } from '../errors.ts';
import { type JsonObject, stringAt } from '../object.ts';
import { addressOf } from '../objects/index.ts';
import { findType, uploadGroup } from '../types/index.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';

export const uploadTokenRequests = {
  resource: 'uploadtokenrequests',
  kind: 'UploadTokenRequest',
  namespaced: true,
} as const;

/** A token for an upload into a claim that is there (`pkg/apiserver/apiserver.go` of CDI). Throws ApiError. */
export async function answerUploadToken(
  context: ApiContext,
  namespace: string,
  call: ResourceCall,
): Promise<JsonObject> {
  const { group, version } = uploadGroup;
  const { resource, kind } = uploadTokenRequests;
  checkAccess(call.user, { verb: 'create', group, resource, subresource: undefined }, { namespace, name: undefined });
  if (!context.uploadTokens) throw new ApiError('NOT_IMPLEMENTED', 'this server takes no uploads');
  const body = parseBody(call.body, call.contentType);
  if (!isRecord(body)) throw badRequest('the body must be one object');
  const name = stringAt(body, 'spec', 'pvcName');
  if (!name) throw invalid({ group, resource, kind }, '', [requiredField('spec.pvcName')]);
  const claims = findType('', 'v1', 'persistentvolumeclaims');
  const claim = claims && context.store.get(addressOf(claims, { namespace, name }))?.object;
  if (!claim) {
    throw new ApiError(
      'NOT_FOUND',
      `persistentvolumeclaims ${JSON.stringify(name)} not found: what is to be uploaded to?`,
    );
  }
  const token = await context.uploadTokens.issue({ namespace, name, uid: String(claim.metadata.uid) });
  const metadata = { ...(isRecord(body.metadata) && body.metadata), namespace, creationTimestamp: null };
  return { apiVersion: `${group}/${version}`, kind, metadata, spec: { pvcName: name }, status: { token } };
}
