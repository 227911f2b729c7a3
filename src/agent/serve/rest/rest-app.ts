import type { IncomingMessage, RequestListener } from 'node:http';
import express, { type ErrorRequestHandler, type Request, type Response } from 'express';
import { sendError, toRestError } from './answers.ts';
import { maxBodyBytes } from './bodies.ts';
import { RestError } from './errors.ts';
import { basePath, type RestRoute, routes } from './routes.ts';

export interface RouteServer {
  /** Before any body is read. Throws RestError. */
  check(route: RestRoute, request: IncomingMessage): void;
  /** Rejects with what is to be answered. */
  serve(route: RestRoute, request: Request, response: Response): Promise<void>;
  refused(request: Request, refusal: RestError): void;
}

/** The routes as an Express application; in a file of its own, which is loaded with the first request. */
export function createRestApp(server: RouteServer): RequestListener {
  const app = express();
  app.disable('x-powered-by').disable('etag').set('query parser', false);
  app.enable('strict routing').enable('case sensitive routing');
  const readBody = express.raw({ type: () => true, limit: maxBodyBytes, inflate: false });
  for (const route of routes) {
    const check = (request: Request, _response: Response, next: () => void) => {
      checkMethod(route, request);
      server.check(route, request);
      next();
    };
    const serve = (request: Request, response: Response) => server.serve(route, request, response);
    app.all(`${basePath}${route.path}`, check, ...(route.hasBody ? [readBody] : []), serve);
  }
  app.use(({ path }: Request) => {
    throw new RestError('NOT_FOUND', `there is nothing at ${path}`);
  });
  app.use(errorHandler(server));
  return app;
}

/** Each path has one. */
function checkMethod({ method }: RestRoute, request: Request): void {
  if (request.method === method) return;
  const text = `${request.method} is not possible here, only ${method}`;
  throw new RestError('METHOD_NOT_ALLOWED', text, { headers: { Allow: method } });
}

function errorHandler(server: RouteServer): ErrorRequestHandler {
  // Express knows an error handler by its four arguments.
  return (error: unknown, request, response, _next) => {
    const refusal = toRestError(error);
    server.refused(request, refusal);
    if (response.headersSent || response.destroyed) response.destroy();
    else sendError(refusal, response);
  };
}
