import type { Request, Response } from 'express';
import { unreachable } from '../../base/index.ts';
import { checkAccess } from '../access.ts';
import type { ApiType } from '../api-type.ts';
import { ApiError, badRequest, qualified } from '../errors.ts';
import { selectedName, type WriteOptions, type Written } from '../objects/index.ts';
import type { IncludeObject } from '../print/index.ts';
import { verbsOf } from '../types/index.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { applyObject, checkNoForce, isApply, managerOf } from './apply.ts';
import { parseBody } from './body.ts';
import { deleteCollection, deleteObject } from './delete.ts';
import { fieldValidationOf } from './field-validation.ts';
import { negotiate } from './negotiate.ts';
import { patchChange } from './patch.ts';
import { isDryRun, isTrue, type ResourcePath, targetOf } from './request.ts';
import { sendList, sendObject, type View } from './respond.ts';
import { serveSubresource } from './subresources.ts';
import { Watch } from './watch.ts';

type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection';

/** Serves one request for a resource. Throws ApiError and StoreError as long as nothing has been sent. */
export async function serveResource(
  context: ApiContext,
  path: ResourcePath,
  call: ResourceCall,
  request: Request,
  response: Response,
): Promise<void> {
  const { type, subresource, namespace, name } = path;
  const isOwn = subresource !== undefined && subresource !== 'status';
  const verb = isOwn ? subresourceVerb(path, request.method) : verbOf(request.method, path, call);
  const { group, resource } = type;
  checkAccess(call.user, { verb, group, resource, subresource }, { namespace, name });
  if (isOwn) {
    await serveSubresource(context, path, call, request, response);
    return;
  }
  checkVerb(path, verb);
  const view = viewOf(context, path.type, call);
  switch (verb) {
    case 'get':
      sendObject(response, 200, context.reader.get(path.type, targetOf(path)).object, view);
      return;
    case 'list':
      sendList(response, context.reader.list(path.type, path.namespace, call.query), view);
      return;
    case 'watch':
      startWatch(context, path, call, view, response);
      return;
    case 'create':
      sendObject(response, 201, await create(context, path, call, response), view);
      return;
    case 'update':
      sendObject(response, 200, await replace(context, path, call, response), view);
      return;
    case 'patch': {
      const { object, isNew } = await patch(context, path, call, response);
      sendObject(response, isNew ? 201 : 200, object, view);
      return;
    }
    case 'delete':
      await deleteObject(context, path, call, response);
      return;
    case 'deletecollection':
      await deleteCollection(context, path, call, response);
      return;
    default:
      unreachable(verb);
  }
}

/** Who may only read pods runs nothing in them, though a websocket is asked for by GET. */
const runs: readonly string[] = ['exec', 'attach'];

