import {
  type ChangingValue,
  isSameSettings,
  readTlsSettings,
  SettableValue,
  type TlsSettings,
} from '../../../tls/index.ts';
import type { ClusterSettings } from '../../node/ports.ts';

/**
 * Versions and ciphers as the configuration asks for them (pkg/util/tls/tls.go). There is none before `begin`: defaults that
 * are used too early could be weaker than what it asks for.
 */
export class TlsConfig implements ChangingValue<TlsSettings> {
  readonly #settings = new SettableValue<TlsSettings>(undefined, isSameSettings);
  readonly #cluster: Pick<ClusterSettings, 'select'>;
  #end: (() => void) | undefined;

  constructor(cluster: Pick<ClusterSettings, 'select'>) {
    this.#cluster = cluster;
  }

  get current(): TlsSettings | undefined {
    return this.#settings.current;
  }

  onChange(listener: () => void): () => void {
    return this.#settings.onChange(listener);
  }

  /** The KubeVirt object was read, or it is not waited for any longer. */
  begin(): void {
    this.#end ??= this.#cluster.select(
      ({ node }) => node.tlsConfiguration,
      (given) => this.#settings.set(readTlsSettings(given)),
    );
  }

  stop(): void {
    this.#end?.();
  }
}
