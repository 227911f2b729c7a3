import type { Clock } from '../../base/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import { type Authority, AuthorityError } from '../authority.ts';
import { type ExternalAccess, findExternal } from './external.ts';

export interface AccessOptions {
  /** Where KubeVirt is installed. */
  readonly namespace: string;
}

export interface AccessDeps {
  /** Signs certificates of exporter pods. */
  readonly authority: Pick<Authority, 'bundle'>;
  readonly client: Pick<KubeClient, 'get' | 'list'>;
  readonly clock: Clock;
}

/** Who signs certificates of exporter pods, and how clients from outside come to them; plain data. */
export interface Access {
  /** PEM, for clients inside; undefined: there is no authority. */
  readonly bundle: string | undefined;
  readonly problem: string | undefined;
  readonly external: ExternalAccess | undefined;
}

/** All exports ask the same, and what they ask for seldom changes. */
const keptMs = 30_000;

/** Read when exports need it: most clusters have none. */
export class ExportAccess {
  readonly #options: AccessOptions;
  readonly #deps: AccessDeps;
  #kept: { readonly access: Access; readonly atMs: number } | undefined;

  constructor(options: AccessOptions, deps: AccessDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Rejects with KubeError. */
  async read(signal: AbortSignal): Promise<Access> {
    const { clock } = this.#deps;
    const kept = this.#kept;
    if (kept && clock.monotonicMs() - kept.atMs < keptMs) return kept.access;
    const access = await this.#ask(signal);
    this.#kept = access.bundle === undefined ? undefined : { access, atMs: clock.monotonicMs() };
    return access;
  }

  async #ask(signal: AbortSignal): Promise<Access> {
    const { namespace } = this.#options;
    const { client, clock, authority } = this.#deps;
    const external = await findExternal({ namespace, client, signal, now: clock.now() });
    try {
      return { bundle: await authority.bundle(signal), problem: undefined, external };
    } catch (error) {
      if (!(error instanceof AuthorityError)) throw error;
      return { bundle: undefined, problem: error.message, external };
    }
  }
}
