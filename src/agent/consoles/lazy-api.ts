import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorMessage, type Logger } from '../../base/index.ts';
import type { SessionState } from '../../console/index.ts';
import type { RestApi } from '../rest/index.ts';

/** Routes and streams as one. */
export interface Served {
  handle(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  sessions(): SessionState[];
  endAll(uid: string, reason: string): void;
  readonly state: RestApi['state'];
  /** Ends calls and streams. */
  stop(): Promise<void>;
}

/**
 * Routes and streams that come with the first request for them: express, ws and yaml are 8 MB that an agent does not need
 * whose consoles nobody opens.
 */
export class LazyApi implements Served {
  readonly #load: () => Promise<Served>;
  readonly #log: Logger;
  #loading: Promise<Served> | undefined;
  #loaded: Served | undefined;
  #isStopped = false;

  constructor(load: () => Promise<Served>, { log }: { readonly log: Logger }) {
    this.#load = load;
    this.#log = log;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#with(
      (api) => api.handle(request, response),
      () => response.destroy(),
    );
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const onError = () => socket.destroy();
    socket.on('error', onError);
    this.#with(
      (api) => {
        socket.off('error', onError);
        api.upgrade(request, socket, head);
      },
      () => socket.destroy(),
    );
  }

  sessions(): SessionState[] {
    return this.#loaded?.sessions() ?? [];
  }

  endAll(uid: string, reason: string): void {
    this.#loaded?.endAll(uid, reason);
  }

  get state(): Served['state'] {
    return this.#loaded?.state ?? { calls: 0, usbChannels: 0, freezing: 0 };
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#loading?.catch(() => undefined);
    await this.#loaded?.stop();
  }

  #with(use: (api: Served) => void, giveUp: () => void): void {
    if (this.#loaded) {
      use(this.#loaded);
      return;
    }
    this.#begin().then(use, (error: unknown) => {
      this.#log.error({ reason: errorMessage(error) }, 'what serves the consoles cannot be loaded');
      giveUp();
    });
  }

  #begin(): Promise<Served> {
    if (this.#isStopped) return Promise.reject(new Error('the agent leaves'));
    this.#loading ??= this.#load().then(
      (api) => {
        this.#loaded = api;
        return api;
      },
      (error: unknown) => {
        this.#loading = undefined;
        throw error;
      },
    );
    return this.#loading;
  }
}
