import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Clock, errorMessage, type Logger, withDeadline } from '../../../base/index.ts';
import { endUpgrade, refuse } from '../../../serving/index.ts';
import type { VmiStore } from '../../vmi/ports.ts';
import { isOfNode } from './vm-labels.ts';
import { type VmStatsCollector, type VmStatsPart, type VmStatsResult, vmStatsParts, wantedParts } from './vm-stats.ts';

export interface VmStatsApiDeps {
  /** Gate VMStatsCollector. */
  readonly isAllowed: () => boolean;
  readonly vmis: VmiStore;
  readonly collector: Pick<VmStatsCollector, 'collect'>;
  readonly clock: Clock;
  readonly log: Logger;
}

const path = '/v1/vmstats';
const collectMs = 10_000;
/** An answer is held in memory until it is read, and may be large: so few at a time, and each for so long. */
const maxAnswers = 3;
const readMs = 30_000;

/** `GET /v1/vmstats`, as in pkg/virt-handler/rest/vmstats.go. */
export class VmStatsApi {
  readonly upgrade = endUpgrade;
  readonly #nodeName: string;
  readonly #deps: VmStatsApiDeps;
  readonly #stopping = new AbortController();
  #answers = 0;

  constructor(options: { readonly nodeName: string }, deps: VmStatsApiDeps) {
    this.#nodeName = options.nodeName;
    this.#deps = deps;
  }

  stop(): void {
    this.#stopping.abort(new Error('the agent leaves'));
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    request.resume();
    const parts = this.#partsOf(request, response);
    if (!parts) return;
    this.#answer(parts, response).catch((error: unknown) => {
      const isGone = response.destroyed;
      if (!isGone) this.#deps.log.error({ err: error }, 'statistics of VMs could not be written');
      if (response.headersSent) response.destroy();
      else refuse(response, 500, errorMessage(error));
    });
  }

  /** Undefined: it was refused. */
  #partsOf({ method, url = '' }: IncomingMessage, response: ServerResponse): readonly VmStatsPart[] | undefined {
    const [asked = '', query = ''] = url.split('?');
    const parts = wantedParts(new URLSearchParams(query));
    if (asked !== path) refuse(response, 404, `there is ${path}`);
    else if (method !== 'GET') refuse(response, 405, 'only GET is possible here', { allow: 'GET' });
    else if (!this.#deps.isAllowed()) refuse(response, 403, 'the feature gate VMStatsCollector is off');
    else if (parts.length === 0) refuse(response, 400, `ask for one of ${vmStatsParts.join(', ')} with =true`);
    else if (this.#answers >= maxAnswers)
      refuse(response, 503, `${maxAnswers} requests are being answered, try again later.`);
    else return parts;
    return undefined;
  }

  async #answer(parts: readonly VmStatsPart[], response: ServerResponse): Promise<void> {
    this.#answers++;
    let cancel = () => {};
    try {
      const results = await this.#collect(parts);
      cancel = this.#deps.clock.schedule(readMs, () => response.destroy());
      response.writeHead(200, { 'content-type': 'application/json' });
      await pipeline(Readable.from(members(results)), response);
    } finally {
      cancel();
      this.#answers--;
    }
  }

  #collect(parts: readonly VmStatsPart[]): Promise<ReadonlyMap<string, VmStatsResult>> {
    const { vmis, collector, clock } = this.#deps;
    const own = [...vmis.keys()].flatMap((key) => {
      const vmi = vmis.get(key);
      return vmi && isOfNode(vmi, this.#nodeName) ? [[key, vmi] as const] : [];
    });
    const deadline = { timeoutMs: collectMs, signal: this.#stopping.signal, clock };
    return withDeadline(deadline, (signal) => collector.collect(own, parts, signal));
  }
}

/** One VM at a time: the whole text of a large node would be made in one go. */
function* members(results: ReadonlyMap<string, VmStatsResult>): Generator<string> {
  let before = '{';
  for (const [key, result] of results) {
    yield `${before}${JSON.stringify(key)}:${result}`;
    before = ',';
  }
  yield before === '{' ? '{}\n' : '}\n';
}
