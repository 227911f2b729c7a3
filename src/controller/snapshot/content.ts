import {
  apiVersionOf,
  contentNameOf,
  finalizers,
  type KeptVirtualMachine,
  type KubeObject,
  resources,
  type VirtualMachine,
  type VirtualMachineSnapshot,
  type VirtualMachineSnapshotContent,
  type VolumeBackup,
} from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import { type MatcherField, matcherFields } from '../../instancetype/index.ts';
import type { KubeClient } from '../../kube/index.ts';
import { storedRevisionName } from '../instancetypes/index.ts';
import { controllerReference } from '../owned/index.ts';
import { copyRevision, revisionNames, type VolumeFacts } from '../snapshot-source/index.ts';

/** The snapshot's content, as it is made once the VM is locked; `spec`: what the VM is, or what its guest was started from. Pure. */
export function makeContent(
  snapshot: VirtualMachineSnapshot,
  { metadata: { managedFields: _, ...metadata } }: VirtualMachine,
  spec: VirtualMachine['spec'],
  volumes: readonly VolumeFacts[],
): VirtualMachineSnapshotContent {
  const { name, namespace, uid = '' } = snapshot.metadata;
  const type = resources.virtualMachineSnapshotContents;
  const virtualMachine: KeptVirtualMachine = { metadata, spec };
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    metadata: {
      name: contentNameOf(snapshot),
      ...(namespace && { namespace }),
      finalizers: [finalizers.vmSnapshotContent],
    },
    spec: {
      virtualMachineSnapshotName: name,
      source: { virtualMachine },
      volumeBackups: volumes.flatMap((volume) => backupOf(volume, uid)),
    },
  };
}

function backupOf({ name, claim, support }: VolumeFacts, snapshotUid: string): VolumeBackup[] {
  if (!claim || support.kind !== 'snapshot') return [];
  const { managedFields: _, ...metadata } = claim.metadata;
  return [
    {
      volumeName: name,
      persistentVolumeClaim: { metadata, spec: claim.spec },
      volumeSnapshotName: `vmsnapshot-${snapshotUid}-volume-${name}`,
    },
  ];
}

/**
 * What the guest of a VM was started from, with the disks that it has now: those are what is in the snapshot (upstream: Spec in
 * pkg/storage/snapshot/source.go).
 */
export function startedSpec(vm: VirtualMachine, started: VirtualMachine['spec']): VirtualMachine['spec'] {
  const { template, dataVolumeTemplates } = vm.spec;
  const { dataVolumeTemplates: _older, ...rest } = structuredClone(started);
  const { devices = {} } = template.spec.domain ?? {};
  const { spec } = rest.template;
  return {
    ...rest,
    template: {
      ...rest.template,
      spec: {
        ...spec,
        ...(template.spec.volumes && { volumes: template.spec.volumes }),
        domain: {
          ...spec.domain,
          devices: { ...spec.domain?.devices, ...(devices.disks && { disks: devices.disks }) },
        },
      },
    },
    ...(dataVolumeTemplates !== undefined && { dataVolumeTemplates }),
  };
}

/**
 * The spec naming copies of the revisions of its instance type and preference, which live as long as the snapshot: what those say now, the
 * restored VM has, too. Makes the copies. Rejects with KubeError.
 */
export async function withKeptRevisions(
  snapshot: VirtualMachineSnapshot,
  vm: VirtualMachine,
  spec: VirtualMachine['spec'],
  client: Pick<KubeClient, 'get' | 'create'>,
  signal: AbortSignal,
): Promise<VirtualMachine['spec']> {
  const kept: Partial<Record<MatcherField, object>> = {};
  for (const field of matcherFields) {
    const matcher = spec[field];
    const name = isRecord(matcher) ? (matcher.revisionName ?? storedRevisionName(vm, field)) : undefined;
    if (!isRecord(matcher) || typeof name !== 'string' || name === '') continue;
    kept[field] = { ...matcher, revisionName: await keepRevision(snapshot, vm, name, client, signal) };
  }
  return { ...spec, ...kept };
}

async function keepRevision(
  snapshot: VirtualMachineSnapshot,
  vm: VirtualMachine,
  name: string,
  client: Pick<KubeClient, 'get' | 'create'>,
  signal: AbortSignal,
): Promise<string> {
  const { namespace } = snapshot.metadata;
  const type = resources.controllerRevisions;
  const source = await client.get<KubeObject>(type, { name, ...(namespace && { namespace }) }, { signal });
  const names = revisionNames(name, [vm.metadata.name, snapshot.metadata.name], snapshot.metadata.uid);
  return copyRevision(source, names, controllerReference(resources.virtualMachineSnapshots, snapshot), client, signal);
}
