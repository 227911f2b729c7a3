import { type KubeObject, resources } from '../../../api/index.ts';
import type { Component, Logger } from '../../../base/index.ts';
import { fieldSelector, Informer, type InformerDeps, type InformerHealth } from '../../../kube/index.ts';
import { type ChangingValue, SettableValue } from '../../../tls/index.ts';

interface ConfigMap extends KubeObject {
  data?: Record<string, unknown> | null;
}

export interface CaBundleOptions {
  readonly namespace: string;
  /** `--ca-configmap-name` */
  readonly name: string;
}

const bundleKey = 'ca-bundle';

/**
 * The text of the authorities that KubeVirt's ConfigMap names (pkg/util/tls/ca-manager.go), followed. A ConfigMap that vanishes
 * changes nothing.
 */
export class CaBundle implements ChangingValue<string>, Component {
  readonly name = 'authorities';
  readonly #text = new SettableValue<string>();
  readonly #informer: Informer<ConfigMap>;

  constructor({ namespace, name }: CaBundleOptions, deps: InformerDeps & { readonly log: Logger }) {
    this.#informer = new Informer<ConfigMap>(
      {
        type: resources.configMaps,
        namespace,
        fieldSelector: fieldSelector({ 'metadata.name': name }),
        trim: keepBundle,
      },
      deps,
    );
    // The selector is the server's to honour; another ConfigMap must never name whom to trust.
    const take = (object: ConfigMap) => {
      if (object.metadata.name === name && object.metadata.namespace === namespace) this.#text.set(textOf(object));
    };
    this.#informer.addHandlers({ added: take, updated: (_old, object) => take(object) });
  }

  get current(): string | undefined {
    return this.#text.current;
  }

  get health(): InformerHealth & { readonly objects: number } {
    return { ...this.#informer.health, objects: this.#informer.size };
  }

  onChange(listener: () => void): () => void {
    return this.#text.onChange(listener);
  }

  /** Begins and returns at once. */
  start(): Promise<void> {
    return this.#informer.start();
  }

  stop(): Promise<void> {
    return this.#informer.stop();
  }
}

/** A ConfigMap without the key says as little as one with garbage in it: the reader of the text reports it. */
function textOf({ data }: ConfigMap): string {
  const text = data?.[bundleKey];
  return typeof text === 'string' ? text : '';
}

function keepBundle(object: ConfigMap): void {
  object.data = { [bundleKey]: object.data?.[bundleKey] };
}
