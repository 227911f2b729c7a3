import type { OwnerReference } from '../../api/index.ts';
import { copyJson, errorMessage, type Logger } from '../../base/index.ts';
import { KeyedQueue, type KeyResult } from '../../reconcile/index.ts';
import type { ApiType } from '../api-type.ts';
import { ApiError } from '../errors.ts';

import {
  addressOf,
  foregroundFinalizer,
  isFinished,
  lockKey,
  type ObjectContext,
  orphanFinalizer,
  type Remover,
} from '../objects/index.ts';
import { type Address, collectionOf, type Entry, recordKey, type StoreEvent } from '../store/index.ts';
import { apiTypes, findKind } from '../types/index.ts';

export interface GarbageCollectorDeps {
  readonly context: ObjectContext;
  readonly remover: Remover;
  readonly log: Logger;
}

const typeByCollection = new Map(apiTypes.map((type) => [collectionOf(type), type]));

/**
 * Deletes objects whose owners are all gone, and sees to the dependents of owners that are deleted with `Foreground` or `Orphan`.
 * Owners of kinds that this server does not have are taken to exist. It uses the queue alone: it reads the store itself, which is never
 * behind its own writes, and decides one thing.
 */
export class GarbageCollector {
  readonly #deps: GarbageCollectorDeps;
  readonly #queue: KeyedQueue;
  /** Owner uid → addresses of dependents, by record key. */
  readonly #dependents = new Map<string, Map<string, Address>>();
  readonly #addresses = new Map<string, Address>();
  #unsubscribe: () => void = () => undefined;

