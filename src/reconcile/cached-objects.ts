import type { Key, KubeObject } from '../api/index.ts';

/** Objects as a watch shows them, by key. They are shared: copy before changing. */
export interface CachedObjects<T> {
  /** False until the first complete list. What is missing is not absent before. */
  readonly synced: boolean;
  get(key: Key): T | undefined;
  keys(): Iterable<Key>;
  /** Called on add, update and delete; the returned function ends it. */
  onChange(listener: (key: Key) => void): () => void;
}

/** What is asked of an informer; src/kube has one. */
export interface InformerView<T> {
  readonly hasSynced: boolean;
  get(key: Key): T | undefined;
  keys(): Iterable<Key>;
  addHandlers(handlers: {
    readonly added: (object: T) => void;
    readonly updated: (old: T, object: T) => void;
    readonly deleted: (last: T) => void;
  }): () => void;
}

/** `keyOf`: the key under which the informer keeps the object. */
export function cachedObjects<T extends KubeObject>(
  informer: InformerView<T>,
  keyOf: (object: T) => Key,
): CachedObjects<T> {
  return {
    get synced() {
      return informer.hasSynced;
    },
    get: (key) => informer.get(key),
    keys: () => informer.keys(),
    onChange: (listener) => {
      const changed = (object: T) => listener(keyOf(object));
      return informer.addHandlers({ added: changed, updated: (_old, object) => changed(object), deleted: changed });
    },
  };
}
