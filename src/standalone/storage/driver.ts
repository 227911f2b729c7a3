import { localStorage, type PersistentVolume, type PersistentVolumeClaim, type StorageClass } from '../../api/index.ts';

/** Provisioner of storage classes, driver of volumes and of snapshots. */
export const { driver } = localStorage;

export const finalizers = {
  claim: 'kubernetes.io/pvc-protection',
  volume: 'kubernetes.io/pv-protection',
  snapshot: 'snapshot.storage.kubernetes.io/volumesnapshot-bound-protection',
  content: 'snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection',
} as const;

export const annotations = {
  defaultClass: 'storageclass.kubernetes.io/is-default-class',
  defaultSnapshotClass: 'snapshot.storage.kubernetes.io/is-default-class',
  boundByController: 'pv.kubernetes.io/bound-by-controller',
  bindCompleted: 'pv.kubernetes.io/bind-completed',
  provisionedBy: 'pv.kubernetes.io/provisioned-by',
  provisioner: localStorage.provisionerAnnotation,
} as const;

/** A name in the directory of volumes: no path, and none of the drafts there. */
const handlePattern = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,250}$/;

export function isHandle(text: string): boolean {
  return handlePattern.test(text);
}

/** Of the directory that a claim's data lies in: people find it by the name, and no two claims share one, by the UID. */
export function handleOf({ metadata: { namespace = '', name, uid = '' } }: PersistentVolumeClaim): string {
  return `${`${namespace}_${name}`.slice(0, 200)}_${uid}`;
}

export function volumeNameOf({ metadata }: PersistentVolumeClaim): string {
  return `pvc-${metadata.uid ?? ''}`;
}

/** The volume was made with the data that its handle names, for a claim: both end with that claim's UID. */
export function isOfOwnData(volume: PersistentVolume): boolean {
  const uid = volume.metadata.name.replace(/^pvc-/, '');
  return uid !== '' && uid !== volume.metadata.name && ownHandle(volume)?.endsWith(`_${uid}`) === true;
}

/** The handle of a volume of this node; undefined for any other one. */
export function ownHandle(volume: PersistentVolume | undefined): string | undefined {
  const { csi } = volume?.spec ?? {};
  return csi?.driver === driver && isHandle(csi.volumeHandle) ? csi.volumeHandle : undefined;
}

/**
 * The handle of the volume that a bound claim names, or what is wrong with it in words that follow the claim's name. A volume knows its claim by
 * the UID: one that was deleted and made anew under its name is another one, and its volume that of nobody.
 */
export function boundHandle(
  { metadata, spec }: PersistentVolumeClaim,
  volume: PersistentVolume | undefined,
): { readonly handle: string } | { readonly problem: string } {
  if (!volume) return { problem: `has the volume ${spec.volumeName}, which does not exist any more` };
  const { claimRef } = volume.spec;
  const handle = ownHandle(volume);
  if (handle === undefined) {
    return { problem: `has the volume ${volume.metadata.name}, which is not one of this node` };
  }
  if (claimRef?.uid === metadata.uid) return { handle };
  const other = claimRef ? `claim ${claimRef.namespace}/${claimRef.name} of UID ${claimRef.uid}` : 'no claim';
  return {
    problem: `has the volume ${volume.metadata.name}, which is bound to ${other}, and this one is ${metadata.uid}`,
  };
}

/** The newest of those that are marked, as the API server's plug-in DefaultStorageClass has it. */
export function defaultClassOf(classes: readonly StorageClass[]): StorageClass | undefined {
  const marked = classes.filter(({ metadata }) => metadata.annotations?.[annotations.defaultClass] === 'true');
  const made = ({ metadata }: StorageClass) => metadata.creationTimestamp ?? '';
  return [...marked].sort(
    (a, b) => made(b).localeCompare(made(a)) || a.metadata.name.localeCompare(b.metadata.name),
  )[0];
}
