import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { constants, createGzip } from 'node:zlib';
import { type Clock, errorCode, errorMessage, type Logger } from '../base/index.ts';
import { expositionType, type Family, head, sampleLine } from './exposition.ts';

export interface ScrapesOptions {
  /** `--max-metric-requests`: scrapes at a time. */
  readonly maxRequests: number;
  /** A client that reads slower than this is hung up on. */
  readonly timeoutMs: number;
  /** One that has read for this long gives its slot to another that wants one: a client that reads nothing keeps no Prometheus out. */
  readonly giveWayMs: number;
}

export interface ScrapesDeps {
  /** A client scrapes; resolves when the figures may be read. */
  readonly want: () => Promise<void>;
  /** The agent's own metrics. */
  readonly own: () => Promise<string>;
  /** Those of VMs, piece by piece. */
  readonly vms: () => Iterable<Buffer>;
  readonly clock: Clock;
  readonly log: Logger;
}

const requestsFamily: Family = {
  name: 'promhttp_metric_handler_requests_total',
  type: 'counter',
  help: 'Scrapes by the HTTP status that they were answered with.',
};
const inFlightFamily: Family = {
  name: 'promhttp_metric_handler_requests_in_flight',
  type: 'gauge',
  help: 'Scrapes that are being answered.',
};

/** `GET /metrics`: what is known now, written as fast as the client reads. */
export class Scrapes {
  readonly #options: ScrapesOptions;
  readonly #deps: ScrapesDeps;
  readonly #answered = new Map<number, number>([200, 500, 503].map((status) => [status, 0]));
  /** In the order in which they came. */
  readonly #open = new Set<{ readonly startedMs: number; readonly response: ServerResponse }>();

  constructor(options: ScrapesOptions, deps: ScrapesDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Never rejects. */
  async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { maxRequests } = this.#options;
    if (this.#open.size >= maxRequests && !this.#endSlowest()) {
      this.#count(503);
      refuse(response, 503, `Limit of concurrent requests reached (${maxRequests}), try again later.`);
      return;
    }
    const scrape = { startedMs: this.#deps.clock.monotonicMs(), response };
    this.#open.add(scrape);
    try {
      await this.#send(request, response);
    } finally {
      this.#open.delete(scrape);
    }
  }

  /** False: all of them are new enough to be waited for. */
  #endSlowest(): boolean {
    const [oldest] = this.#open;
    if (!oldest || this.#deps.clock.monotonicMs() - oldest.startedMs < this.#options.giveWayMs) return false;
    this.#open.delete(oldest);
    oldest.response.destroy();
    return true;
  }

  async #send(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { clock, log, want, own } = this.#deps;
    const cancel = clock.schedule(this.#options.timeoutMs, () => response.destroy());
    try {
      await want();
      const ownText = await own();
      const isZipped = acceptsGzip(request.headers['accept-encoding']);
      response.writeHead(200, {
        'content-type': expositionType,
        vary: 'Accept-Encoding',
        ...(isZipped && { 'content-encoding': 'gzip' }),
      });
      this.#count(200);
      if (request.method === 'HEAD') {
        response.end();
        return;
      }
      const text = Readable.from(this.#text(ownText), { objectMode: true, highWaterMark: 1 });
      if (isZipped) await pipeline(text, createGzip({ level: constants.Z_BEST_SPEED }), response);
      else await pipeline(text, response);
    } catch (error) {
      // A client may go, and one that is too slow is sent away.
      if (!['ERR_STREAM_PREMATURE_CLOSE', 'ECONNRESET', 'EPIPE'].includes(errorCode(error) ?? ''))
        log.error({ err: error }, 'the metrics could not be written');
      if (response.headersSent) response.destroy();
      else {
        this.#count(500);
        refuse(response, 500, `the metrics could not be written: ${errorMessage(error)}`);
      }
    } finally {
      cancel();
    }
  }

  /** Between two pieces everything else has its turn. */
  async *#text(ownText: string): AsyncGenerator<Buffer> {
    yield Buffer.from(ownText + this.ownText());
    for (const piece of this.#deps.vms()) {
      await nextTurn();
      yield piece;
    }
  }

  /** Of the scrapes themselves. */
  ownText(): string {
    const lines = [...this.#answered].map(([status, count]) =>
      sampleLine(requestsFamily.name, `code="${status}"`, count),
    );
    return `${head(requestsFamily)}${lines.join('')}${head(inFlightFamily)}${sampleLine(inFlightFamily.name, '', this.#open.size)}`;
  }

  #count(status: number): void {
    this.#answered.set(status, (this.#answered.get(status) ?? 0) + 1);
  }
}

export function refuse(response: ServerResponse, status: number, message: string, headers: object = {}): void {
  if (response.destroyed) return;
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', ...headers });
  response.end(`${message}\n`);
}

/** `gzip`, `*` and weights other than 0 are a yes. */
function acceptsGzip(header: string | string[] | undefined): boolean {
  const offers = [header ?? ''].flat().join(',').toLowerCase().split(',');
  const weights = new Map(
    offers.map((offer) => {
      const [coding = '', ...parameters] = offer.split(';').map((part) => part.trim());
      const weight = parameters.find((parameter) => parameter.startsWith('q='));
      return [coding, weight === undefined ? 1 : Number(weight.slice(2))] as const;
    }),
  );
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0;
}
