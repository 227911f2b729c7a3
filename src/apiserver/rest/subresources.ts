import { pipeline } from 'node:stream/promises';
import type { Request, Response } from 'express';
import { isRecord } from '../../base/index.ts';
import { ApiError, badRequest, qualified } from '../errors.ts';
import { type ApiObject, at, objectsAt, stringAt } from '../object.ts';
import { bindPod } from '../objects/index.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { parseBody } from './body.ts';
import { deleteOptions } from './delete.ts';
import { reviewEviction } from './eviction.ts';
import { serveExec } from './exec.ts';
import { podReachOf } from './guest-port.ts';
import { isDryRun, isTrue, type ResourcePath, targetOf } from './request.ts';
import { sendValue } from './respond.ts';
import { scaleOf } from './scale.ts';
import { upgradeOf } from './upgrade.ts';

type Serve = (
  context: ApiContext,
  path: ResourcePath,
  call: ResourceCall,
  request: Request,
  response: Response,
) => Promise<void>;

const served: Readonly<Record<string, { readonly methods: readonly string[]; readonly serve: Serve }>> = {
  'pods/log': { methods: ['GET'], serve: serveLog },
  // SPDY asks by POST: what it may do instead is said to it, too.
  'pods/exec': { methods: ['GET', 'POST'], serve: serveExecCall },
  'pods/binding': { methods: ['POST'], serve: serveBinding },
  'pods/eviction': { methods: ['POST'], serve: serveEviction },
  'pods/portforward': { methods: ['GET', 'POST'], serve: servePortForward },
  'namespaces/finalize': { methods: ['PUT'], serve: refuseFinalize },
};

const known = ['exec', 'attach', 'proxy', 'ephemeralcontainers', 'resize', 'scale', 'token'];

const instead: Readonly<Record<string, string>> = {
  'pods/attach':
    ': a launcher reads no input; use kubectl logs -f for what it writes, kubectl exec for a shell, virt-node console for the guest',
};

export const serveSubresource: Serve = async (context, path, call, request, response) => {
  const name = `${path.type.resource}/${path.subresource}`;
  if (path.subresource === 'scale' && path.type.subresources.some((each) => each.name === 'scale')) {
    sendValue(response, 200, await scaleOf(context, path, call, request.method));
    return;
  }
  const found = served[name];
  if (!found) {
    const isKnown = known.includes(path.subresource ?? '');
    const text = isKnown
      ? `${name} is not implemented by this server${instead[name] ?? ''}`
      : `the server could not find the requested resource: ${qualified(path.type)} have no "${path.subresource}"`;
    throw new ApiError(isKnown ? 'NOT_IMPLEMENTED' : 'NOT_FOUND', text);
  }
  if (!found.methods.includes(request.method)) {
    const methods = found.methods.join(' or ');
    throw new ApiError('METHOD_NOT_ALLOWED', `${request.method} is not supported on ${name}: use ${methods}`);
  }
  await found.serve(context, path, call, request, response);
};

async function serveLog(...[context, path, call, , response]: Parameters<Serve>): Promise<void> {
  const { query } = call;
  const { object } = context.reader.get(path.type, targetOf(path));
  if (!context.podLogs) throw new ApiError('NOT_IMPLEMENTED', 'this server was started without a source of pod logs');
  const container = containerOf(object, query.container);
  if (isSet(query.previous)) {
    // No container is started a second time: the pods of this node have restartPolicy Never.
    throw badRequest(`previous terminated container "${container}" in pod "${object.metadata.name}" not found`);
  }
  const logQuery = {
    namespace: path.namespace ?? '',
    pod: object.metadata.name,
    uid: object.metadata.uid ?? '',
    container,
    follow: isSet(query.follow),
    tailLines: wholeNumber('tailLines', query.tailLines),
    limitBytes: wholeNumber('limitBytes', query.limitBytes),
    sinceMs: sinceMsOf(query, context.clock.now()),
    timestamps: isSet(query.timestamps),
  };
  const ended = new AbortController();
  response.on('close', () => ended.abort());
  const signal = AbortSignal.any([ended.signal, context.stopping]);
  const stream = await context.podLogs.read(logQuery, signal);
  if (!stream) {
    const text = `container "${container}" in pod "${object.metadata.name}" is waiting to start: there is no log yet`;
    throw badRequest(text);
  }
  response.status(200).set('Content-Type', 'text/plain; charset=utf-8');
  response.flushHeaders();
  // The reader going away is the usual end of a followed log.
  await pipeline(stream, response, { signal }).catch((error) => context.log.debug({ err: String(error) }, 'log ended'));
}

