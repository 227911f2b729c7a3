import { controllerOf, type Key, type KubeObject, keyOf, type ResourceType } from '../../api/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';

/** Hears which owners a change concerns: `orphan`, an object that nothing controls, or `owner`, the key of one. */
export interface DependentsListener<T> {
  readonly owner: (key: Key) => void;
  readonly orphan: (object: T) => void;
}

/**
 * Which objects have a controller of one kind, by its key, and which have none. A cluster without such owners pays a look into two maps for
 * each change of an object.
 */
export class Dependents<T extends KubeObject> {
  readonly #objects: ReadYourWrites<T>;
  readonly #kind: string;
  readonly #group: string;
  readonly #byOwner = new Map<Key, Set<Key>>();
  readonly #ownerOf = new Map<Key, Key>();

  constructor(objects: ReadYourWrites<T>, owner: Pick<ResourceType, 'group' | 'kind'>) {
    this.#objects = objects;
    this.#kind = owner.kind;
    this.#group = owner.group;
  }

  /** From now on; the returned function ends it. */
  follow(listener: DependentsListener<T>): () => void {
    const end = this.#objects.onChange((key) => this.#changed(key, listener));
    for (const key of this.#objects.keys()) this.#index(key);
    return () => {
      end();
      this.#byOwner.clear();
      this.#ownerOf.clear();
    };
  }

  /** An own creation, which no watch has shown yet. */
  created(object: T): void {
    this.#objects.created(keyOf(object), object);
    this.#index(keyOf(object));
  }

  /** Those that this very owner controls. */
  of({ metadata }: KubeObject): T[] {
    const all = this.ofName(`${metadata.namespace}/${metadata.name}`);
    return all.filter((object) => controllerOf(object)?.uid === metadata.uid);
  }

  /** Key of the owner of an object, if it has one of this kind. */
  ownerOf(key: Key): Key | undefined {
    const owner = this.#ownerOf.get(key);
    return owner?.endsWith('/') ? undefined : owner;
  }

  /** Those in a namespace that nothing controls. */
  orphans(namespace: string | undefined): T[] {
    return this.ofName(orphansOf(namespace)).filter((object) => controllerOf(object) === undefined);
  }

  /** Those whose owner has, or had, this key. */
  ofName(owner: Key): T[] {
    return [...(this.#byOwner.get(owner) ?? [])].flatMap((key) => this.#objects.get(key) ?? []);
  }

  #changed(key: Key, { owner, orphan }: DependentsListener<T>): void {
    const before = this.#ownerOf.get(key);
    this.#index(key);
    const after = this.#ownerOf.get(key);
    const object = this.#objects.get(key);
    const isOwner = (each: Key | undefined) => each !== undefined && !each.endsWith('/');
    if (object && after === orphansOf(object.metadata.namespace)) orphan(object);
    if (before !== undefined && isOwner(before)) owner(before);
    if (after !== undefined && after !== before && isOwner(after)) owner(after);
  }

  #index(key: Key): void {
    const before = this.#ownerOf.get(key);
    const after = this.#ownerKeyOf(this.#objects.get(key));
    if (before === after) return;
    if (before !== undefined) {
      const siblings = this.#byOwner.get(before);
      siblings?.delete(key);
      if (siblings?.size === 0) this.#byOwner.delete(before);
    }
    if (after === undefined) {
      this.#ownerOf.delete(key);
      return;
    }
    this.#ownerOf.set(key, after);
    this.#byOwner.set(after, (this.#byOwner.get(after) ?? new Set()).add(key));
  }

  #ownerKeyOf(object: T | undefined): Key | undefined {
    if (!object) return undefined;
    const { namespace } = object.metadata;
    const owner = controllerOf(object);
    if (!owner) return orphansOf(namespace);
    const [group] = owner.apiVersion.split('/');
    return owner.kind === this.#kind && group === this.#group ? `${namespace}/${owner.name}` : undefined;
  }
}

/** No owner has an empty name. */
const orphansOf = (namespace: string | undefined): Key => `${namespace}/`;
