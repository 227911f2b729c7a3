import type { ApiServerDeps, ApiServerOptions } from './options.ts';

/** The embedded Kubernetes API. `start` opens the database and listens; `stop` ends watches and closes it. */
export class ApiServer {
  constructor(_options: ApiServerOptions, _deps: ApiServerDeps) {}

  /** Throws StoreError when the database cannot be used; its message says what to do. */
  async start(): Promise<{ port: number }> {
    throw new Error('under construction');
  }

  async stop(): Promise<void> {}
}
