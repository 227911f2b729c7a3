import { rfc3339 } from '../base/index.ts';
import type { ApiObject } from './object.ts';
import { addressOf, type ObjectContext, randomUuid } from './objects/index.ts';
import { type Loss, lossMessage } from './store/index.ts';
import { events } from './types/index.ts';

/** Of the warning that the database came back with less than was acknowledged. `virt-node status` looks for it. */
export const lostWritesReason = 'DatabaseLostWrites';

/** Says it where people look: an event. It is the first change of this start, so a start that ends before says it again. */
export async function recordLoss({ store, clock }: ObjectContext, loss: Loss): Promise<void> {
  const name = `database-lost-writes.${store.revision}`;
  const at = rfc3339(clock.now());
  const object: ApiObject = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: 'default', uid: randomUuid(), creationTimestamp: at },
    involvedObject: { apiVersion: 'v1', kind: 'Namespace', name: 'default' },
    type: 'Warning',
    reason: lostWritesReason,
    message: lossMessage(loss),
    source: { component: 'virt-node' },
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  };
  await store.commit({ kind: 'put', ...addressOf(events, { namespace: 'default', name }), object });
}
