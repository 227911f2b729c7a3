import { isRecord } from '../../base/index.ts';
import { ApiError, badRequest, conflict, invalid, invalidField, modifiedMessage } from '../errors.ts';
import { type ApiObject, at, numberAt, stringAt } from '../object.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';
import { patchChange } from './patch.ts';
import { isDryRun, type ResourcePath, targetOf } from './request.ts';

/**
 * The number of replicas of an object as `Scale` (autoscaling/v1), which `kubectl scale` and autoscalers read and write, as a
 * CustomResourceDefinition with `.spec.replicas`, `.status.replicas` and `.status.labelSelector` has it. Throws ApiError.
 */
export async function scaleOf(
  { reader, writer }: Pick<ApiContext, 'reader' | 'writer'>,
  path: ResourcePath,
  call: ResourceCall,
  method: string,
): Promise<object> {
  const { type } = path;
  const target = targetOf(path);
  if (method === 'GET') return toScale(reader.get(type, target).object);
  if (method !== 'PUT' && method !== 'PATCH') {
    throw new ApiError(
      'METHOD_NOT_ALLOWED',
      `${method} is not supported on ${type.resource}/scale: use GET, PUT or PATCH`,
    );
  }
  const body = method === 'PUT' ? parseBody(call.body, call.contentType) : undefined;
  const patch = method === 'PATCH' ? patchChange(type, call) : undefined;
  const change = (current: ApiObject) => {
    const wanted = patch ? patch(toScale(current)) : body;
    if (!isRecord(wanted)) throw badRequest('the body must be a Scale');
    const version = stringAt(wanted, 'metadata', 'resourceVersion');
    if (version !== undefined && version !== current.metadata.resourceVersion)
      throw conflict(type, target.name, modifiedMessage);
    return { ...current, spec: { ...(current.spec as object), replicas: replicasOf(wanted, path) } };
  };
  const update = { ...target, subresource: undefined, change, isReplace: false };
  return toScale(await writer.update(type, update, { user: call.user, dryRun: isDryRun(call.query.dryRun) }));
}

function replicasOf(scale: unknown, { type, name = '' }: ResourcePath): number {
  const replicas = at(scale, 'spec', 'replicas') ?? 0;
  if (typeof replicas === 'number' && Number.isInteger(replicas) && replicas >= 0 && replicas < 2 ** 31)
    return replicas;
  throw invalid(type, name, [invalidField('spec.replicas', replicas, 'must be a whole number from 0 on')]);
}

function toScale(object: ApiObject): ApiObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const selector = stringAt(object, 'status', 'labelSelector');
  return {
    apiVersion: 'autoscaling/v1',
    kind: 'Scale',
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(creationTimestamp !== undefined && { creationTimestamp }),
    },
    spec: { replicas: numberAt(object, 'spec', 'replicas') ?? 1 },
    status: { replicas: numberAt(object, 'status', 'replicas') ?? 0, ...(selector && { selector }) },
  };
}