const isSet = (value: string | undefined) => value !== undefined && isTrue(value);

function wholeNumber(name: string, value: string | undefined): number | undefined {
  if (value === undefined || value === '') return undefined;
  if (/^\d{1,12}$/.test(value)) return Number(value);
  throw badRequest(`Invalid value: "${value}": ${name} must be a whole number`);
}

function sinceMsOf({ sinceSeconds, sinceTime }: ResourceCall['query'], now: Date): number | undefined {
  if (sinceSeconds && sinceTime) throw badRequest('at most one of `sinceTime` or `sinceSeconds` may be specified');
  if (sinceTime) {
    const atMs = Date.parse(sinceTime);
    if (Number.isNaN(atMs)) throw badRequest(`Invalid value: "${sinceTime}": sinceTime must be a time as of RFC 3339`);
    return atMs;
  }
  const seconds = wholeNumber('sinceSeconds', sinceSeconds);
  if (seconds === 0) throw badRequest('Invalid value: 0: sinceSeconds must be greater than 0');
  return seconds === undefined ? undefined : now.getTime() - seconds * 1000;
}

function containerOf(pod: ApiObject, asked: string | undefined): string {
  const names = objectsAt(pod, 'spec', 'containers').map((container) => stringAt(container, 'name') ?? '');
  const all = [
    ...names,
    ...objectsAt(pod, 'spec', 'initContainers').map((container) => stringAt(container, 'name') ?? ''),
  ];
  const { name } = pod.metadata;
  if (asked) {
    if (all.includes(asked)) return asked;
    throw badRequest(`container ${asked} is not valid for pod ${name}`);
  }
  const [only] = names;
  if (names.length === 1 && only) return only;
  throw badRequest(`a container name must be specified for pod ${name}, choose one of: [${all.join(' ')}]`);
}

/** Of a launcher's pod these are the guest's ports, but for those that its launcher keeps. */
async function servePortForward(...[context, path, , request, response]: Parameters<Serve>): Promise<void> {
  const { object: pod } = context.reader.get(path.type, targetOf(path));
  const { podStreams } = context;
  if (!podStreams) throw new ApiError('NOT_IMPLEMENTED', 'this server was started without a pod runner');
  const { name } = pod.metadata;
  const refuse = (why: string) => new ApiError('CONFLICT', `the ports of pod "${name}" cannot be reached: ${why}`);
  const phase = stringAt(pod, 'status', 'phase') || 'Pending';
  if (phase !== 'Running') throw refuse(`it is ${phase}, not Running`);
  const found = podReachOf(pod);
  if (!found) throw refuse('it has no address of its own (yet), and no guest');
  const { socket, head } = upgradeOf(request, response, 'kubectl');
  podStreams.forwardPorts(found, request, socket, head);
}

async function serveExecCall(...[context, path, , request, response]: Parameters<Serve>): Promise<void> {
  serveExec(context, context.reader.get(path.type, targetOf(path)).object, request, response);
}

async function serveBinding(...[context, path, call, , response]: Parameters<Serve>): Promise<void> {
  const node = stringAt(parseBody(call.body, call.contentType), 'target', 'name');
  if (!node) throw badRequest('a Binding needs target.name, the name of a node');
  await bindPod(context, path.type, targetOf(path), { node, dryRun: isDryRun(call.query.dryRun) });
  sendValue(response, 201, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 });
}

/** No disruption budgets here: an eviction is a deletion, but of pods whose guest moves instead. */
async function serveEviction(...[context, path, call, , response]: Parameters<Serve>): Promise<void> {
  const body = parseBody(call.body, call.contentType);
  if (!isRecord(body)) throw badRequest('the body must be an Eviction');
  const given = at(body, 'deleteOptions') ?? {};
  const options = deleteOptions({ ...call, body: Buffer.from(JSON.stringify(given)), contentType: 'application/json' });
  await reviewEviction(context, path, targetOf(path), { eviction: body, query: call.query });
  await context.remover.remove(path.type, targetOf(path), options);
  sendValue(response, 201, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 });
}

async function refuseFinalize(): Promise<void> {
  const text = 'namespaces/finalize is not implemented: this server finalizes namespaces itself, once they are empty';
  throw new ApiError('NOT_IMPLEMENTED', text);
}
