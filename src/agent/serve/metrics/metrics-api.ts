import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorMessage, type Logger } from '../../../base/index.ts';
import type { Health, HealthAnswer } from './health.ts';
import type { ProfilerApi } from './profiler-api.ts';
import { refuse, type Scrapes } from './scrapes.ts';

export interface MetricsApiDeps {
  readonly scrapes: Pick<Scrapes, 'answer'>;
  readonly health: Pick<Health, 'healthz' | 'livez' | 'readyz'>;
  readonly profiler: Pick<ProfilerApi, 'answer' | 'paths'>;
  readonly log: Logger;
}

type Route = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** The routes of `--port` (cmd/virt-handler/virt-handler.go). */
export class MetricsApi {
  readonly upgrade = endUpgrade;
  readonly #routes: Readonly<Record<string, Route>>;
  readonly #log: Logger;

  constructor({ scrapes, health, profiler, log }: MetricsApiDeps) {
    this.#log = log;
    this.#routes = {
      '/metrics': (request, response) => scrapes.answer(request, response),
      '/healthz': async (_request, response) => sendHealth(response, await health.healthz()),
      '/livez': async (_request, response) => sendHealth(response, health.livez()),
      '/readyz': async (_request, response) => sendHealth(response, health.readyz()),
      ...Object.fromEntries(
        profiler.paths.map((path): [string, Route] => [
          path,
          (request, response) => profiler.answer(path, request, response),
        ]),
      ),
    };
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    // No route reads a body, and none is waited for.
    request.resume();
    const path = (request.url ?? '').split('?')[0] ?? '';
    const route = Object.hasOwn(this.#routes, path) ? this.#routes[path] : undefined;
    if (!route) {
      refuse(response, 404, 'there is /metrics, /healthz, /livez and /readyz');
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

function sendHealth(response: ServerResponse, { status, body }: HealthAnswer): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' });
  response.end(JSON.stringify(body));
}
