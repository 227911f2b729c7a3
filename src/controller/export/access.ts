import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type KubeObject, resources } from '../../api/index.ts';
import { type Clock, errorMessage, textAt } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import type { PemPair } from '../../tls/index.ts';
import { type ExternalAccess, findExternal } from './external.ts';

export interface AccessOptions {
  /** Holds `tls.crt` and `tls.key` of the authority that signs certificates of exporter pods. */
  readonly caDir: string;
  /** Where KubeVirt is installed. */
  readonly namespace: string;
}

export interface AccessDeps {
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

/** Upstream's names (pkg/virt-operator/resource/generate/components). */
const caConfigMap = 'kubevirt-export-ca';
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

  /** The authority itself. Rejects with the system's error. */
  async authority(): Promise<PemPair> {
    const { caDir } = this.#options;
    const [cert, key] = await Promise.all([
      readFile(path.join(caDir, 'tls.crt'), 'utf8'),
      readFile(path.join(caDir, 'tls.key'), 'utf8'),
    ]);
    return { cert, key };
  }

  async #ask(signal: AbortSignal): Promise<Access> {
    const { caDir, namespace } = this.#options;
    const { client } = this.#deps;
    const external = await findExternal({ namespace, client, signal, now: this.#deps.clock.now() });
    try {
      const { cert } = await this.authority();
      const object = await getIfThere<KubeObject>(
        client,
        resources.configMaps,
        { namespace, name: caConfigMap },
        { signal },
      );
      // Where nobody publishes it, it is the one that signs.
      const bundle = textAt(object, 'data', 'ca-bundle') ?? cert;
      return { bundle: bundle.trim(), problem: undefined, external };
    } catch (error) {
      if (signal.aborted || isKubeError(error)) throw error;
      const problem = `nobody can sign the certificate of an export: the authority in ${caDir} cannot be read (${errorMessage(error)}): mount the secret ${caConfigMap} there`;
      return { bundle: undefined, problem, external };
    }
  }
}
