import {
  type DataVolume,
  findCondition,
  isBeingDeleted,
  type Key,
  type PersistentVolumeClaim,
  resources,
  type VirtualMachine,
} from '../../api/index.ts';
import { listOf, memberAt } from '../../base/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';
import { type DataVolumes, detailOf, stateOf } from '../data-volumes/index.ts';

/** A template of a DataVolume, and what is there of it. */
export interface TemplateFact {
  readonly name: string;
  /**
   * `ready`: filled, or it waits for the pod of a guest; `filling`: it has begun, or is on its way out; `unowned`: there is one that nothing
   * controls; `refused`: there can be none, or the one that is there is not for this VM; `unread`: not known yet.
   */
  readonly state: 'ready' | 'filling' | 'failed' | 'missing' | 'unowned' | 'refused' | 'unread';
  /** In words for the user. */
  readonly detail: string;
  /** Where there is one. */
  readonly object?: DataVolume;
}

/** How far the disks of the guest are, of which the cluster has DataVolumes. */
export type DisksState = 'failed' | 'filling' | 'ready';

export interface DataVolumeDeps {
  readonly client: Pick<KubeClient, 'get'>;
  readonly dataVolumes: Pick<DataVolumes, 'lookUp' | 'peek'>;
  readonly claims: { get(key: Key): PersistentVolumeClaim | undefined };
}

/** Index of the VM informer: keys of the DataVolumes that a VM has templates of, or volumes on. */
export const vmsByDataVolume = 'dataVolume';
export const vmIndexes = {
  [vmsByDataVolume]: (vm: VirtualMachine) => {
    const names = new Set([...templatesOf(vm).map(nameOf), ...volumeNames(vm)]);
    return [...names].filter((name) => name !== '').map((name) => keyIn(vm, name));
  },
};

export function templatesOf({ spec }: VirtualMachine): readonly unknown[] {
  return listOf(spec?.dataVolumeTemplates);
}

/** Empty: it has none. */
export function nameOf(template: unknown): string {
  const name = memberAt(template, 'metadata', 'name');
  return typeof name === 'string' ? name : '';
}

/** Rejects with KubeError where the API does not answer. */
export async function templateFacts(
  vm: VirtualMachine,
  deps: DataVolumeDeps,
  signal: AbortSignal,
): Promise<readonly TemplateFact[]> {
  const facts: TemplateFact[] = [];
  for (const [index, template] of templatesOf(vm).entries()) {
    const name = nameOf(template);
    const problem = templateProblem(template, vm);
    const where = `spec.dataVolumeTemplates[${index}]`;
    facts.push(
      problem ? { name, state: 'refused', detail: `${where}${problem}` } : await factOf(name, vm, deps, signal),
    );
  }
  return facts;
}

/** Undefined: it can be made. One in another namespace would be made with the rights of this controller. */
function templateProblem(template: unknown, { metadata }: VirtualMachine): string | undefined {
  if (nameOf(template) === '') return '.metadata.name is missing';
  const namespace = memberAt(template, 'metadata', 'namespace');
  if (namespace === undefined || namespace === null || namespace === '' || namespace === metadata.namespace) {
    return undefined;
  }
  return '.metadata.namespace: a VM’s DataVolumes are in its own namespace; remove it';
}

async function factOf(
  name: string,
  vm: VirtualMachine,
  { client, dataVolumes, claims }: DataVolumeDeps,
  signal: AbortSignal,
): Promise<TemplateFact> {
  const known = dataVolumes.lookUp(keyIn(vm, name));
  switch (known.kind) {
    case 'found':
      return factOfObject(name, vm, known.object);
    case 'absent':
      // An importer that removes a DataVolume which is done gives its claim to the VM.
      return isOwnedBy(vm, claims.get(keyIn(vm, name)))
        ? { name, state: 'ready', detail: `claim ${name} is filled` }
        : { name, state: 'missing', detail: `DataVolume ${name} is not there yet` };
    case 'unread': {
      const isMissing = known.error !== undefined && (await lacksKind(name, vm, client, signal));
      if (!isMissing) {
        const why = known.error === undefined ? 'not read yet' : `cannot be read: ${known.error}`;
        return { name, state: 'unread', detail: `DataVolume ${name} is ${why}` };
      }
      const { resource, group } = resources.dataVolumes;
      const advice = 'install the containerized data importer, or make PersistentVolumeClaims and remove the templates';
      return { name, state: 'refused', detail: `this cluster has no ${resource}.${group}: ${advice}` };
    }
  }
}