  constructor(deps: GarbageCollectorDeps) {
    this.#deps = deps;
    this.#queue = new KeyedQueue(
      { concurrency: 4, backoff: { baseMs: 50, maxMs: 30_000, jitter: 0.1 } },
      {
        run: (key) => this.#run(key),
        clock: deps.context.clock,
        onError: (key, error) => deps.log.warn({ key, err: errorMessage(error) }, 'garbage collection failed'),
      },
    );
  }

  start(): void {
    const { store } = this.#deps.context;
    for (const type of apiTypes) for (const entry of store.list(collectionOf(type))) this.#index(entry);
    this.#unsubscribe = store.subscribe('*', (event) => this.#onEvent(event));
    for (const key of this.#addresses.keys()) this.#queue.add(key);
  }

  async stop(): Promise<void> {
    this.#unsubscribe();
    await this.#queue.stop();
  }

  #onEvent({ type, entry, previous }: StoreEvent): void {
    if (previous) this.#unindex(previous);
    const { uid } = entry.object.metadata;
    if (type === 'DELETED') {
      for (const key of this.#dependents.get(uid ?? '')?.keys() ?? []) this.#queue.add(key);
      for (const owner of entry.object.metadata.ownerReferences ?? []) this.#wakeOwner(owner, entry.namespace);
      return;
    }
    this.#index(entry);
    if (this.#concerns(entry)) this.#queue.add(recordKey(entry));
    if (entry.object.metadata.deletionTimestamp !== undefined && isWaiting(entry)) this.#queue.add(recordKey(entry));
  }

  /** Only objects with owners, and owners that wait for their dependents, are looked at. */
  #concerns(entry: Entry): boolean {
    return (entry.object.metadata.ownerReferences ?? []).length > 0;
  }

  #index(entry: Entry): void {
    const owners = entry.object.metadata.ownerReferences ?? [];
    const key = recordKey(entry);
    if (owners.length > 0 || isWaiting(entry)) this.#addresses.set(key, entry);
    for (const { uid } of owners) {
      const dependents = this.#dependents.get(uid) ?? new Map<string, Address>();
      const { collection, namespace, name } = entry;
      this.#dependents.set(uid, dependents.set(key, { collection, namespace, name }));
    }
  }

  #unindex(entry: Entry): void {
    const key = recordKey(entry);
    this.#addresses.delete(key);
    for (const { uid } of entry.object.metadata.ownerReferences ?? []) {
      const dependents = this.#dependents.get(uid);
      dependents?.delete(key);
      if (dependents?.size === 0) this.#dependents.delete(uid);
    }
  }

  /** A dependent is gone: its owner may be waiting for that. */
  #wakeOwner(owner: OwnerReference, namespace: string): void {
    const entry = this.#ownerEntry(owner, namespace);
    if (entry && isWaiting(entry)) this.#queue.add(recordKey(entry));
  }

  async #run(key: string): Promise<KeyResult> {
    const address = this.#addresses.get(key);
    const entry = address && this.#deps.context.store.get(address);
    const type = entry && typeByCollection.get(entry.collection);
    if (!entry || !type) return { kind: 'done' };
    try {
      if (isWaiting(entry)) await this.#seeToDependents(type, entry);
      else await this.#collect(type, entry);
    } catch (error) {
      const isStale = error instanceof ApiError && ['NOT_FOUND', 'CONFLICT'].includes(error.code);
      if (!isStale) throw error;
    }
    return { kind: 'done' };
  }

  /** Deletes an object whose owners are all gone; one that still has an owner only loses the references to the others. */
  async #collect(type: ApiType, entry: Entry): Promise<void> {
    const owners = entry.object.metadata.ownerReferences ?? [];
    const alive = owners.filter((owner) => this.#isAlive(owner, entry.namespace));
    if (alive.length === owners.length || entry.object.metadata.deletionTimestamp !== undefined) return;
    if (alive.length > 0) {
      await this.#change(type, entry, (object) => ({ ...object, ownerReferences: alive }));
      return;
    }
    const { uid, resourceVersion } = entry.object.metadata;
    const preconditions = { ...(uid ? { uid } : {}), ...(resourceVersion ? { resourceVersion } : {}) };
    await this.#deps.remover.remove(type, entry, { propagation: 'Background', preconditions });
    this.#deps.log.info(
      { kind: type.kind, namespace: entry.namespace, name: entry.name },
      'deleted: its owner is gone',
    );
  }

  async #seeToDependents(type: ApiType, owner: Entry): Promise<void> {
    const uid = owner.object.metadata.uid ?? '';
    const { store } = this.#deps.context;
    const dependents = [...(this.#dependents.get(uid)?.values() ?? [])].flatMap((address) => store.get(address) ?? []);
    const isOrphaning = owner.object.metadata.finalizers?.includes(orphanFinalizer);
    for (const entry of dependents) {
      const dependentType = typeByCollection.get(entry.collection);
      if (!dependentType) continue;
      if (isOrphaning) await this.#release(dependentType, entry, uid);
      else if (entry.object.metadata.deletionTimestamp === undefined) {
        await this.#deps.remover.remove(dependentType, entry, { propagation: 'Foreground' });
      }
    }
    const isBlocked = (address: Address) =>
      store.get(address)?.object.metadata.ownerReferences?.some((item) => item.uid === uid && item.blockOwnerDeletion);
    if (!isOrphaning && dependents.some(isBlocked)) return;
    const own = [foregroundFinalizer, orphanFinalizer];
    await this.#change(type, owner, (metadata) => ({
      ...metadata,
      finalizers: (metadata.finalizers ?? []).filter((item) => !own.includes(item)),
    }));
  }

  #release(type: ApiType, entry: Entry, ownerUid: string): Promise<void> {
    return this.#change(type, entry, (metadata) => ({
      ...metadata,
      ownerReferences: (metadata.ownerReferences ?? []).filter(({ uid }) => uid !== ownerUid),
    }));
  }

  async #change(
    type: ApiType,
    address: Address,
    change: (metadata: Entry['object']['metadata']) => object,
  ): Promise<void> {
    const { store, lock } = this.#deps.context;
    await lock.run(lockKey(type, address), async () => {
      const entry = store.get(address);
      if (!entry) return;
      const object = copyJson(entry.object);
      object.metadata = { ...object.metadata, ...change(object.metadata) };
      for (const name of ['finalizers', 'ownerReferences'] as const) {
        if (object.metadata[name]?.length === 0) delete object.metadata[name];
      }
      const kind = isFinished(type, object) ? 'delete' : 'put';
      await store.commit({ kind, ...addressOf(type, address), object });
    });
  }

  #isAlive(owner: OwnerReference, namespace: string): boolean {
    const type = findKind(owner.apiVersion, owner.kind);
    return !type || this.#ownerEntry(owner, namespace) !== undefined;
  }

  #ownerEntry(owner: OwnerReference, namespace: string): Entry | undefined {
    const type = findKind(owner.apiVersion, owner.kind);
    if (!type) return undefined;
    const target = { namespace: type.namespaced ? namespace : '', name: owner.name };
    const entry = this.#deps.context.store.get(addressOf(type, target));
    return entry?.object.metadata.uid === owner.uid ? entry : undefined;
  }
}

function isWaiting({ object }: Entry): boolean {
  if (object.metadata.deletionTimestamp === undefined) return false;
  return (object.metadata.finalizers ?? []).some((item) => item === foregroundFinalizer || item === orphanFinalizer);
}
