import { copyJson, rfc3339 } from '../../base/index.ts';
import type { ApiType } from '../api-type.ts';
import { conflict, notFound } from '../errors.ts';
import { ensureObject, objectsAt, stringAt } from '../object.ts';
import { addressOf, lockKey, type ObjectContext, type Target } from './context.ts';

/** Puts a pod on a node, once. Throws ApiError NOT_FOUND, and CONFLICT for a pod that has a node or is being deleted. */
export async function bindPod(
  { store, lock, clock }: ObjectContext,
  type: ApiType,
  target: Target,
  { node, dryRun }: { readonly node: string; readonly dryRun: boolean },
): Promise<void> {
  const address = addressOf(type, target);
  await lock.run(lockKey(type, target), async () => {
    const object = store.get(address)?.object;
    if (!object) throw notFound(type, target.name);
    const present = stringAt(object, 'spec', 'nodeName');
    if (present) throw conflict(type, target.name, `pod ${target.name} is already assigned to node "${present}"`);
    if (object.metadata.deletionTimestamp) throw conflict(type, target.name, 'it is being deleted, cannot be assigned');
    const next = copyJson(object);
    ensureObject(next, 'spec').nodeName = node;
    const scheduled = {
      type: 'PodScheduled',
      status: 'True',
      lastProbeTime: null,
      lastTransitionTime: rfc3339(clock.now()),
    };
    const others = objectsAt(next, 'status', 'conditions').filter((condition) => condition.type !== scheduled.type);
    ensureObject(next, 'status').conditions = [...others, scheduled];
    if (!dryRun) await store.commit({ kind: 'put', ...address, object: next });
  });
}