/** A server that does not know the kind answers without saying which object is missing. */
async function lacksKind(
  name: string,
  { metadata: { namespace } }: VirtualMachine,
  client: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await client.get(resources.dataVolumes, { name, namespace }, { signal });
    return false;
  } catch (error) {
    if (!isKubeError(error, 'NOT_FOUND', 'FORBIDDEN')) throw error;
    return error.code === 'NOT_FOUND' && memberAt(error.status, 'details', 'name') !== name;
  }
}

function factOfObject(name: string, vm: VirtualMachine, object: DataVolume): TemplateFact {
  const detail = detailOf(object);
  if (isBeingDeleted(object)) return { name, state: 'filling', detail: `${detail}, which is being deleted`, object };
  const owner = object.metadata.ownerReferences?.find(({ controller }) => controller);
  if (!owner) return { name, state: 'unowned', detail, object };
  if (owner.kind === resources.virtualMachines.kind && owner.uid !== vm.metadata.uid) {
    const advice = 'two machines cannot have one disk; give the template another name';
    return { name, state: 'refused', detail: `DataVolume ${name} belongs to VirtualMachine ${owner.name}: ${advice}` };
  }
  const bound = findCondition(object.status?.conditions, 'Bound');
  if (object.status?.phase === 'Pending' && bound?.status !== 'True' && bound?.reason === 'ErrExceededQuota') {
    return { name, state: 'failed', detail: `DataVolume ${name} exceeds a quota: ${bound.message ?? ''}`, object };
  }
  return { name, state: states[stateOf(object)] ?? 'filling', detail, object };
}

/** One that waits for a consumer gets it when the guest starts. */
const states: Readonly<Record<string, TemplateFact['state']>> = {
  filled: 'ready',
  'awaits-consumer': 'ready',
  failed: 'failed',
};

/** Of all DataVolumes that are known and that the guest's volumes are on. */
export function disksState(vm: VirtualMachine, dataVolumes: Pick<DataVolumes, 'peek'>): DisksState {
  const known = volumeNames(vm).flatMap((name) => dataVolumes.peek(keyIn(vm, name)) ?? []);
  if (known.some(hasFailed)) return 'failed';
  return known.some(isBeingFilled) ? 'filling' : 'ready';
}

function hasFailed({ status }: DataVolume): boolean {
  const running = findCondition(status?.conditions, 'Running');
  const isBroken = running?.status === 'False' && ['Error', 'ImagePullFailed'].includes(running.reason ?? '');
  return status?.phase === 'Failed' || isBroken;
}

function isBeingFilled(object: DataVolume): boolean {
  const state = stateOf(object);
  if (state === 'filled') return false;
  return state !== 'awaits-consumer' || findCondition(object.status?.conditions, 'Bound')?.status === 'True';
}

function volumeNames(vm: VirtualMachine): string[] {
  return listOf(memberAt(vm, 'spec', 'template', 'spec', 'volumes')).flatMap((volume) => {
    const name = memberAt(volume, 'dataVolume', 'name');
    return typeof name === 'string' ? [name] : [];
  });
}

function isOwnedBy({ metadata: { uid } }: VirtualMachine, claim: PersistentVolumeClaim | undefined): boolean {
  return claim?.metadata.ownerReferences?.some((owner) => owner.uid === uid) === true;
}

function keyIn({ metadata }: VirtualMachine, name: string): Key {
  return `${metadata.namespace ?? ''}/${name}`;
}
