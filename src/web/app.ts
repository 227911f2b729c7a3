import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { errorMessage, type Logger } from '../base/index.ts';
import type { Access, Verdict } from './access.ts';
import { describeList } from './describe-list.ts';
import { setSecurityHeaders } from './headers.ts';
import { enterPage, loginPage } from './login-page.ts';
import type { PageFiles } from './page-files.ts';
import type { WebBackend } from './ports.ts';
import type { VmList } from './rows.ts';
import { isVmApiRequest, withoutSecrets } from './vm-api-routes.ts';
import type { VmEvents } from './vm-events.ts';

export interface WebAppDeps {
  readonly backend: WebBackend;
  readonly access: Access;
  readonly files: PageFiles;
  readonly events: VmEvents;
  /** Where a person finds the token. */
  readonly tokenHint: string;
  readonly log: Logger;
}

/** Longest wait for the agent's answer about decisions, and for the API's about a start or stop. */
const answerTimeoutMs = 15_000;

/** An answer in words. */
class Refusal extends Error {
  readonly httpStatus: number;

  constructor(httpStatus: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.httpStatus = httpStatus;
  }
}

/** All routes. Nothing but the page that asks for the token is served to who has shown none. */
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
    const verdict = deps.access.judge(request, localPortOf(request));
    if (verdict.kind === 'in') next();
    else if (verdict.kind === 'enter') enter(deps, request, response);
    else refuse(deps, verdict, request, response);
  });
  addPage(app, deps);
  addVms(app, deps);
  addWhy(app, deps);
  app.use('/v1', (request, response) => {
    request.url = request.originalUrl;
    if (!isVmApiRequest(request)) throw new Refusal(404, 'the page has no such request to the agent');
    deps.backend.api.handle(withoutSecrets(request), response);
  });
  app.use(() => {
    throw new Refusal(404, 'there is nothing at this address');
  });
  app.use(errorHandler(deps.log));
  return app;
}

function localPortOf({ socket }: Request): number {
  return socket.localPort ?? 0;
}

function enter({ access }: WebAppDeps, request: Request, response: Response): void {
  response.setHeader('Set-Cookie', access.setCookie(localPortOf(request)));
  // After a redirect of another site's request the cookie would not be sent; one of this page's own has it.
  if (request.headers['sec-fetch-site'] === 'cross-site') response.type('html').send(enterPage);
  else response.redirect(303, '/');
}

function refuse(
  deps: WebAppDeps,
  verdict: Extract<Verdict, { kind: 'refused' }>,
  request: Request,
  response: Response,
) {
  const { httpStatus, message } = verdict;
  deps.log.debug({ method: request.method, httpStatus, reason: message }, 'request to the web page refused');
  if (httpStatus === 429) response.setHeader('Retry-After', '60');
  response.status(httpStatus);
  const asksForPage = request.method === 'GET' && request.path === '/' && httpStatus !== 403;
  if (asksForPage) response.type('html').send(loginPage(message, deps.tokenHint));
  else response.json({ message });
}

function addPage(app: Express, { files }: WebAppDeps): void {
  app.get('/', (_request, response) => {
    response.type('html').send(files.html);
  });
  app.get('/assets/:name', (request, response, next) => {
    const { name } = request.params;
    const type = files.assets.get(name);
    if (type === undefined) throw new Refusal(404, 'there is no such file: the page was built anew, load it again');
    // The name has a hash of the content in it.
    const headers = { 'Content-Type': type, 'Cache-Control': 'private, max-age=31536000, immutable' };
    response.sendFile(name, { root: files.assetsDir, headers, cacheControl: false, lastModified: false }, (error) => {
      if (error) next(error);
    });
  });
}

function addVms(app: Express, { backend, events }: WebAppDeps): void {
  app.get('/api/vms', (_request, response) => {
    response.json({ ...describeList(backend), rows: backend.vms.rows() } satisfies VmList);
  });
  app.get('/api/vms/events', (_request, response) => {
    if (!events.serve(response)) throw new Refusal(503, 'the page is open too many times');
  });
  app.post('/api/vms/:namespace/:name/:action', async (request, response) => {
    const { namespace, name, action } = request.params;
    if (action !== 'start' && action !== 'stop') throw new Refusal(404, 'a VM can be started and stopped');
    if (!backend.actions) throw new Refusal(403, 'who serves this page may not start or stop VMs: use kubectl');
    if (!backend.vms.rows().some((row) => row.namespace === namespace && row.name === name)) {
      throw new Refusal(404, `there is no VM ${namespace}/${name} on this node`);
    }
    const { signal, done } = whileAsked(response);
    try {
      await backend.actions[action](namespace, name, signal);
    } catch (cause) {
      throw new Refusal(502, errorMessage(cause), { cause });
    } finally {
      done();
    }
    response.status(202).json({});
  });
}

function addWhy(app: Express, { backend }: WebAppDeps): void {
  app.get(['/api/why', '/api/why/:namespace/:name', '/api/state'], async (request, response) => {
    const { signal, done } = whileAsked(response);
    try {
      const { httpStatus, body } = await backend.why(request.path.slice('/api'.length), signal);
      response.status(httpStatus).json(body);
    } catch (cause) {
      throw new Refusal(502, `the agent cannot be asked: ${errorMessage(cause)}`, { cause });
    } finally {
      done();
    }
  });
}

/** Fires when the client has gone, or has waited for long enough. */
function whileAsked(response: Response): { readonly signal: AbortSignal; readonly done: () => void } {
  const ending = new AbortController();
  const onClose = () => ending.abort(new Error('the client has gone'));
  const timer = setTimeout(() => ending.abort(new Error('there was no answer in time')), answerTimeoutMs);
  response.once('close', onClose);
  const done = () => {
    clearTimeout(timer);
    response.removeListener('close', onClose);
  };
  return { signal: ending.signal, done };
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
  if (error instanceof Refusal) return error.httpStatus;
  const status = typeof error === 'object' && error !== null && 'status' in error ? error.status : undefined;
  return typeof status === 'number' && status >= 400 && status < 500 ? status : 500;
}
