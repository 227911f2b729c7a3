import { type KubeObject, keyOf, type ResourceType } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import type { ObjectEvent, ReadYourWrites, WriteReport, Written } from '../../reconcile/index.ts';

export interface StatusWrite<T extends KubeObject> {
  readonly type: ResourceType;
  readonly object: T & { status?: unknown };
  readonly status: object;
  /** Of the change, for when it went through. */
  readonly events: readonly ObjectEvent[];
}

/** Stores a status if it differs, onto the object that was decided on. */
export async function storeStatus<T extends KubeObject>(
  { type, object, status, events }: StatusWrite<T>,
  { client, objects }: { readonly client: Pick<KubeClient, 'updateStatus'>; readonly objects: ReadYourWrites<T> },
  report: WriteReport,
  signal: AbortSignal,
): Promise<Written> {
  if (sameJson(object.status ?? {}, status)) return { kind: 'unchanged' };
  const key = keyOf(object);
  try {
    await objects.whileWriting(key, async () => {
      const newer = await client.updateStatus<T>(type, { ...object, status }, { signal });
      objects.saw(key, object, newer);
    });
  } catch (error) {
    if (signal.aborted) throw error;
    if (isKubeError(error, 'NOT_FOUND')) return { kind: 'gone' };
    // Whoever changed it wakes the key.
    return isKubeError(error, 'CONFLICT') ? { kind: 'conflicts' } : { kind: 'failed', error };
  }
  report(events);
  return { kind: 'written' };
}

/** Puts a finalizer on, or takes it off; false: the object is another one now. */
export async function setFinalizer<T extends KubeObject>(
  type: ResourceType,
  object: T,
  { name, isWanted }: { readonly name: string; readonly isWanted: boolean },
  { client, objects }: { readonly client: Pick<KubeClient, 'patch'>; readonly objects: ReadYourWrites<T> },
  signal: AbortSignal,
): Promise<boolean> {
  const { uid, resourceVersion, finalizers = [] } = object.metadata;
  if (finalizers.includes(name) === isWanted) return true;
  const others = finalizers.filter((each) => each !== name);
  const body = { metadata: { uid, resourceVersion, finalizers: isWanted ? [...others, name] : others } };
  try {
    const newer = await client.patch<T>(type, object.metadata, body, 'merge', { signal });
    objects.saw(keyOf(object), object, newer);
    return true;
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND', 'CONFLICT')) return false;
    throw error;
  }
}
