import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { type KubeObject, resources } from '../api/index.ts';
import { CodedError, errorMessage, textAt } from '../base/index.ts';
import { getIfThere, type KubeClient } from '../kube/index.ts';
import type { PemPair } from '../tls/index.ts';

/** The files of an authority cannot be read: nobody can sign. */
export class AuthorityError extends CodedError<'NO_AUTHORITY'> {}

export interface AuthorityOptions {
  /** Holds `tls.crt` and `tls.key`. */
  readonly dir: string;
  /** Of the secret that is mounted there, and of the ConfigMap that publishes whom to trust: upstream's (pkg/virt-operator/resource/generate/components). */
  readonly name: string;
  /** Where KubeVirt is installed. */
  readonly namespace: string;
  /** What it signs, in words. */
  readonly signs: string;
}

/** Who signs certificates for others than this program; in a cluster virt-operator makes it, mounts it and publishes it. */
export class Authority {
  readonly #options: AuthorityOptions;
  readonly #client: Pick<KubeClient, 'get'>;

  constructor(options: AuthorityOptions, { client }: { readonly client: Pick<KubeClient, 'get'> }) {
    this.#options = options;
    this.#client = client;
  }

  /** The newest files. Rejects with AuthorityError. */
  async pair(): Promise<PemPair> {
    const { dir, name, signs } = this.#options;
    try {
      const [cert, key] = await Promise.all([
        readFile(path.join(dir, 'tls.crt'), 'utf8'),
        readFile(path.join(dir, 'tls.key'), 'utf8'),
      ]);
      return { cert, key };
    } catch (cause) {
      const why = `the authority in ${dir} cannot be read (${errorMessage(cause)}): mount the secret ${name} there`;
      throw new AuthorityError('NO_AUTHORITY', `nobody can sign ${signs}: ${why}`, { cause });
    }
  }

  /** Whom to trust, PEM: more than one certificate while authorities change. Rejects with AuthorityError and KubeError. */
  async bundle(signal: AbortSignal): Promise<string> {
    const { cert } = await this.pair();
    const { name, namespace } = this.#options;
    const object = await getIfThere<KubeObject>(this.#client, resources.configMaps, { namespace, name }, { signal });
    // Where nobody publishes it, it is the one that signs.
    return (textAt(object, 'data', 'ca-bundle') ?? cert).trim();
  }
}
