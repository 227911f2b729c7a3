import { copyJson, isRecord, rfc3339 } from '../../base/index.ts';
import type { ApiType } from '../api-type.ts';
import { conflict, forbidden, notFound } from '../errors.ts';
import type { ApiObject } from '../object.ts';
import { addressOf, lockKey, type ObjectContext, type Target } from './context.ts';
import { isFinished } from './writer.ts';

export type Propagation = 'Background' | 'Foreground' | 'Orphan';

export interface RemovalOptions {
  readonly gracePeriodSeconds?: number;
  readonly propagation?: Propagation;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly dryRun?: boolean;
}

export interface Deletion {
  readonly object: ApiObject;
  /** False: finalizers, a grace period or content of a namespace keep it for now. */
  readonly gone: boolean;
}

/** Finalizers by which the garbage collector is asked to see to the dependents first. */
export const foregroundFinalizer = 'foregroundDeletion';
export const orphanFinalizer = 'orphan';

const lastingNamespaces = ['default', 'kube-system', 'kube-node-lease', 'kube-public'];

/** Deletes objects as Kubernetes does: grace period, finalizers, preconditions, propagation. Throws ApiError, StoreError. */
export class Remover {
  readonly #context: ObjectContext;

  constructor(context: ObjectContext) {
    this.#context = context;
  }

  async remove(type: ApiType, target: Target, options: RemovalOptions): Promise<Deletion> {
    const { store, lock } = this.#context;
    const address = addressOf(type, target);
    return lock.run(lockKey(type, target), async () => {
      const entry = store.get(address);
      if (!entry) throw notFound(type, target.name);
      checkPreconditions(type, entry.object, options);
      if (type.resource === 'namespaces' && lastingNamespaces.includes(target.name)) {
        throw forbidden(type, target.name, 'this namespace may not be deleted');
      }
      const next = this.#marked(type, entry.object, options);
      const gone = isFinished(type, next);
      if (options.dryRun) return { object: entry.object, gone };
      if (!gone && next.metadata === entry.object.metadata) return { object: entry.object, gone };
      const done = await store.commit({ kind: gone ? 'delete' : 'put', ...address, object: next });
      return { object: done.object, gone };
    });
  }

  /** Takes a namespace away once nothing is in it. */
  async finishNamespace(type: ApiType, name: string): Promise<void> {
    const { store, lock } = this.#context;
    const address = addressOf(type, { namespace: '', name });
    await lock.run(lockKey(type, { namespace: '', name }), async () => {
      const entry = store.get(address);
      if (!entry?.object.metadata.deletionTimestamp || (entry.object.metadata.finalizers ?? []).length > 0) return;
      await store.commit({ kind: 'delete', ...address, object: entry.object });
    });
  }

  /** The object with its marks of deletion; the same metadata when there is nothing to add. */
  #marked(type: ApiType, old: ApiObject, options: RemovalOptions): ApiObject {
    const isFirst = old.metadata.deletionTimestamp === undefined;
    const graceSeconds = Math.max(0, options.gracePeriodSeconds ?? type.gracePeriodSeconds?.(old) ?? 0);
    const effective = type.gracePeriodSeconds === undefined ? 0 : graceSeconds;
    const isShorter = !isFirst && options.gracePeriodSeconds !== undefined && isLess(effective, old);
    const finalizers = withPropagation(old.metadata.finalizers ?? [], options.propagation);
    const sameFinalizers = finalizers.length === (old.metadata.finalizers ?? []).length;
    if (!isFirst && !isShorter && sameFinalizers) return old;
    const next = copyJson(old);
    if (finalizers.length > 0) next.metadata.finalizers = finalizers;
    if (isFirst || isShorter) {
      const end = new Date(this.#context.clock.now().getTime() + effective * 1000);
      next.metadata.deletionTimestamp = rfc3339(end);
      next.metadata.deletionGracePeriodSeconds = effective;
    }
    if (isFirst && next.metadata.generation !== undefined) next.metadata.generation++;
    if (type.resource === 'namespaces')
      next.status = { ...(isRecord(next.status) ? next.status : {}), phase: 'Terminating' };
    return next;
  }
}

function isLess(graceSeconds: number, old: ApiObject): boolean {
  return graceSeconds < (old.metadata.deletionGracePeriodSeconds ?? 0);
}

function withPropagation(finalizers: readonly string[], propagation: Propagation | undefined): string[] {
  const own = [foregroundFinalizer, orphanFinalizer];
  if (propagation === undefined) return [...finalizers];
  const others = finalizers.filter((item) => !own.includes(item));
  if (propagation === 'Foreground') return [...others, foregroundFinalizer];
  return propagation === 'Orphan' ? [...others, orphanFinalizer] : [...others];
}

function checkPreconditions(type: ApiType, object: ApiObject, { preconditions }: RemovalOptions): void {
  const { name, uid, resourceVersion } = object.metadata;
  if (preconditions?.uid !== undefined && preconditions.uid !== uid) {
    const why = `Precondition failed: UID in precondition: ${preconditions.uid}, UID in object meta: ${uid}`;
    throw conflict(type, name, why);
  }
  if (preconditions?.resourceVersion !== undefined && preconditions.resourceVersion !== resourceVersion) {
    const why =
      `Precondition failed: ResourceVersion in precondition: ${preconditions.resourceVersion}, ` +
      `ResourceVersion in object meta: ${resourceVersion}`;
    throw conflict(type, name, why);
  }
}
