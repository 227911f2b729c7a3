import { type KubeObject, keyOf, type ResourceType, resources } from '../../../src/api/index.ts';
import { applyJsonPatch } from '../../../src/apiserver/patch/json-patch.ts';
import { applyMergePatch } from '../../../src/base/index.ts';
import { KubeError } from '../../../src/kube/index.ts';

/** Any object of the cluster; actors of the world read and write what they know of it. */
// biome-ignore lint/suspicious/noExplicitAny: actors write fields of many types
export type Loose = KubeObject & { spec?: any; status?: any };

export interface Change {
  readonly type: string;
  readonly before: Loose | undefined;
  readonly after: Loose | undefined;
  /** `world`, or a controller's process. */
  readonly writer: string;
}

export interface StoreWatcher {
  /** The process that watches. */
  readonly writer: string;
  readonly type: string;
  readonly matches: (object: Loose) => boolean;
  push(kind: 'ADDED' | 'MODIFIED' | 'DELETED', object: Loose): void;
}

/** The objects of a small cluster with versions, patches, finalizers and owners, as far as virt-controller needs them. */
export class ClusterStore {
  readonly watchers = new Set<StoreWatcher>();
  onChange: (change: Change) => void = () => undefined;
  readonly #objects = new Map<string, Map<string, Loose>>();
  readonly #now: () => Date;
  readonly #lastChange = new Map<string, number>();
  #version = 1;

  constructor(now: () => Date) {
    this.#now = now;
  }

  get version(): string {
    return String(this.#version);
  }

  /** Version of the last change of any object of this type. */
  lastChangeOf({ resource }: ResourceType): number {
    return this.#lastChange.get(resource) ?? 0;
  }

  /** To be read only. */
  list(type: ResourceType, matches: (object: Loose) => boolean = () => true): Loose[] {
    return [...(this.#objects.get(type.resource)?.values() ?? [])].filter(matches);
  }

  find(type: ResourceType, key: string): Loose | undefined {
    const found = this.#objects.get(type.resource)?.get(key);
    return found && structuredClone(found);
  }

  get(type: ResourceType, key: string): Loose {
    const found = this.find(type, key);
    if (!found) throw new KubeError('NOT_FOUND', `${type.resource} ${key} not found`);
    return found;
  }

  create(type: ResourceType, given: Loose, writer: string): Loose {
    const object = structuredClone(given);
    const { metadata } = object;
    const generateName = (metadata as { generateName?: string }).generateName ?? '';
    metadata.name ??= `${generateName}${this.#version}`;
    if (this.find(type, keyOf(object))) throw new KubeError('ALREADY_EXISTS', `${keyOf(object)} exists`);
    metadata.uid = `uid-${this.#version}`;
    metadata.creationTimestamp = this.#now().toISOString();
    if (type === resources.pods) object.status = { phase: 'Pending' };
    return this.#store(type, undefined, object, writer);
  }

  /** With the version as its lock. */
  put(type: ResourceType, object: Loose, part: 'all' | 'status' | 'not-status', writer: string): Loose {
    const before = this.get(type, keyOf(object));
    if (before.metadata.resourceVersion !== object.metadata.resourceVersion)
      throw new KubeError('CONFLICT', 'modified');
    const own = structuredClone(object);
    const status = part === 'not-status' ? before.status : own.status;
    const after = { ...(part === 'status' ? before : own), ...(status !== undefined && { status }) };
    return this.#store(type, before, after, writer);
  }

  patch(type: ResourceType, key: string, body: unknown, kind: string, writer: string): Loose {
    const before = this.get(type, key);
    try {
      const after = kind === 'json' ? applyJsonPatch(before, body) : applyMergePatch(before, body);
      return this.#store(type, before, after as Loose, writer);
    } catch (error) {
      throw new KubeError('INVALID', error instanceof Error ? error.message : 'patch');
    }
  }

  /** What the world does to an object, as it is now; nothing when there is none. */
  change(type: ResourceType, key: string, change: (object: Loose) => void): void {
    const before = this.find(type, key);
    if (!before) return;
    const after = structuredClone(before);
    change(after);
    this.#store(type, before, after, 'world');
  }

  /** A pod on a node ends in its own time, unless it is not waited for. */
  delete(type: ResourceType, key: string, options: { uid?: string; graceSeconds?: number }, writer: string): void {
    const before = this.get(type, key);
    const { uid, finalizers = [] } = before.metadata;
    if (options.uid !== undefined && options.uid !== uid) throw new KubeError('CONFLICT', 'another uid');
    const isPodAlive = type === resources.pods && before.spec?.nodeName && options.graceSeconds !== 0;
    if (finalizers.length === 0 && !isPodAlive) this.#remove(type, before, writer);
    else if (!before.metadata.deletionTimestamp) {
      const after = structuredClone(before);
      after.metadata.deletionTimestamp = this.#now().toISOString();
      this.#store(type, before, after, writer);
    }
  }

  #store(type: ResourceType, before: Loose | undefined, after: Loose, writer: string): Loose {
    const { deletionTimestamp, finalizers = [] } = after.metadata;
    const hadFinalizers = (before?.metadata.finalizers ?? []).length > 0;
    after.metadata.resourceVersion = String(++this.#version);
    const kept = this.#objects.get(type.resource) ?? new Map<string, Loose>();
    this.#objects.set(type.resource, kept);
    kept.set(keyOf(after), structuredClone(after));
    this.#publish({ type: type.resource, before, after: structuredClone(after), writer });
    if (deletionTimestamp && hadFinalizers && finalizers.length === 0) this.#remove(type, after, writer);
    return structuredClone(after);
  }

  #remove(type: ResourceType, object: Loose, writer: string): void {
    this.#objects.get(type.resource)?.delete(keyOf(object));
    const before = structuredClone(object);
    before.metadata.resourceVersion = String(++this.#version);
    this.#publish({ type: type.resource, before, after: undefined, writer });
    for (const pod of this.list(resources.pods)) {
      const isOwned = pod.metadata.ownerReferences?.some(({ uid }) => uid === object.metadata.uid);
      if (isOwned) this.delete(resources.pods, keyOf(pod), {}, 'world');
    }
  }

  #publish(change: Change): void {
    const { type, before, after } = change;
    this.#lastChange.set(type, this.#version);
    for (const watcher of this.watchers) {
      if (watcher.type !== type) continue;
      const [was, is] = [before && watcher.matches(before), after && watcher.matches(after)];
      if (after && is) watcher.push(was ? 'MODIFIED' : 'ADDED', structuredClone(after));
      else if (was) watcher.push('DELETED', structuredClone(after ?? before) as Loose);
    }
    this.onChange(change);
  }
}
