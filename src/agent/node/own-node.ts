import { isDeepStrictEqual } from 'node:util';
import { resources } from '../../api/index.ts';
import { type Component, isRecord, Listeners } from '../../base/index.ts';
import { fieldSelector, Informer, type InformerDeps, type InformerHealth } from '../../kube/index.ts';
import type { CachedObjects } from '../../reconcile/index.ts';
import type { Node, OwnNode } from './ports.ts';

/** This node's object, followed by a watch of one object. What the kubelet writes into its status is left out. */
export class KubeOwnNode implements OwnNode, Component {
  readonly name = 'own node';
  readonly #nodeName: string;
  readonly #informer: Informer<Node>;
  readonly #listeners = new Listeners();

  constructor({ nodeName }: { readonly nodeName: string }, deps: InformerDeps) {
    this.#nodeName = nodeName;
    this.#informer = new Informer<Node>(
      { type: resources.nodes, fieldSelector: fieldSelector({ 'metadata.name': nodeName }), trim: keepMarks },
      deps,
    );
    const notify = ({ metadata }: Node) => {
      if (metadata.name === nodeName) this.#listeners.notify();
    };
    this.#informer.addHandlers({
      added: notify,
      updated: (old, node) => {
        if (!isDeepStrictEqual(marksOf(old), marksOf(node))) notify(node);
      },
      deleted: notify,
    });
  }

  get current(): Node | undefined {
    return this.#informer.get(this.#nodeName);
  }

  get health(): InformerHealth & { readonly objects: number } {
    return { ...this.#informer.health, objects: this.#informer.size };
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Begins and returns at once. */
  start(): Promise<void> {
    return this.#informer.start();
  }

  stop(): Promise<void> {
    return this.#informer.stop();
  }
}

/** The own node by its name, for a read-your-writes overlay of a service that writes to it and reads what it wrote. */
export function ownNodeByName(name: string, node: OwnNode): CachedObjects<Node> {
  return {
    // One that is not there may not have been read yet.
    get synced() {
      return node.current !== undefined;
    },
    get: (key) => (key === name ? node.current : undefined),
    keys: () => (node.current ? [name] : []),
    onChange: (listener) => node.onChange(() => listener(name)),
  };
}

/** Labels and annotations; a server may send anything in their place. */
function keepMarks(node: Node & { status?: unknown; spec?: unknown }): void {
  const { name, uid, resourceVersion } = node.metadata;
  const { labels, annotations } = node.metadata;
  delete node.status;
  delete node.spec;
  node.metadata = {
    name,
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
    labels: texts(labels),
    annotations: texts(annotations),
  };
}

function texts(given: unknown): Record<string, string> {
  const entries = Object.entries(isRecord(given) ? given : {}).filter((entry) => typeof entry[1] === 'string');
  return Object.fromEntries(entries) as Record<string, string>;
}

function marksOf({ metadata: { uid, labels, annotations } }: Node): unknown {
  return { uid, labels, annotations };
}
