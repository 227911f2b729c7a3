import { memberAt } from '../../base/index.ts';
import type { Informer } from '../../kube/index.ts';
import {
  type ChangingValue,
  isSameSettings,
  readTlsSettings,
  SettableValue,
  type TlsSettings,
} from '../../tls/index.ts';
import { activeKubeVirt, type KubeVirt } from '../cluster-config/index.ts';

/**
 * Versions and ciphers as the KubeVirt object asks for them (spec 30 §6.4). There is none before `begin`: defaults that are
 * used too early could be weaker than what the object asks for.
 */
export class TlsConfig implements ChangingValue<TlsSettings> {
  readonly #settings = new SettableValue<TlsSettings>(undefined, isSameSettings);
  readonly #kubevirts: Pick<Informer<KubeVirt>, 'list' | 'addHandlers'>;
  #end: (() => void) | undefined;

  constructor(kubevirts: Pick<Informer<KubeVirt>, 'list' | 'addHandlers'>) {
    this.#kubevirts = kubevirts;
  }

  get current(): TlsSettings | undefined {
    return this.#settings.current;
  }

  onChange(listener: () => void): () => void {
    return this.#settings.onChange(listener);
  }

  /** The objects are listed, or nobody waits for that any longer. */
  begin(): void {
    const read = () => {
      const active = activeKubeVirt(this.#kubevirts.list());
      this.#settings.set(readTlsSettings(memberAt(active?.spec, 'configuration', 'tlsConfiguration')));
    };
    this.#end ??= this.#kubevirts.addHandlers({ added: read, updated: read, deleted: read });
    read();
  }

  stop(): void {
    this.#end?.();
  }
}
