import {
  keepsState,
  type PersistentVolumeClaim,
  resources,
  type StorageClass,
  tracksChanges,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { getIfThere, type KubeClient } from '../../kube/index.ts';
import { stateClaimOf } from './find.ts';

/** What a VMI keeps, and how its claim is; plain data. */
export type KeptState =
  /** Nothing. */
  | { readonly kind: 'none' }
  /** There is no claim for it yet. */
  | { readonly kind: 'missing' }
  /** A pod can have the claim: it is bound, or will be when a pod asks for it. */
  | { readonly kind: 'ready'; readonly claim: PersistentVolumeClaim }
  | { readonly kind: 'waits' | 'unusable'; readonly claim: PersistentVolumeClaim; readonly why: string };

interface Deps {
  readonly client: Pick<KubeClient, 'get'>;
  /** Of the VM, or more. */
  readonly claims: Iterable<PersistentVolumeClaim>;
  readonly signal: AbortSignal;
}

/** Rejects with KubeError where the API server does not answer. */
export async function observeKeptState(
  vmi: VirtualMachineInstance,
  { client, claims, signal }: Deps,
): Promise<KeptState> {
  if (!keepsState(vmi.spec.domain) && !tracksChanges(vmi)) return { kind: 'none' };
  const claim = stateClaimOf(vmi, claims);
  if (!claim) return { kind: 'missing' };
  const { name } = claim.metadata;
  const { volumeMode = 'Filesystem', storageClassName = '' } = claim.spec;
  const unusable = (why: string): KeptState => ({ kind: 'unusable', claim, why: `claim ${name}, ${why}` });
  if (volumeMode !== 'Filesystem') return unusable('which keeps the state of the VM, is a block device: delete it');
  const phase = claim.status?.phase ?? 'Pending';
  if (phase === 'Bound') return { kind: 'ready', claim };
  if (phase === 'Lost') return unusable('which keeps the state of the VM, has lost its volume: restore or delete it');
  const found = storageClassName
    ? await getIfThere<StorageClass>(client, resources.storageClasses, { name: storageClassName }, { signal })
    : undefined;
  if (found?.volumeBindingMode === 'WaitForFirstConsumer') return { kind: 'ready', claim };
  const missing = storageClassName !== '' && !found ? `: there is no storage class ${storageClassName}` : '';
  return { kind: 'waits', claim, why: `PVC pending: ${name} is to keep the state of the VM${missing}` };
}
