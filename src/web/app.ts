import express, {
  type ErrorRequestHandler,
  type Express,
  type NextFunction,
  type Request,
  type Response,
} from 'express';
import { type Clock, errorCode, errorMessage, type Logger } from '../base/index.ts';
import type { PageAccess, PageRight, Refusal } from './access.ts';
import { describeList } from './describe-list.ts';
import { setSecurityHeaders } from './headers.ts';
import { addImages } from './image-routes.ts';
import { addKubePassage } from './kube-passage.ts';
import { lookOnly } from './look-only.ts';
import type { PageFiles } from './page-files.ts';
import type { ExplainAnswer, WebBackend, WebNodes } from './ports.ts';
import { refusalPage } from './refusal-page.ts';
import { Rejection } from './rejection.ts';
import type { VmList } from './rows.ts';
import { isVmApiRequest, withoutSecrets } from './vm-api-routes.ts';
import type { VmEvents } from './vm-events.ts';
import { whileAsked } from './while-asked.ts';

export interface WebAppDeps {
  readonly backend: WebBackend;
  readonly access: PageAccess;
  readonly files: PageFiles;
  readonly events: VmEvents;
  /** What a person does to get the address with the token, as an imperative. */
  readonly tokenHint: string;
  /** The client of this connection has shown the token, or a key of a session. */
  readonly onKnown: (request: Request) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

/** All routes. Nothing but the page itself, which has no data, is served to who has shown no token. */
export function createApp(deps: WebAppDeps): Express {
  const app = express();
  app
    .disable('x-powered-by')
    .disable('etag')
    .set('query parser', false)
    .enable('case sensitive routing')
    .enable('strict routing');
  app.use((request, response, next) => {
    setSecurityHeaders(response);
    const refusal = deps.access.authorizeSite(request);
    if (refusal) refuse(deps, refusal, request, response);
    else next();
  });
  addPage(app, deps);
  app.use((request, response, next) => letIn(deps, request, response, next));
  addVms(app, deps);
  addNodes(app, deps);
  addWhy(app, deps);
  addKubePassage(app, deps.backend.kube);
  addImages(app, deps.backend.images, deps.log);
  app.use('/v1', (request, response) => {
    request.url = request.originalUrl;
    if (!isVmApiRequest(request)) throw new Rejection(404, 'the page has no such request to the agent');
    deps.backend.api.handle(withoutSecrets(request), response);
  });
  app.use(() => {
    throw new Rejection(404, 'there is nothing at this address');
  });
  app.use(errorHandler(deps.log));
  return app;
}

function letIn(deps: WebAppDeps, request: Request, response: Response, next: NextFunction): void {
  const { access, clock, onKnown } = deps;
  const authorization = access.authorize(request);
  if (authorization.kind === 'refused') {
    refuse(deps, authorization, request, response);
    return;
  }
  onKnown(request);
  if (request.method === 'POST' && request.path === '/api/session') {
    // A session makes no other one: it would never end.
    if (authorization.by === 'session') throw new Rejection(403, 'a session is made with the token');
    response.status(201).json(access.newSession(authorization.right));
    return;
  }
  // Before any route: what is added later changes nothing either.
  if (authorization.right === 'look' && request.method !== 'GET' && request.method !== 'HEAD') {
    throw new Rejection(403, lookOnly);
  }
  response.locals.right = authorization.right;
  if (authorization.by === 'session') {
    const cancel = clock.schedule(authorization.endsInMs, () => response.destroy());
    response.once('close', cancel);
  }
  next();
}

/** Set by `letIn`; nothing is served before it. */
function rightOf({ locals }: Response): PageRight {
  return locals.right === 'act' ? 'act' : 'look';
}

function refuse(deps: WebAppDeps, { httpStatus, message }: Refusal, request: Request, response: Response): void {
  const { log, tokenHint } = deps;
  log.debug({ method: request.method, httpStatus, reason: message }, 'request to the web page refused');
  if (httpStatus === 429) response.setHeader('Retry-After', '60');
  response.status(httpStatus);
  if (request.method === 'GET' && request.path === '/') response.type('html').send(refusalPage(message, tokenHint));
  else response.json({ message, hint: tokenHint });
}

function addPage(app: Express, { files }: WebAppDeps): void {
  app.get('/', (_request, response) => {
    response.type('html').send(files.html);
  });
  app.get('/assets/:name', (request, response, next) => {
    const { name } = request.params;
    const type = files.assets.get(name);
    if (type === undefined) throw new Rejection(404, 'there is no such file: the page was built anew, load it again');
    // The name has a hash of the content in it.
    const headers = { 'Content-Type': type, 'Cache-Control': 'private, max-age=31536000, immutable' };
    response.sendFile(name, { root: files.assetsDir, headers, cacheControl: false, lastModified: false }, (error) => {
      if (error) next(error);
    });
  });
}

function addVms(app: Express, { backend, events }: WebAppDeps): void {
  app.get('/api/vms', (_request, response) => {
    response.json({ ...describeList(backend, rightOf(response)), rows: backend.vms.rows() } satisfies VmList);
  });
  app.get('/api/vms/events', (_request, response) => {
    if (!events.serve(response, rightOf(response))) throw new Rejection(503, 'the page is open too many times');
  });
  app.post(
    ['/api/vms/:namespace/:name/:action', '/api/vms/:namespace/:name/:action/:node'],
    async (request: Request<Record<string, string>>, response) => {
      const { namespace, name } = request.params;
      const act = vmAction(backend, request.params);
      if (!backend.vms.rows().some((row) => row.namespace === namespace && row.name === name)) {
        throw new Rejection(404, `there is no VM ${namespace}/${name} on this node`);
      }
      await answerAction(response, act);
    },
  );
}

type Action = (signal: AbortSignal) => Promise<unknown>;

/** What is asked for. Throws Rejection. */
function vmAction({ actions, nodes }: WebBackend, asked: Readonly<Record<string, string | undefined>>): Action {
  const { namespace = '', name = '', action, node } = asked;
  if (node !== undefined && action !== 'move') throw new Rejection(404, 'only a move has a node');
  if (action === 'move' || action === 'cancel-move') {
    const has = needNodes(nodes, node);
    if (action === 'move') return (signal) => has.move(namespace, name, node, signal);
    return (signal) => has.cancelMove(namespace, name, signal);
  }
  if (action !== 'start' && action !== 'stop' && action !== 'restart') {
    throw new Rejection(404, 'a VM can be started, stopped, restarted and moved');
  }
  if (!actions) throw new Rejection(403, 'who serves this page may not start or stop VMs: use kubectl');
  return (signal) => actions[action](namespace, name, signal);
}

function addNodes(app: Express, { backend }: WebAppDeps): void {
  app.post('/api/nodes/:node/:action', async (request, response) => {
    const { node, action } = request.params;
    const nodes = needNodes(backend.nodes, node);
    const actions: Readonly<Record<string, Action>> = {
      cordon: (signal) => nodes.cordon(node, true, signal),
      uncordon: (signal) => nodes.cordon(node, false, signal),
      empty: async (signal) => ({ moves: await nodes.empty(node, signal) }),
    };
    const act = Object.hasOwn(actions, action) ? actions[action] : undefined;
    if (!act) throw new Rejection(404, 'a node can be cordoned, uncordoned and emptied');
    await answerAction(response, act);
  });
}

/** `named`: must be one of them, where it is given. */
function needNodes(nodes: WebNodes | undefined, named: string | undefined): WebNodes {
  if (!nodes || nodes.rows().length < 2) throw new Rejection(403, 'there is only one node');
  if (named === undefined || nodes.rows().some(({ name }) => name === named)) return nodes;
  throw new Rejection(404, `there is no node ${named}`);
}

/** What it gives is the answer. */
async function answerAction(response: Response, act: Action): Promise<void> {
  const { signal, done } = whileAsked(response);
  try {
    response.status(202).json((await act(signal)) ?? {});
  } catch (cause) {
    throw new Rejection(refusals.get(errorCode(cause) ?? '') ?? 502, errorMessage(cause), { cause });
  } finally {
    done();
  }
}

/** Who acts has decided that it cannot be done; all else is a failure of what is behind this server. */
const refusals: ReadonlyMap<string, number> = new Map([
  ['NOT_FOUND', 404],
  ['UNSUPPORTED', 409],
  ['CONFLICT', 409],
]);

function addWhy(app: Express, { backend }: WebAppDeps): void {
  app.get(['/api/why', '/api/why/:namespace/:name', '/api/state'], (request, response) =>
    answerExplained(response, (signal) => backend.why(request.path.slice('/api'.length), signal)),
  );
  for (const kind of ['figures', 'waiting', 'timeline'] as const) {
    app.get(`/api/${kind}/:namespace/:name`, async (request: Request<Record<string, string>>, response) => {
      const ask = backend[kind]?.bind(backend);
      const { namespace = '', name = '' } = request.params;
      if (!ask) throw new Rejection(404, `who serves this page has no answer about ${kind}`);
      const who = kind === 'figures' ? undefined : 'the API';
      await answerExplained(response, (signal) => ask(namespace, name, signal), who);
    });
  }
  const ofNode = ['/api/nodes/:node/why', '/api/nodes/:node/state'];
  app.get(ofNode, async (request: Request<Record<string, string>>, response) => {
    const { node = '' } = request.params;
    const { nodes } = backend;
    if (!nodes?.rows().some(({ name }) => name === node)) throw new Rejection(404, `there is no node ${node}`);
    const target = request.path.slice(request.path.lastIndexOf('/'));
    await answerExplained(response, (signal) => nodes.explain(node, target, signal));
  });
}

async function answerExplained(
  response: Response,
  ask: (signal: AbortSignal) => Promise<ExplainAnswer>,
  who = 'the agent',
): Promise<void> {
  const { signal, done } = whileAsked(response);
  try {
    const { httpStatus, body } = await ask(signal);
    response.status(httpStatus).json(body);
  } catch (cause) {
    throw new Rejection(502, `${who} cannot be asked: ${errorMessage(cause)}`, { cause });
  } finally {
    done();
  }
}

function errorHandler(log: Logger): ErrorRequestHandler {
  // Express knows an error handler by its four arguments.
  return (error: unknown, request, response, _next) => {
    const httpStatus = statusOf(error);
    if (httpStatus === 500)
      log.error({ err: errorMessage(error), path: request.path }, 'request to the web page failed');
    if (response.headersSent) response.destroy();
    else response.status(httpStatus).json({ message: httpStatus === 500 ? 'internal error' : errorMessage(error) });
  };
}

/** Express throws errors with an HTTP status, of escapes that cannot be read and the like. */
function statusOf(error: unknown): number {
  if (error instanceof Rejection) return error.httpStatus;
  const status = typeof error === 'object' && error !== null && 'status' in error ? error.status : undefined;
  return typeof status === 'number' && status >= 400 && status < 500 ? status : 500;
}
