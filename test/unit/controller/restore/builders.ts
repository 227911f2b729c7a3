import type {
  PersistentVolumeClaim,
  VirtualMachineSnapshot,
  VirtualMachineSnapshotContent,
  VolumeBackup,
} from '../../../../src/api/index.ts';
import { buildVm } from '../builders.ts';

const group = 'snapshot.kubevirt.io/v1beta1';

export function buildSnapshot(): VirtualMachineSnapshot {
  return {
    ...{ apiVersion: group, kind: 'VirtualMachineSnapshot' },
    metadata: { name: 'snap', namespace: 'default', uid: 'uid-snap' },
    spec: { source: { apiGroup: 'kubevirt.io', kind: 'VirtualMachine', name: 'vm1' } },
    status: { readyToUse: true, sourceUID: 'uid-vm', virtualMachineSnapshotContentName: 'content' },
  };
}

/** Of a VM, with a backup of each of these volumes by the names of their claims. */
export function buildContent(
  kept: ReturnType<typeof buildVm> = buildVm(),
  claims: Readonly<Record<string, string>> = {},
): VirtualMachineSnapshotContent {
  const volumeBackups = Object.entries(claims).map(
    ([volumeName, name]): VolumeBackup => ({
      ...{ volumeName, volumeSnapshotName: `v-${volumeName}` },
      persistentVolumeClaim: { metadata: { name }, spec: {} },
    }),
  );
  return {
    ...{ apiVersion: group, kind: 'VirtualMachineSnapshotContent' },
    metadata: { name: 'content', namespace: 'default', uid: 'uid-content' },
    spec: { virtualMachineSnapshotName: 'snap', source: { virtualMachine: kept }, volumeBackups },
    status: { readyToUse: true },
  };
}

export function buildClaim(name: string): PersistentVolumeClaim {
  return {
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', spec: {}, status: { phase: 'Bound' } },
    metadata: { name, namespace: 'default', uid: `uid-${name}` },
  };
}
