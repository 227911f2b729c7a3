import { keyOf, type Pod, type VirtualMachine } from '../../api/index.ts';
import { listOf, memberAt } from '../../base/index.ts';
import { volumesOf } from '../snapshot-source/index.ts';
import type { VolumeFacts } from './observation.ts';

export interface Users {
  readonly vms: readonly VirtualMachine[];
  readonly pods: readonly Pod[];
}

type Named = Pick<VolumeFacts, 'restore' | 'backup'>;

/**
 * Why the claim of a volume's new name may not be deleted to make room, although it is to be restored in its place: it is not the claim that the
 * snapshot was taken of, or somebody besides the target has it. Undefined: it may. Pure.
 */
export function othersOf(
  { restore, backup }: Named,
  target: { readonly namespace: string | undefined; readonly name: string },
  users: () => Users,
): string | undefined {
  const claim = restore.persistentVolumeClaim;
  if (backup.persistentVolumeClaim.metadata?.name !== claim) return 'is not the claim that the snapshot was taken of';
  const { vms, pods } = users();
  const isHere = ({ metadata }: Pick<VirtualMachine, 'metadata'>) => metadata.namespace === target.namespace;
  const vm = vms.find(
    (each) => isHere(each) && keyOf(each) !== `${target.namespace}/${target.name}` && hasVolumeOn(each, claim),
  );
  if (vm) return `is a disk of VM ${vm.metadata.name}`;
  const pod = pods.find((each) => isHere(each) && isUsing(each, claim));
  return pod && `is in use by pod ${pod.metadata.name}`;
}

/** A volume on a DataVolume is on the claim of its name. An ephemeral volume is no volume that is kept, and is nothing without its claim. */
export function hasVolumeOn({ spec }: VirtualMachine, claim: string): boolean {
  const ephemeral = listOf(spec.template?.spec?.volumes).map((volume) =>
    memberAt(volume, 'ephemeral', 'persistentVolumeClaim', 'claimName'),
  );
  return ephemeral.includes(claim) || volumesOf(spec).some(({ claimName }) => claimName === claim);
}

function isUsing({ spec, status }: Pod, claim: string): boolean {
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return false;
  return (spec.volumes ?? []).some(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === claim);
}
