import { apiVersionOf, type KubeObject, type OwnerReference, type ResourceType } from '../../api/index.ts';

export function controllerReference(type: ResourceType, { metadata: { name, uid = '' } }: KubeObject): OwnerReference {
  return { apiVersion: apiVersionOf(type), kind: type.kind, name, uid, controller: true, blockOwnerDeletion: true };
}

/** A JSON patch that takes an owner's reference off, guarded by what was observed. */
export function releaseOperations({ metadata }: KubeObject, ownerUid: string | undefined): object[] {
  const { uid, ownerReferences = [] } = metadata;
  const path = '/metadata/ownerReferences';
  return [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path, value: ownerReferences },
    { op: 'replace', path, value: ownerReferences.filter((owner) => owner.uid !== ownerUid) },
  ];
}
