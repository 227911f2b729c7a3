import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorMessage, type Logger } from '../base/index.ts';
import { refuse } from './scrapes.ts';

/** What answers a GET, by path. */
export type Routes = Readonly<Record<string, (request: IncomingMessage, response: ServerResponse) => Promise<void>>>;

export interface RoutesApiOptions {
  /** Paths that a client is told of when it asks for another one. */
  readonly shown: string;
}

/** Requests to read something, each answered by the route of its path. */
export class RoutesApi {
  readonly upgrade = endUpgrade;
  readonly #options: RoutesApiOptions;
  readonly #routes: Routes;
  readonly #log: Logger;

  constructor(options: RoutesApiOptions, deps: { readonly routes: Routes; readonly log: Logger }) {
    this.#options = options;
    this.#routes = deps.routes;
    this.#log = deps.log;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    // No route reads a body, and none is waited for.
    request.resume();
    const path = (request.url ?? '').split('?')[0] ?? '';
    const route = Object.hasOwn(this.#routes, path) ? this.#routes[path] : undefined;
    if (!route) {
      refuse(response, 404, `there is ${this.#options.shown}`);
      return;
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      refuse(response, 405, 'only GET is possible here', { allow: 'GET, HEAD' });
      return;
    }
    route(request, response).catch((error: unknown) => {
      this.#log.error({ err: error, path }, 'a request to the metrics server failed');
      if (response.headersSent) response.destroy();
      else refuse(response, 500, errorMessage(error));
    });
  }
}

/** Nothing is upgraded here. */
export function endUpgrade(_request: IncomingMessage, socket: Duplex): void {
  socket.on('error', () => undefined);
  socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
}

/** An answer that nobody keeps. */
export function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify(body));
}
