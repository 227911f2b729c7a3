import {
  annotations,
  keptState,
  labels,
  type PersistentVolumeClaim,
  resources,
  type VirtualMachine,
  type VirtualMachineRestore,
} from '../../api/index.ts';
import { controllerReference } from '../owned/index.ts';
import { claimOfSnapshot, labelValue } from '../snapshot-source/index.ts';
import { restoreMark } from './names.ts';
import type { VolumeFacts } from './observation.ts';

/** Who has a claim, and how it came to be, is not restored with it. */
const forgotten = [
  ...['pv.kubernetes.io', 'volume.beta.kubernetes.io', 'cdi.kubevirt.io', 'volume.kubernetes.io'],
  ...['k8s.io/CloneRequest', 'k8s.io/CloneOf'],
];
/** Whose state a claim has, it says once it is to be used. */
const stateLabels: readonly string[] = [keptState.label, keptState.migrationLabel, keptState.obsoleteLabel];

/** The claim that a volume becomes: it begins with its VolumeSnapshot (upstream: CreateRestorePVCDefFromVMRestore). Pure. */
export function makeClaim(
  restore: VirtualMachineRestore,
  { restore: named, backup, volumeSnapshot }: VolumeFacts,
  target: VirtualMachine | undefined,
  source: Pick<VirtualMachine, 'metadata'>,
): PersistentVolumeClaim {
  const { metadata = {}, spec } = backup.persistentVolumeClaim;
  const override = (restore.spec.volumeRestoreOverrides ?? []).find(
    ({ volumeName }) => volumeName === named.volumeName,
  );
  const ownership = ownershipOf(restore, named.dataVolumeName, { target, source, metadata });
  return {
    apiVersion: 'v1',
    kind: resources.persistentVolumeClaims.kind,
    metadata: {
      name: named.persistentVolumeClaim,
      ...(restore.metadata.namespace && { namespace: restore.metadata.namespace }),
      labels: {
        ...without(metadata.labels, (key) => stateLabels.includes(key)),
        [labels.restoreSourceName]: labelValue(source.metadata.name),
        [labels.restoreSourceNamespace]: labelValue(source.metadata.namespace),
        ...override?.labels,
      },
      annotations: {
        ...without(metadata.annotations, isForgotten),
        ...override?.annotations,
        [annotations.restoreName]: restore.metadata.name,
        [annotations.lastRestore]: restoreMark(restore),
        ...ownership.annotations,
      },
      ...(ownership.owner && { ownerReferences: [controllerReference(resources.virtualMachines, ownership.owner)] }),
    },
    spec: claimOfSnapshot(spec, {
      name: named.volumeSnapshotName,
      restoreSize: volumeSnapshot?.status?.restoreSize,
    }),
  };
}

interface Owners {
  readonly target: VirtualMachine | undefined;
  readonly source: Pick<VirtualMachine, 'metadata'>;
  readonly metadata: Partial<PersistentVolumeClaim['metadata']>;
}

/** A DataVolume, the VM, or nobody. One that is yet to be made takes what its source had owned. */
function ownershipOf(
  { metadata: { name }, spec }: VirtualMachineRestore,
  dataVolume: string | undefined,
  { target, source, metadata }: Owners,
): { readonly annotations?: Record<string, string>; readonly owner?: VirtualMachine } {
  if (dataVolume !== undefined) return { annotations: { [annotations.populatedFor]: dataVolume } };
  if (spec.volumeOwnershipPolicy === 'None') return {};
  if (target) return { owner: target };
  const wasOwned = (metadata.ownerReferences ?? []).some(
    ({ kind, uid }) => kind === resources.virtualMachines.kind && uid === source.metadata.uid,
  );
  return wasOwned ? { annotations: { [annotations.restoredOwnedByVm]: name } } : {};
}

function isForgotten(key: string): boolean {
  return key !== annotations.contentType && forgotten.some((prefix) => key.startsWith(prefix));
}

function without(
  present: Readonly<Record<string, string>> | undefined,
  isLeftOut: (key: string) => boolean,
): Record<string, string> {
  return Object.fromEntries(Object.entries(present ?? {}).filter(([key]) => !isLeftOut(key)));
}
