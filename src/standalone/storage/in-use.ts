import { type KubeObject, keyOf, type PersistentVolumeClaim, type Pod, resources } from '../../api/index.ts';
import { NodeError } from '../errors.ts';
import { claimsOf } from './caches.ts';
import type { StorageDeps } from './loop.ts';

/** What containerized-data-importer writes on a claim that something fills. */
const filled = { annotation: 'cdi.kubevirt.io/storage.pod.phase', value: 'Succeeded' };
const uploadTarget = 'cdi.kubevirt.io/storage.upload.target';

function isUnfilled({ metadata }: PersistentVolumeClaim): boolean {
  const { annotations = {}, ownerReferences = [] } = metadata;
  const isToBeFilled =
    annotations[uploadTarget] !== undefined ||
    ownerReferences.some(({ kind, controller }) => controller && kind === 'DataVolume');
  return isToBeFilled && annotations[filled.annotation] !== filled.value;
}

/** What copies the disk: a VirtualMachineSnapshot locks its VM, which cannot be stopped any more then. */
export type Copier = 'claim' | 'snapshot' | 'snapshot of a VM';

/** Of a VolumeSnapshot. */
export function copierOf({ metadata }: KubeObject): Copier {
  const owner = metadata.ownerReferences?.find(({ controller }) => controller);
  return owner?.kind === resources.virtualMachineSnapshotContents.kind ? 'snapshot of a VM' : 'snapshot';
}

const endings: Readonly<Record<Copier, string>> = {
  claim: 'stop the VM',
  snapshot: 'stop the VM',
  'snapshot of a VM':
    'restart the VM or shut its guest down from within (it cannot be stopped while its snapshot waits), or delete the snapshot and stop the VM first',
};

/**
 * Why the disk of a claim cannot be copied now. While a pod has it a copy block by block would have parts of different moments; where the
 * file system shares blocks (FICLONE) the copy is of one moment, as after a power failure.
 */
export async function heldProblem(
  claim: PersistentVolumeClaim,
  copier: Copier,
  { caches, files }: Pick<StorageDeps, 'caches' | 'files'>,
): Promise<{ readonly why: string; readonly isInUse: boolean } | undefined> {
  if (isUnfilled(claim)) return { why: `claim ${claim.metadata.name} is not filled yet`, isInUse: false };
  const users = caches.usersOf(keyOf(claim));
  if (users.length === 0 || (await files.canShare())) return undefined;
  return { why: heldWords(claim, copier, users), isInUse: true };
}

function heldWords({ metadata: { name } }: PersistentVolumeClaim, copier: Copier, users: readonly string[]): string {
  const advice = `${endings[copier]}; on XFS or Btrfs the state directory's disks are copied at one moment`;
  return `claim ${name} is in use by pod ${users.join(', ')}, and this file system cannot copy a disk that is written to: ${advice}`;
}

/** Rejects with NodeError CLAIM_NOT_READY when a pod has the claim: the API server is asked, for a cache may be behind. */
export async function requireUnused(
  claim: PersistentVolumeClaim,
  copier: Copier,
  { client }: Pick<StorageDeps, 'client'>,
  signal: AbortSignal,
): Promise<void> {
  const { items } = await client.list<Pod>(resources.pods, { namespace: claim.metadata.namespace, signal });
  const users = items.filter((pod) => claimsOf(pod).includes(keyOf(claim))).map(({ metadata }) => metadata.name);
  if (users.length > 0) throw new NodeError('CLAIM_NOT_READY', heldWords(claim, copier, users));
}
