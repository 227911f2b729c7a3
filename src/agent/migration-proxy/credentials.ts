import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { errorMessage } from '../../base/index.ts';
import {
  type Authorities,
  type ChangingValue,
  defaultTlsSettings,
  type KeyPairPaths,
  readKeyPair,
  serverCommonName,
  type TlsSettings,
} from '../../tls/index.ts';
import type { MigrationSettings } from '../options.ts';
import { MigrationProxyError } from './errors.ts';

export interface CredentialDeps {
  readonly authorities: ChangingValue<Authorities>;
  readonly settings: ChangingValue<TlsSettings>;
}

/** What a proxy process needs of TLS; PEM texts. */
export interface Credentials {
  readonly keyPair: string;
  readonly authorities: string;
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

  get settings(): TlsSettings {
    return this.#deps.settings.current ?? defaultTlsSettings;
  }

  /** Clients that may migrate to this node. */
  get clientNames(): readonly string[] | 'any' {
    const { externallyManaged, clientTypes } = this.#options;
    return externallyManaged ? 'any' : clientTypes.map((type) => `kubevirt.io:system:client:${type}`);
  }

  get serverName(): string | 'any' {
    return this.#options.externallyManaged ? 'any' : serverCommonName;
  }

  forServer(): Promise<Credentials> {
    return this.#read(this.#options.server);
  }

  forClient(): Promise<Credentials> {
    return this.#read(this.#clientPaths);
  }

  get #clientPaths(): KeyPairPaths {
    const { migrationClient, client } = this.#options;
    return existsSync(migrationClient.certFile) ? migrationClient : client;
  }

  async #read({ certFile, keyFile }: KeyPairPaths): Promise<Credentials> {
    const authorities = this.#deps.authorities.current;
    if (!authorities) throw new MigrationProxyError('UNAVAILABLE', this.problem ?? 'no authorities');
    try {
      const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')]);
      // The words of this check name what is wrong; the program's would not.
      readKeyPair(cert, key);
      return { keyPair: `${cert}\n${key}`, authorities: authorities.pems.join('\n') };
    } catch (cause) {
      throw new MigrationProxyError('UNAVAILABLE', `${certFile} cannot be used: ${errorMessage(cause)}`, { cause });
    }
  }
}
