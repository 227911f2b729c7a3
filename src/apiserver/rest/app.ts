import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { errorMessage } from '../../base/index.ts';
import type { User } from '../access.ts';
import { checkAccess } from '../access.ts';
import { ApiError, badRequest } from '../errors.ts';
import { StoreError } from '../store/index.ts';
import { type GroupVersion, metricsGroup, uploadGroup, vmSubresourceGroup } from '../types/index.ts';
import type { ApiContext, ResourceCall } from './api-context.ts';
import { checkOrigin } from './auth.ts';
import { maxBodyBytes, parseBody } from './body.ts';
import {
  aggregated,
  aggregatedType,
  coreVersions,
  groupList,
  oneGroup,
  resourceList,
  versionInfo,
  wantsAggregated,
} from './discovery.ts';
import { RequestLimiter } from './limits.ts';
import { serveMetrics } from './metrics.ts';
import { openapiDocument, openapiIndex, openapiV2Json, openapiV2Protobuf, openapiV2Type } from './openapi.ts';
import { noSuchPath, parsePath, parseQuery } from './request.ts';
import { serveResource } from './resources.ts';
import { sendJson, sendValue } from './respond.ts';
import { answerReview, isReview } from './reviews.ts';
import { answerUploadToken, uploadTokenRequests } from './upload-token.ts';
import { serveVmSubresource } from './vm-subresources.ts';

/** All routes. Every refusal is a Status object. */
export function createApp(context: ApiContext): Express {
  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', false);
  app.use((request, _response, next) => {
    checkOrigin(request, context.extraHosts);
    next();
  });
  addHealth(app, context);
  app.use((request, response, next) => {
    const user = context.tokens.authenticate(request);
    response.locals.user = user;
    endWithRight(context, user, request, response);
    context.onKnown(request.socket);
    next();
  });
  app.use(new RequestLimiter(context.limits, { clock: context.clock }).handler);
  app.use(express.raw({ type: () => true, limit: maxBodyBytes }));
  addDiscovery(app, context);
  addResources(app, context);
  app.use((request: Request) => {
    throw new ApiError('NOT_FOUND', `the server could not find the requested resource: ${request.path}`);
  });
  app.use(errorHandler(context));
  return app;
}

/** A user whose right is taken away keeps no watch, log, console or port. */
function endWithRight({ tokens }: ApiContext, user: User, request: Request, response: Response): void {
  const { socket } = request;
  const forget = tokens.follow(user, () => socket.destroy());
  const over = () => {
    response.removeListener('close', over);
    socket.removeListener('close', over);
    forget();
  };
  response.once('close', over);
  // Once it is a stream, the response has nothing to do with it.
  socket.once('close', over);
}

/** Open to all, as on a real cluster. */
function addHealth(app: Express, { store }: ApiContext): void {
  const healthy = (_request: Request, response: Response) => {
    if (store.healthy) sendJson(response, 200, 'ok', 'text/plain; charset=utf-8');
    else sendJson(response, 500, 'database refuses writes\n', 'text/plain; charset=utf-8');
  };
  for (const path of ['/healthz', '/readyz']) app.get(path, healthy);
  // A full disk is no reason to be started again: reading still works.
  app.get('/livez', (_request, response) => sendJson(response, 200, 'ok', 'text/plain; charset=utf-8'));
  app.get('/version', (_request, response) => sendValue(response, 200, versionInfo));
}

function addDiscovery(app: Express, { schemas }: ApiContext): void {
  const sendDiscovery =
    (isCore: boolean, plain: (request: Request) => object) => (request: Request, response: Response) => {
      if (!wantsAggregated(request.headers.accept)) sendValue(response, 200, plain(request));
      else sendJson(response, 200, JSON.stringify(aggregated(isCore)), aggregatedType);
    };
  app.get('/', (_request, response) => {
    sendValue(response, 200, {
      paths: ['/api', '/apis', '/healthz', '/livez', '/openapi/v2', '/openapi/v3', '/readyz', '/version'],
    });
  });
  app.get(
    '/api',
    sendDiscovery(true, (request) => coreVersions(request.headers.host ?? '')),
  );
  app.get('/apis', sendDiscovery(false, groupList));
  app.get('/api/v1', (_request, response) => sendFound(response, resourceList({ group: '', version: 'v1' })));
  app.get('/apis/:group', (request, response) => sendFound(response, oneGroup(request.params.group)));
  app.get('/apis/:group/:version', (request, response) => sendFound(response, resourceList(request.params)));
  app.get('/openapi/v2', sendOpenapiV2);
  app.get('/openapi/v3', async (_request, response) => sendValue(response, 200, await openapiIndex(schemas)));
  app.get('/openapi/v3/*path', async (request, response) =>
    sendFound(response, await openapiDocument(request.params.path.join('/'), schemas)),
  );
}

