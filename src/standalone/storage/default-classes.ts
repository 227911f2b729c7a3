import { type KubeObject, type ResourceType, resources } from '../../api/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import { annotations, driver } from './driver.ts';

const storage = { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', provisioner: driver };
const common = { volumeBindingMode: 'Immediate', allowVolumeExpansion: true };
const isDefault = (annotation: string) => ({ annotations: { [annotation]: 'true' } });

/** Every node of the machine reaches the same disk, so that nothing depends on where a pod goes: volumes are made at once. */
const classes: readonly [ResourceType, KubeObject][] = [
  [
    resources.storageClasses,
    {
      ...storage,
      metadata: { name: 'local', ...isDefault(annotations.defaultClass) },
      reclaimPolicy: 'Delete',
      ...common,
    },
  ],
  [resources.storageClasses, { ...storage, metadata: { name: 'local-retain' }, reclaimPolicy: 'Retain', ...common }],
  [
    resources.volumeSnapshotClasses,
    {
      apiVersion: 'snapshot.storage.k8s.io/v1',
      kind: 'VolumeSnapshotClass',
      metadata: { name: 'local', ...isDefault(annotations.defaultSnapshotClass) },
      driver,
      deletionPolicy: 'Delete',
    },
  ],
].map(([type, object]) => [type, object] as [ResourceType, KubeObject]);

/** What is there stays as its user has it. */
export async function ensureStorageClasses(client: Pick<KubeClient, 'create'>): Promise<void> {
  for (const [type, object] of classes) {
    try {
      await client.create(type, object);
    } catch (error) {
      if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
    }
  }
}