function subresourceVerb({ subresource }: ResourcePath, method: string): Verb {
  if (runs.includes(subresource ?? '')) return 'create';
  const verbs: Readonly<Record<string, Verb>> = { POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' };
  return verbs[method] ?? 'get';
}

function verbOf(method: string, path: ResourcePath, call: ResourceCall): Verb {
  const isCollection = path.name === undefined;
  switch (method) {
    case 'GET':
    case 'HEAD':
      if (!isCollection) return 'get';
      return isTrue(call.query.watch) && call.query.watch !== undefined ? 'watch' : 'list';
    case 'POST':
      if (isCollection) return 'create';
      break;
    case 'PUT':
      if (!isCollection) return 'update';
      break;
    case 'PATCH':
      if (!isCollection) return 'patch';
      break;
    case 'DELETE':
      return isCollection ? 'deletecollection' : 'delete';
  }
  const where = isCollection ? 'the collection' : 'one object';
  throw new ApiError('METHOD_NOT_ALLOWED', `${method} is not supported on ${where} of ${qualified(path.type)}`);
}

function checkVerb({ type, subresource }: ResourcePath, verb: Verb): void {
  if (subresource === 'status' && !type.statusSubresource) {
    const text = `the server could not find the requested resource: ${qualified(type)} have no status sub-resource`;
    throw new ApiError('NOT_FOUND', text);
  }
  const verbs: readonly string[] = subresource === 'status' ? ['get', 'update', 'patch'] : verbsOf(type);
  if (verbs.includes(verb)) return;
  const why = type.readOnly ? '; they are built in and cannot be changed or added on this server' : '';
  throw new ApiError('METHOD_NOT_ALLOWED', `${verb} is not supported on resources of kind "${qualified(type)}"${why}`);
}

function viewOf({ clock }: ApiContext, type: ApiType, { accept, query }: ResourceCall): View {
  return { type, representation: negotiate(accept), include: includeOf(query.includeObject), now: clock.now() };
}

function includeOf(value: string | undefined): IncludeObject {
  if (value === undefined || value === '') return 'Metadata';
  if (value === 'None' || value === 'Metadata' || value === 'Object') return value;
  throw badRequest(`Invalid value: "${value}": includeObject must be None, Metadata or Object`);
}

function create({ writer }: ApiContext, path: ResourcePath, call: ResourceCall, response: Response) {
  const { type } = path;
  if (type.namespaced && path.namespace === undefined) {
    throw new ApiError('METHOD_NOT_ALLOWED', `${qualified(type)} are created below /namespaces/<name>/`);
  }
  const body = parseBody(call.body, call.contentType);
  return writer.create(type, path.namespace ?? '', body, writeOptionsOf(call, response, 'CreateOptions'));
}

/** The body has been read by then: what is no JSON has no members that occur twice. */
function writeOptionsOf(
  call: ResourceCall,
  response: Response,
  kind: 'CreateOptions' | 'UpdateOptions' | 'PatchOptions',
): WriteOptions {
  const validation = fieldValidationOf(call, response, kind);
  return { user: call.user, dryRun: isDryRun(call.query.dryRun), validation, manager: managerOf(call, kind) };
}

const statusOf = ({ subresource }: ResourcePath) => (subresource === 'status' ? ('status' as const) : undefined);

function replace({ writer }: ApiContext, path: ResourcePath, call: ResourceCall, response: Response) {
  const body = parseBody(call.body, call.contentType);
  const request = { ...targetOf(path), subresource: statusOf(path), isReplace: true, change: () => body };
  return writer.update(path.type, request, writeOptionsOf(call, response, 'UpdateOptions'));
}

async function patch(
  context: ApiContext,
  path: ResourcePath,
  call: ResourceCall,
  response: Response,
): Promise<Written> {
  if (isApply(call)) return applyObject(context, path, call, writeOptionsOf(call, response, 'PatchOptions'));
  checkNoForce(call);
  const change = patchChange(path.type, call);
  const request = { ...targetOf(path), subresource: statusOf(path), isReplace: false, change };
  const options = writeOptionsOf(call, response, 'PatchOptions');
  return { object: await context.writer.update(path.type, request, options), isNew: false };
}

function startWatch(context: ApiContext, path: ResourcePath, call: ResourceCall, view: View, response: Response): void {
  if (view.representation.kind === 'plain' && view.representation.encoding === 'yaml') {
    throw new ApiError('NOT_ACCEPTABLE', 'a watch is sent as JSON only');
  }
  const { store, clock, watches } = context;
  // A name in the selector is common (kubectl get NAME -w); it is looked at like any other field.
  const name = selectedName(call.query.fieldSelector);
  const watch: Watch = new Watch(
    { view, namespace: path.namespace, query: call.query },
    response,
    context.watchOptions,
    { store, clock, onEnd: () => watches.delete(watch) },
  );
  watches.add(watch);
  try {
    watch.start();
  } catch (error) {
    watches.delete(watch);
    throw error;
  }
  context.log.debug({ resource: path.type.resource, namespace: path.namespace, name }, 'watch started');
}
