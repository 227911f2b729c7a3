import { type KubeObject, type ResourceType, resources, type VirtualMachine } from '../../api/index.ts';
import { CodedError, isRecord, listOf, memberAt, textAt } from '../../base/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';

/** `UNAUTHORIZED`: who runs the VM may not clone from there. `UNUSABLE`: nothing can be cloned from what the template names. */
export type CloneErrorCode = 'UNAUTHORIZED' | 'UNUSABLE';
export class CloneError extends CodedError<CloneErrorCode> {}

type Fields = Readonly<Record<string, unknown>>;

interface Review extends KubeObject {
  spec: object;
  status?: { allowed?: boolean };
}

/** What is cloned: `type` in `namespace`. */
interface CloneSource {
  readonly member: 'pvc' | 'snapshot';
  readonly namespace: string;
  readonly name: string;
}

/**
 * The spec with a source of its own: what a DataSource stands for now is written down, so that what is checked is what is cloned. Rejects with
 * CloneError, and with KubeError where the API does not answer.
 */
export async function withSource(
  spec: Fields,
  namespace: string,
  client: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<Fields> {
  const ref = spec.sourceRef;
  if (!isRecord(ref)) return withNamespace(spec, namespace);
  const { kind, name } = ref;
  if (kind !== resources.dataSources.kind || typeof name !== 'string' || name === '') {
    throw new CloneError('UNUSABLE', `sourceRef: ${String(kind)} ${String(name)} is none; name a DataSource`);
  }
  const target = { name, namespace: textAt(ref, 'namespace') ?? namespace };
  const dataSource = await dataSourceOf(target, client, signal);
  // One that points to another has what that one stands for in its status.
  const isPointer = memberAt(dataSource, 'spec', 'source', 'dataSource') !== undefined;
  const found = memberAt(dataSource, isPointer ? 'status' : 'spec', 'source');
  const source = sourceOf({ source: found }, target.namespace);
  if (!source) {
    const text = `DataSource ${target.namespace}/${name} has neither a claim nor a snapshot yet`;
    throw new CloneError('UNUSABLE', text);
  }
  const { sourceRef: _resolved, ...rest } = spec;
  return { ...rest, source: { [source.member]: { name: source.name, namespace: source.namespace } } };
}

async function dataSourceOf(
  target: { readonly name: string; readonly namespace: string },
  client: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<KubeObject> {
  try {
    return await client.get(resources.dataSources, target, { signal });
  } catch (error) {
    if (!isKubeError(error, 'NOT_FOUND')) throw error;
    throw new CloneError('UNUSABLE', `there is no DataSource ${target.namespace}/${target.name}`, { cause: error });
  }
}

function withNamespace(spec: Fields, namespace: string): Fields {
  const source = sourceOf(spec, namespace);
  const given = spec.source;
  if (!source || !isRecord(given)) return spec;
  const member = given[source.member];
  return {
    ...spec,
    source: { ...given, [source.member]: { ...(isRecord(member) && member), namespace: source.namespace } },
  };
}

/** Undefined: nothing of the cluster is cloned. */
export function sourceOf(spec: unknown, namespace: string): CloneSource | undefined {
  for (const member of ['pvc', 'snapshot'] as const) {
    const given = memberAt(spec, 'source', member);
    if (!isRecord(given)) continue;
    return { member, name: textAt(given, 'name') ?? '', namespace: textAt(given, 'namespace') ?? namespace };
  }
  return undefined;
}

const cloneRight = { group: resources.dataVolumes.group, resource: 'datavolumes', subresource: 'source' };
const podRight = { group: '', resource: 'pods' };

/**
 * Any one of the lists suffices, with all that is in it (the importer's rules: authorize_utils.go of its API module; the last resource is
 * spelled as there). */
const rights: Readonly<Record<CloneSource['member'], readonly (readonly object[])[]>> = {
  pvc: [[cloneRight], [podRight]],
  snapshot: [[cloneRight], [podRight, { group: '', resource: 'pvcs' }]],
};

/**
 * Whoever runs the VM must be allowed to read what is cloned: else a VM would be a way to the disks of other namespaces. Nobody is
 * asked for a source of the VM's own namespace. Rejects with CloneError.
 */
export async function authorizeClone(
  source: CloneSource,
  vm: VirtualMachine,
  client: Pick<KubeClient, 'create'>,
  signal: AbortSignal,
): Promise<void> {
  const { namespace = '' } = vm.metadata;
  if (source.namespace === namespace) return;
  const user = `system:serviceaccount:${namespace}:${serviceAccountOf(vm)}`;
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'];
  for (const all of rights[source.member]) {
    let isAllowed = true;
    for (const right of all) {
      const resourceAttributes = { ...right, verb: 'create', namespace: source.namespace, name: source.name };
      const review = await client.create<Review>(reviews, reviewOf({ user, groups, resourceAttributes }), { signal });
      isAllowed &&= review.status?.allowed === true;
    }
    if (isAllowed) return;
  }
  const advice = `give it "create" of ${cloneRight.resource}/${cloneRight.subresource} (${cloneRight.group}) there`;
  const text = `User ${user} has insufficient permissions in clone source namespace ${source.namespace}: ${advice}`;
  throw new CloneError('UNAUTHORIZED', text);
}

const reviews: ResourceType = resources.subjectAccessReviews;

function reviewOf(spec: object): Review {
  return { apiVersion: 'authorization.k8s.io/v1', kind: reviews.kind, metadata: { name: '' }, spec };
}

function serviceAccountOf({ spec: { template } }: VirtualMachine): string {
  const ofVolumes = listOf(template.spec.volumes).map((volume) =>
    textAt(volume, 'serviceAccount', 'serviceAccountName'),
  );
  return textAt(template.spec, 'serviceAccountName') ?? ofVolumes.find((name) => name !== undefined) ?? 'default';
}
