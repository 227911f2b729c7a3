import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Clock, errorMessage } from '../../../base/index.ts';
import { refuse } from '../../../serving/index.ts';
import { type Profiler, ProfilerError } from './profiler.ts';

export interface ProfilerApiDeps {
  readonly profiler: Pick<Profiler, 'start' | 'stop' | 'dump'>;
  readonly clock: Clock;
}

/** A client that reads a profile has this long. */
const dumpTimeoutMs = 30_000;
const pieceBytes = 64 * 1024;

type Act = (response: ServerResponse) => Promise<void>;

/** Upstream's profiler routes (pkg/monitoring/profiler). */
export class ProfilerApi {
  readonly #deps: ProfilerApiDeps;
  readonly #acts: Readonly<Record<string, Act>>;
  #isDumping = false;

  constructor(deps: ProfilerApiDeps) {
    this.#deps = deps;
    const { profiler } = deps;
    this.#acts = {
      '/start-profiler': async (response) => {
        await profiler.start();
        response.writeHead(200).end();
      },
      '/stop-profiler': async (response) => {
        await profiler.stop();
        response.writeHead(200).end();
      },
      '/dump-profiler': (response) => this.#dump(response),
    };
  }

  get paths(): readonly string[] {
    return Object.keys(this.#acts);
  }

  /** Never rejects. Only GET: a question about an answer's head must not begin a profile. */
  async answer(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'GET') {
      refuse(response, 405, 'only GET is possible here', { allow: 'GET' });
      return;
    }
    try {
      await this.#acts[path]?.(response);
    } catch (error) {
      if (response.headersSent) {
        response.destroy();
        return;
      }
      const isOff = error instanceof ProfilerError && error.code === 'OFF';
      refuse(response, isOff ? 403 : 500, errorMessage(error));
    }
  }

  /** One reader at a time: an answer of megabytes is held for each. */
  async #dump(response: ServerResponse): Promise<void> {
    if (this.#isDumping)
      throw new ProfilerError('BUSY', 'the profile is being read by another client: try again later');
    const body = Buffer.from(JSON.stringify(this.#deps.profiler.dump()));
    this.#isDumping = true;
    const cancel = this.#deps.clock.schedule(dumpTimeoutMs, () => response.destroy());
    try {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
      await pipeline(Readable.from(pieces(body)), response);
    } finally {
      cancel();
      this.#isDumping = false;
    }
  }
}

function* pieces(body: Buffer): Generator<Buffer> {
  for (let at = 0; at < body.length; at += pieceBytes) yield body.subarray(at, at + pieceBytes);
}
