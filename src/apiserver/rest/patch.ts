import { applyMergePatch, isRecord } from '../../base/index.ts';
import type { ApiType } from '../api-type.ts';
import { badRequest } from '../errors.ts';
import type { ApiObject } from '../object.ts';
import { applyJsonPatch, applyStrategicPatch } from '../patch/index.ts';
import type { ResourceCall } from './api-context.ts';
import { applyPatch } from './apply.ts';
import { mediaType, parseJson, textOf, unsupported } from './body.ts';

const jsonPatch = 'application/json-patch+json';
const mergePatch = 'application/merge-patch+json';
const strategicPatch = 'application/strategic-merge-patch+json';

/** The change a PATCH asks for. Throws ApiError: BAD_REQUEST, UNSUPPORTED_MEDIA_TYPE. */
export function patchChange(type: ApiType, call: Pick<ResourceCall, 'body' | 'contentType'>) {
  const { strategic } = type;
  const accepted = strategic ? [jsonPatch, mergePatch, strategicPatch] : [jsonPatch, mergePatch];
  const media = mediaType(call.contentType);
  if (!accepted.includes(media)) throw unsupported(media, [...accepted, applyPatch], hintOf(media));
  const patch = parseJson(textOf(call.body));
  if (media !== jsonPatch && !isRecord(patch)) throw badRequest('this kind of patch is one object');
  return (current: ApiObject): unknown => {
    if (media === jsonPatch) return applyJsonPatch(current, patch);
    if (media === strategicPatch && strategic) return applyStrategicPatch(current, patch, strategic);
    return applyMergePatch(current, patch);
  };
}

function hintOf(media: string): string {
  if (media === applyPatch) return '; nothing is applied to this sub-resource';
  return media === strategicPatch
    ? '; custom resources have no strategic merge patch: use kubectl patch --type merge'
    : '';
}
