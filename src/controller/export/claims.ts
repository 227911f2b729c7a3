import { type PersistentVolumeClaim, resources, type VirtualMachineExport } from '../../api/index.ts';
import { controllerReference } from '../owned/index.ts';
import { sizedForSnapshot } from '../snapshot-source/index.ts';
import type { WantedClaim } from './observation.ts';
import { contentType } from './source.ts';

const snapshotGroup = 'snapshot.storage.k8s.io';

/** A claim that begins with a VolumeSnapshot and goes with the export. Pure. */
export function renderClaim(
  vmExport: VirtualMachineExport,
  { name, backup, isDisk, restoreSize }: WantedClaim,
): PersistentVolumeClaim {
  const { spec, metadata } = backup.persistentVolumeClaim;
  const dataSource = {
    apiGroup: snapshotGroup,
    kind: resources.volumeSnapshots.kind,
    name: backup.volumeSnapshotName ?? '',
  };
  const kept = metadata?.annotations?.[contentType];
  const content = isDisk ? 'kubevirt' : kept;
  return {
    apiVersion: 'v1',
    kind: resources.persistentVolumeClaims.kind,
    metadata: {
      name,
      ...(vmExport.metadata.namespace && { namespace: vmExport.metadata.namespace }),
      ...(content !== undefined && { annotations: { [contentType]: content } }),
      ownerReferences: [controllerReference(resources.virtualMachineExports, vmExport)],
    },
    spec: {
      ...(spec.accessModes && { accessModes: spec.accessModes }),
      resources: { ...spec.resources, requests: sizedForSnapshot(spec.resources?.requests, restoreSize) },
      ...(spec.storageClassName !== undefined && { storageClassName: spec.storageClassName }),
      ...(spec.volumeMode !== undefined && { volumeMode: spec.volumeMode }),
      dataSource,
      dataSourceRef: dataSource,
    },
  };
}
