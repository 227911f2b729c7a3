import type { Component, Logger } from '../base/index.ts';
import type { RateLimitSettings } from '../cluster-config/index.ts';
import type { ClusterSettings } from './node/ports.ts';

export interface LiveSettingsDeps {
  readonly settings: Pick<ClusterSettings, 'select'>;
  readonly setVerbosity: (verbosity: number) => void;
  /** All that speak to the API server. */
  readonly clients: readonly { setRateLimit(limit: RateLimitSettings): void }[];
  readonly log: Logger;
}

/** What the configuration says of this agent itself, taken over while it runs: how much it logs, how often it asks. */
export class LiveSettings implements Component {
  readonly name = 'live settings';
  readonly #verbosity: number;
  readonly #deps: LiveSettingsDeps;
  #ends: (() => void)[] = [];

  /** `verbosity`: of the command line, for as long as the configuration names none. */
  constructor({ verbosity }: { readonly verbosity: number }, deps: LiveSettingsDeps) {
    this.#verbosity = verbosity;
    this.#deps = deps;
  }

  async start(): Promise<void> {
    const { settings, setVerbosity, clients, log } = this.#deps;
    let isFirst = true;
    this.#ends = [
      settings.select(
        ({ node }) => node.logVerbosity ?? this.#verbosity,
        (verbosity) => {
          setVerbosity(verbosity);
          if (!isFirst) log.info({ verbosity }, 'log verbosity changed');
        },
      ),
      settings.select(
        ({ node }) => node.rateLimit,
        (limit) => {
          for (const client of clients) client.setRateLimit(limit);
          if (!isFirst) log.info({ ...limit }, 'rate limit of requests changed');
        },
      ),
    ];
    isFirst = false;
  }

  async stop(): Promise<void> {
    for (const end of this.#ends.splice(0)) end();
  }
}