function sendFound(response: Response, found: object | undefined): void {
  if (!found) throw new ApiError('NOT_FOUND', 'the server could not find the requested resource');
  sendValue(response, 200, found);
}

function sendOpenapiV2(request: Request, response: Response): void {
  if (!(request.headers.accept ?? '').includes(openapiV2Type)) {
    sendValue(response, 200, openapiV2Json());
    return;
  }
  // Not the name in Accept: Go's parser of media types refuses its @.
  response.status(200).set('Content-Type', 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf');
  response.end(openapiV2Protobuf());
}

function addResources(app: Express, context: ApiContext): void {
  app.all('/api/:version/*rest', (request, response) => {
    const { version, rest } = request.params;
    return serve(context, '', version, rest, request, response);
  });
  app.all('/apis/:group/:version/*rest', (request, response) => {
    const { group, version, rest } = request.params;
    return serve(context, group, version, rest, request, response);
  });
}

async function serve(
  context: ApiContext,
  group: string,
  version: string,
  segments: readonly string[],
  request: Request,
  response: Response,
): Promise<void> {
  const call = callOf(request, response);
  const resource = segments.at(-1) ?? '';
  if (request.method === 'POST' && version === 'v1' && segments.length <= 3) {
    const namespace = segments.length === 3 ? segments[1] : undefined;
    const answer = reviewOf(context, { group, resource, namespace }, call);
    if (answer) {
      sendValue(response, 201, answer);
      return;
    }
  }
  if (isUploadToken(request.method, { group, version }, segments)) {
    sendValue(response, 201, await answerUploadToken(context, segments[1] ?? '', call));
    return;
  }
  if (segments.some((segment) => segment === '')) throw noSuchPath(group, version, resource);
  if (group === vmSubresourceGroup.group && version === vmSubresourceGroup.version) {
    await serveVmSubresource(context, segments, call, request, response);
    return;
  }
  if (group === metricsGroup.group && version === metricsGroup.version) {
    sendValue(response, 200, await serveMetrics(context, segments, call, request.method));
    return;
  }
  await serveResource(context, parsePath(group, version, segments), call, request, response);
}

function isUploadToken(method: string, { group, version }: GroupVersion, segments: readonly string[]): boolean {
  const isOfGroup = group === uploadGroup.group && version === uploadGroup.version;
  const [kind, , resource] = segments;
  const isNamed = segments.length === 3 && kind === 'namespaces' && resource === uploadTokenRequests.resource;
  return method === 'POST' && isOfGroup && isNamed;
}

function reviewOf(
  context: ApiContext,
  path: { group: string; resource: string; namespace: string | undefined },
  call: ResourceCall,
) {
  if (!isReview(path)) return undefined;
  checkAccess(call.user, { verb: 'create', ...path, subresource: undefined }, { ...path, name: undefined });
  return answerReview(path, parseBody(call.body, call.contentType), call.user, context.tokens);
}

function callOf(request: Request, response: Response): ResourceCall {
  return {
    user: response.locals.user as User,
    query: parseQuery(request.url),
    body: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
    contentType: request.headers['content-type'],
    accept: request.headers.accept,
    userAgent: request.headers['user-agent'],
  };
}

function errorHandler({ log }: ApiContext): ErrorRequestHandler {
  // Express knows an error handler by its four arguments.
  return (error: unknown, request, response, _next) => {
    const refusal = toApiError(error);
    if (refusal.httpStatus >= 500) {
      log.error({ err: errorMessage(error), method: request.method, path: request.path }, 'request failed');
    }
    if (response.headersSent) {
      response.destroy();
      return;
    }
    const { retryAfterSeconds } = refusal.details ?? {};
    if (retryAfterSeconds !== undefined) response.set('Retry-After', String(retryAfterSeconds));
    if (refusal.code === 'UNAUTHORIZED') response.set('WWW-Authenticate', 'Bearer realm="virt-node"');
    sendValue(response, refusal.httpStatus, refusal.toStatus());
  };
}

/** Express and its body reader throw errors with an HTTP status. */
function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof StoreError) {
    const code = error.code === 'STORE_CLOSED' ? 'SERVICE_UNAVAILABLE' : 'INTERNAL_ERROR';
    return new ApiError(code, error.message, { cause: error });
  }
  const status = typeof error === 'object' && error !== null && 'status' in error ? error.status : undefined;
  if (status === 413) {
    return new ApiError('TOO_LARGE', `the request has more than the limit of ${maxBodyBytes} bytes`, { cause: error });
  }
  if (status === 415) return new ApiError('UNSUPPORTED_MEDIA_TYPE', errorMessage(error), { cause: error });
  if (typeof status === 'number' && status >= 400 && status < 500) return badRequest(errorMessage(error), error);
  return new ApiError('INTERNAL_ERROR', `Internal error occurred: ${errorMessage(error)}`, { cause: error });
}
