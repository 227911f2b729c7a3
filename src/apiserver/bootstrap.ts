import { rfc3339, sameJson } from '../base/index.ts';
import { namespaceAdmission } from './admission/index.ts';
import type { ApiType } from './api-type.ts';
import type { ApiObject } from './object.ts';
import { addressOf, clusterDefaults, type ObjectContext, randomUuid } from './objects/index.ts';
import { builtInDefinitions, customResourceDefinitions, namespaces } from './types/index.ts';

const initialNamespaces = ['default', 'kube-system', 'kube-node-lease', 'kubevirt'];

/** Makes what must be there before the first request: namespaces, and the definitions that `kubectl get crd` shows. */
export async function bootstrap(context: ObjectContext): Promise<void> {
  const wanted: [ApiType, ApiObject][] = [
    ...initialNamespaces.map((name): [ApiType, ApiObject] => [namespaces, namespaceObject(context, name)]),
    ...builtInDefinitions().map((object): [ApiType, ApiObject] => [customResourceDefinitions, object]),
  ];
  await Promise.all(wanted.map(([type, object]) => ensure(context, type, object)));
}

function namespaceObject(context: ObjectContext, name: string): ApiObject {
  const object: ApiObject = { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
  namespaceAdmission.fill?.(object, {
    old: undefined,
    hasNewSpec: true,
    now: context.clock.now(),
    privileged: true,
    randomUuid,
    cluster: clusterDefaults(context),
  });
  return object;
}

/** Namespaces stay as they are; definitions follow this version of the program. */
async function ensure({ store, clock }: ObjectContext, type: ApiType, object: ApiObject): Promise<void> {
  const address = addressOf(type, { namespace: '', name: object.metadata.name });
  const found = store.get(address)?.object;
  if (found && (type === namespaces || (sameJson(found.spec, object.spec) && sameJson(found.status, object.status))))
    return;
  const metadata = found?.metadata ?? {
    ...object.metadata,
    uid: randomUuid(),
    creationTimestamp: rfc3339(clock.now()),
  };
  await store.commit({ kind: 'put', ...address, object: { ...object, metadata } });
}
