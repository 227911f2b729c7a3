import { createHash } from 'node:crypto';
import {
  type KubeObject,
  keptState,
  type OwnerReference,
  type PersistentVolumeClaim,
  resources,
  type StorageClass,
  type VirtualMachineInstance,
} from '../../api/index.ts';
import { CodedError, isRecord, listOf, memberAt } from '../../base/index.ts';
import { getIfThere, isKubeError, type KubeClient } from '../../kube/index.ts';
import { controllerReference } from '../owned/index.ts';

/** Whose claim it is: the VM's, or that of a guest on its way, until it has arrived. */
export type StateClaimPurpose =
  | { readonly kind: 'vm' }
  | { readonly kind: 'migration'; readonly migration: KubeObject };

export interface CreateDeps {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list'>;
  /** `vmStateStorageClass` of the KubeVirt object; empty: the cluster's default. */
  readonly storageClass: string;
  readonly signal: AbortSignal;
}

/** Upstream's; storage that makes no claims as small says its least size by the label for CDI. */
const size = '10Mi';
const profileLabel = 'cdi.kubevirt.io/applyStorageProfile';
const longestLabel = 63;
const defaultMarks = ['storageclass.kubevirt.io/is-default-virt-class', 'storageclass.kubernetes.io/is-default-class'];

export class StateClaimError extends CodedError<'NO_CLASS' | 'NAME_TAKEN' | 'NAME_TOO_LONG'> {}

/**
 * Makes the claim (upstream: createPVC in pkg/storage/backend-storage), or finds the one that an earlier try has made: its name follows from whose it
 * is. Rejects with StateClaimError, or KubeError.
 */
export async function createStateClaim(
  vmi: VirtualMachineInstance,
  purpose: StateClaimPurpose,
  deps: CreateDeps,
): Promise<{ readonly claim: PersistentVolumeClaim; readonly isNew: boolean }> {
  const { client, signal } = deps;
  const storageClass = deps.storageClass || (await defaultClass(deps));
  const accessMode = await accessModeOf(storageClass, deps);
  const claim = makeStateClaim(vmi, purpose, storageClass, accessMode);
  try {
    return { claim: await client.create(resources.persistentVolumeClaims, claim, { signal }), isNew: true };
  } catch (error) {
    if (!isKubeError(error, 'ALREADY_EXISTS')) throw error;
    return { claim: await adopted(claim, deps), isNew: false };
  }
}

/** Pure. Throws StateClaimError. */
export function makeStateClaim(
  vmi: VirtualMachineInstance,
  purpose: StateClaimPurpose,
  storageClass: string,
  accessMode: string,
): PersistentVolumeClaim {
  const { name, namespace } = vmi.metadata;
  const owner = ownerOf(vmi);
  const [key, value, uid] =
    purpose.kind === 'vm'
      ? [keptState.label, name, owner.uid]
      : [keptState.migrationLabel, purpose.migration.metadata.name, purpose.migration.metadata.uid ?? ''];
  if (value.length > longestLabel) {
    const text = `${purpose.kind === 'vm' ? 'the VM' : 'the migration'} whose state is to be kept needs a name of at most ${longestLabel} characters`;
    throw new StateClaimError('NAME_TOO_LONG', text);
  }
  return {
    apiVersion: 'v1',
    kind: resources.persistentVolumeClaims.kind,
    metadata: {
      name: `${keptState.label}-${name}-${createHash('sha256').update(uid).digest('hex').slice(0, 8)}`,
      ...(namespace && { namespace }),
      labels: { [key]: value, [profileLabel]: 'true' },
      ownerReferences: [owner],
    },
    spec: {
      accessModes: [accessMode],
      resources: { requests: { storage: size } },
      storageClassName: storageClass,
      volumeMode: 'Filesystem',
    },
  };
}

/** It goes with the VM. A VMI that no VM has made keeps nothing for another one. */
function ownerOf(vmi: VirtualMachineInstance): OwnerReference {
  const vm = vmi.metadata.ownerReferences?.find(
    ({ controller, kind }) => controller && kind === resources.virtualMachines.kind,
  );
  return vm ?? controllerReference(resources.virtualMachineInstances, vmi);
}

async function defaultClass({ client, signal }: CreateDeps): Promise<string> {
  const { items } = await client.list<StorageClass>(resources.storageClasses, { signal });
  for (const mark of defaultMarks) {
    const marked = items.filter(({ metadata }) => metadata.annotations?.[mark] === 'true');
    const made = ({ metadata }: StorageClass) => metadata.creationTimestamp ?? '';
    const [newest] = marked.sort((a, b) => made(b).localeCompare(made(a)));
    if (newest) return newest.metadata.name;
  }
  const advice =
    'mark one as the default, or name one in spec.configuration.vmStateStorageClass of the KubeVirt object';
  throw new StateClaimError('NO_CLASS', `no default storage class found: ${advice}`);
}

/** What CDI's profile of the class can do for file systems; else a class that was chosen for this is taken for a shared one. */
async function accessModeOf(name: string, { client, storageClass, signal }: CreateDeps): Promise<string> {
  const profile = await getIfThere<KubeObject>(client, resources.storageProfiles, { name }, { signal });
  const modes = listOf(memberAt(profile, 'status', 'claimPropertySets')).flatMap((set) =>
    isRecord(set) && set.volumeMode === 'Filesystem' ? listOf(set.accessModes) : [],
  );
  const found = ['ReadWriteMany', 'ReadWriteOnce'].find((mode) => modes.includes(mode));
  return found ?? (storageClass === '' ? 'ReadWriteOnce' : 'ReadWriteMany');
}

async function adopted(wanted: PersistentVolumeClaim, { client, signal }: CreateDeps): Promise<PersistentVolumeClaim> {
  const { metadata } = wanted;
  const type = resources.persistentVolumeClaims;
  const found = await getIfThere<PersistentVolumeClaim>(client, type, metadata, { signal });
  const [owner] = metadata.ownerReferences ?? [];
  const isOwn = found?.metadata.ownerReferences?.some(({ uid }) => uid === owner?.uid) === true;
  if (found && isOwn && !found.metadata.deletionTimestamp) return found;
  const why = isOwn ? 'is being deleted: a new one is made when it is gone' : 'is of somebody else: delete it';
  throw new StateClaimError('NAME_TAKEN', `claim ${metadata.name}, which is to keep the state of the VM, ${why}`);
}
