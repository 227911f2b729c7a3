import { type ChangingValue, isSameSettings, readTlsSettings, SettableValue, type TlsSettings } from '../tls/index.ts';

/** Calls back now and after each change with `tlsConfiguration` as given, of any shape; the returned function ends it. */
type FollowConfiguration = (use: (given: unknown) => void) => () => void;

/**
 * Versions and ciphers as the configuration asks for them (pkg/util/tls/tls.go). There is none before `begin`: defaults that
 * are used too early could be weaker than what it asks for.
 */
export class TlsConfig implements ChangingValue<TlsSettings> {
  readonly #settings = new SettableValue<TlsSettings>(undefined, isSameSettings);
  readonly #follow: FollowConfiguration;
  #end: (() => void) | undefined;

  constructor(follow: FollowConfiguration) {
    this.#follow = follow;
  }

  get current(): TlsSettings | undefined {
    return this.#settings.current;
  }

  onChange(listener: () => void): () => void {
    return this.#settings.onChange(listener);
  }

  /** The KubeVirt object was read, or it is not waited for any longer. */
  begin(): void {
    this.#end ??= this.#follow((given) => this.#settings.set(readTlsSettings(given)));
  }

  stop(): void {
    this.#end?.();
  }
}
