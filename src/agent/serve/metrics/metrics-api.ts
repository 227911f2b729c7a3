import type { Logger } from '../../../base/index.ts';
import { type Health, type Routes, RoutesApi, type Scrapes, sendJson } from '../../../serving/index.ts';
import type { ProfilerApi } from './profiler-api.ts';

export interface MetricsApiDeps {
  readonly scrapes: Pick<Scrapes, 'answer'>;
  readonly health: Pick<Health, 'healthz' | 'livez' | 'readyz'>;
  readonly profiler: Pick<ProfilerApi, 'answer' | 'paths'>;
  readonly log: Logger;
}

/** The routes of `--port` (cmd/virt-handler/virt-handler.go). */
export function metricsApi({ scrapes, health, profiler, log }: MetricsApiDeps): RoutesApi {
  const profiles: Routes = Object.fromEntries(
    profiler.paths.map((path) => [path, (request, response) => profiler.answer(path, request, response)]),
  );
  const routes: Routes = {
    '/metrics': (request, response) => scrapes.answer(request, response),
    '/healthz': async (_request, response) => {
      const { status, body } = await health.healthz();
      sendJson(response, status, body);
    },
    '/livez': async (_request, response) => {
      const { status, body } = health.livez();
      sendJson(response, status, body);
    },
    '/readyz': async (_request, response) => {
      const { status, body } = health.readyz();
      sendJson(response, status, body);
    },
    ...profiles,
  };
  return new RoutesApi({ shown: '/metrics, /healthz, /livez and /readyz' }, { routes, log });
}
