import { annotations, type PersistentVolumeClaim, resources, type VirtualMachineExport } from '../../api/index.ts';
import { controllerReference } from '../owned/index.ts';
import { claimOfSnapshot } from '../snapshot-source/index.ts';
import type { WantedClaim } from './observation.ts';

/** A claim that begins with a VolumeSnapshot and goes with the export. Pure. */
export function renderClaim(
  vmExport: VirtualMachineExport,
  { name, backup, isDisk, restoreSize }: WantedClaim,
): PersistentVolumeClaim {
  const { spec, metadata } = backup.persistentVolumeClaim;
  const kept = metadata?.annotations?.[annotations.contentType];
  const content = isDisk ? 'kubevirt' : kept;
  return {
    apiVersion: 'v1',
    kind: resources.persistentVolumeClaims.kind,
    metadata: {
      name,
      ...(vmExport.metadata.namespace && { namespace: vmExport.metadata.namespace }),
      ...(content !== undefined && { annotations: { [annotations.contentType]: content } }),
      ownerReferences: [controllerReference(resources.virtualMachineExports, vmExport)],
    },
    spec: claimOfSnapshot(spec, { name: backup.volumeSnapshotName ?? '', restoreSize }),
  };
}
