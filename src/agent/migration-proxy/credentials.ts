import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { errorMessage } from '../../base/index.ts';
import {
  type Authorities,
  type ChangingValue,
  defaultTlsSettings,
  firstPairThere,
  type KeyPairPaths,
  readKeyPair,
  serverCommonName,
  type TlsSettings,
} from '../../tls/index.ts';
import type { MigrationSettings } from '../options.ts';
import { MigrationProxyError } from './errors.ts';
import type { Side } from './proxy-record.ts';

export interface CredentialDeps {
  readonly authorities: ChangingValue<Authorities>;
  readonly settings: ChangingValue<TlsSettings>;
}

/** What a proxy process is given of TLS. */
export interface ProxyTls {
  /** PEM of the certificate and its key. */
  readonly keyPair: string;
  readonly authorities: string;
  /** Common names of which the other end must have one; `any`: upstream's `--externally-managed`. */
  readonly peers: readonly string[] | 'any';
  readonly settings: TlsSettings;
}

/** Read anew for each process: certificates that were exchanged count from the next migration on. */
export class ProxyCredentials {
  readonly #options: MigrationSettings;
  readonly #deps: CredentialDeps;

  constructor(options: MigrationSettings, deps: CredentialDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** What keeps migrations from being served, in words; undefined: nothing that can be seen from here. */
  get problem(): string | undefined {
    if (!this.#deps.authorities.current)
      return 'the authorities of migrations are not known yet (ConfigMap kubevirt-ca)';
    const missing = [this.#options.server, this.#clientPaths].flatMap(({ certFile, keyFile }) =>
      [certFile, keyFile].filter((file) => !existsSync(file)),
    );
    return missing.length > 0 ? `certificates of migrations are not there: ${missing.join(', ')}` : undefined;
  }

  /** Rejects with MigrationProxyError UNAVAILABLE. */
  forSide(side: Side): Promise<ProxyTls> {
    const { externallyManaged, clientTypes, server } = this.#options;
    if (side === 'source') return this.#read(this.#clientPaths, externallyManaged ? 'any' : [serverCommonName]);
    const clients = clientTypes.map((type) => `kubevirt.io:system:client:${type}`);
    return this.#read(server, externallyManaged ? 'any' : clients);
  }

  get #clientPaths(): KeyPairPaths {
    const { migrationClient, client } = this.#options;
    return firstPairThere(migrationClient, client);
  }

  async #read({ certFile, keyFile }: KeyPairPaths, peers: ProxyTls['peers']): Promise<ProxyTls> {
    const authorities = this.#deps.authorities.current;
    if (!authorities) throw new MigrationProxyError('UNAVAILABLE', this.problem ?? 'no authorities');
    try {
      const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')]);
      // The words of this check name what is wrong; the program's would not.
      readKeyPair(cert, key);
      const settings = this.#deps.settings.current ?? defaultTlsSettings;
      return { keyPair: `${cert}\n${key}`, authorities: authorities.pems.join('\n'), peers, settings };
    } catch (cause) {
      throw new MigrationProxyError('UNAVAILABLE', `${certFile} cannot be used: ${errorMessage(cause)}`, { cause });
    }
  }
}
