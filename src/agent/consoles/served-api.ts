import { randomUUID } from 'node:crypto';
import { defaultStreamOptions, type SessionState, StreamServer } from '../../console/index.ts';
import { RestApi, type RestApiDeps } from '../rest/index.ts';
import type { Served } from './lazy-api.ts';

/** Routes and streams. Imported only by those who are asked for one: see LazyApi. */
export function makeServed(nodeName: string, deps: Omit<RestApiDeps, 'streams'>): Served {
  const { clock, log } = deps;
  const streams = new StreamServer(defaultStreamOptions, { clock, log, newId: randomUUID });
  const rest = new RestApi({ nodeName }, { ...deps, streams });
  return {
    handle: (request, response) => rest.handle(request, response),
    upgrade: (request, socket, head) => rest.upgrade(request, socket, head),
    sessions: (): SessionState[] => streams.sessions(),
    endAll: (uid, reason) => streams.endAll(uid, reason),
    get state() {
      return rest.state;
    },
    stop: async () => {
      await Promise.all([rest.stop(), streams.close()]);
    },
  };
}
