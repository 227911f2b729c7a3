import { type KubeObject, type ResourceType, resources, type VirtualMachine } from '../../api/index.ts';
import { isRecord, memberAt, textAt } from '../../base/index.ts';
import { InstancetypeError, type MatcherField, matcherFields, matcherOf } from '../../instancetype/index.ts';
import { isKubeError, type KubeClient } from '../../kube/index.ts';

const { dataSources } = resources;
const snapshots: ResourceType = {
  ...{ group: 'snapshot.storage.k8s.io', version: 'v1', resource: 'volumesnapshots' },
  ...{ kind: 'VolumeSnapshot', namespaced: true },
};

/** What a volume says; `nothing` may be passed over, where the VM says so. */
type Inferred =
  | { readonly kind: 'found'; readonly name: string; readonly ofKind?: string }
  | { readonly kind: 'nothing'; readonly why: string };

type Context = {
  readonly vm: VirtualMachine;
  readonly field: MatcherField;
  readonly client: Pick<KubeClient, 'get'>;
  readonly signal: AbortSignal;
};

/**
 * Writes into the VM what its volumes say of instance type and preference, by labels (upstream's webhook does: pkg/instancetype/infer). Gives
 * the VM as it is then. Rejects with KubeError or InstancetypeError.
 */
export async function inferReferences(
  vm: VirtualMachine,
  client: Pick<KubeClient, 'get' | 'update'>,
  signal: AbortSignal,
): Promise<VirtualMachine> {
  const wanted = structuredClone(vm);
  for (const field of matcherFields) {
    const matcher = matcherOf(vm, field);
    if (!matcher?.inferFromVolume) continue;
    if (matcher.name || matcher.kind) {
      const which = matcher.name ? 'name' : 'kind';
      const text = `spec.${field}.${which}: clear it, or inferFromVolume: one of both says which ${field} it is`;
      throw new InstancetypeError('MALFORMED', text);
    }
    const inferred = await ofVolume(matcher.inferFromVolume, { vm, field, client, signal });
    const isLenient = isIgnored(matcher.inferFromVolumeFailurePolicy, field);
    if (inferred.kind === 'nothing') {
      if (!isLenient) throw new InstancetypeError('MALFORMED', `spec.${field}.inferFromVolume: ${inferred.why}`);
      delete wanted.spec[field];
      continue;
    }
    // What the VM would say of its memory, had nothing been found.
    if (field === 'instancetype' && isLenient) delete wanted.spec.template?.spec?.domain?.memory;
    wanted.spec[field] = { name: inferred.name, ...(inferred.ofKind && { kind: inferred.ofKind }) };
  }
  return client.update(resources.virtualMachines, wanted, { signal });
}

function isIgnored(policy: string | undefined, field: MatcherField): boolean {
  if (policy === undefined || policy === 'Reject') return false;
  if (policy === 'Ignore') return true;
  const text = `spec.${field}.inferFromVolumeFailurePolicy: ${policy} is none: use Reject or Ignore`;
  throw new InstancetypeError('MALFORMED', text);
}

async function ofVolume(name: string, context: Context): Promise<Inferred> {
  const { vm } = context;
  const volumes: unknown = vm.spec.template?.spec?.volumes;
  const volume = Array.isArray(volumes) ? volumes.find((each) => memberAt(each, 'name') === name) : undefined;
  if (!volume) {
    const text = `unable to find volume ${name} to infer defaults`;
    throw new InstancetypeError('MALFORMED', `spec.${context.field}.inferFromVolume: ${text}`);
  }
  const namespace = vm.metadata.namespace ?? '';
  const claim = textAt(volume, 'persistentVolumeClaim', 'claimName');
  if (claim) return ofLabels(resources.persistentVolumeClaims, namespace, claim, context);
  const dataVolume = textAt(volume, 'dataVolume', 'name');
  if (dataVolume) return ofDataVolume(dataVolume, context);
  return { kind: 'nothing', why: `unable to infer defaults from volume ${name} as type is not supported` };
}

/** A template that the VM has for it; else the object, or, where it was collected as garbage, its claim. */
async function ofDataVolume(name: string, context: Context): Promise<Inferred> {
  const { vm, client, signal } = context;
  const namespace = vm.metadata.namespace ?? '';
  const { dataVolumeTemplates: templates } = vm.spec;
  const isNamed = (each: unknown) => memberAt(each, 'metadata', 'name') === name;
  const template: unknown = Array.isArray(templates) ? templates.find(isNamed) : undefined;
  if (template) return ofSource(memberAt(template, 'spec'), context);
  const object = await readIfThere(resources.dataVolumes, { namespace, name }, client, signal);
  if (!object) return ofLabels(resources.persistentVolumeClaims, namespace, name, context);
  const labelled = labelsOf(object, context.field);
  return labelled.kind === 'found' ? labelled : ofSource(memberAt(object, 'spec'), context);
}

/** What a DataVolume is filled from, or what a DataSource stands for. */
async function ofSource(spec: unknown, context: Context): Promise<Inferred> {
  const namespace = context.vm.metadata.namespace ?? '';
  for (const [member, type] of [
    ['pvc', resources.persistentVolumeClaims],
    ['snapshot', snapshots],
  ] as const) {
    const name = textAt(spec, 'source', member, 'name');
    if (name) return ofLabels(type, textAt(spec, 'source', member, 'namespace') ?? namespace, name, context);
  }
  const ref = memberAt(spec, 'sourceRef');
  if (!isRecord(ref)) return { kind: 'nothing', why: 'unable to infer defaults from the source of the DataVolume' };
  if (ref.kind !== dataSources.kind) {
    return { kind: 'nothing', why: `unable to infer defaults from a source of kind ${String(ref.kind)}` };
  }
  const target = { name: textAt(ref, 'name') ?? '', namespace: textAt(ref, 'namespace') ?? namespace };
  const source = await context.client.get<KubeObject>(dataSources, target, { signal: context.signal });
  const labelled = labelsOf(source, context.field);
  const isEnd = labelled.kind === 'found' || memberAt(source, 'spec', 'sourceRef') !== undefined;
  return isEnd ? labelled : ofSource(memberAt(source, 'spec'), context);
}

async function ofLabels(type: ResourceType, namespace: string, name: string, context: Context): Promise<Inferred> {
  const { client, field, signal } = context;
  return labelsOf(await client.get<KubeObject>(type, { namespace, name }, { signal }), field);
}

function labelsOf({ kind, metadata: { name, labels } }: KubeObject, field: MatcherField): Inferred {
  const label = `instancetype.kubevirt.io/default-${field}`;
  const found = labels?.[label];
  if (!found) return { kind: 'nothing', why: `unable to find required ${label} label on ${kind} ${name}` };
  const ofKind = labels?.[`${label}-kind`];
  return { kind: 'found', name: found, ...(ofKind && { ofKind }) };
}

async function readIfThere(
  type: ResourceType,
  ref: { readonly namespace: string; readonly name: string },
  client: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<KubeObject | undefined> {
  try {
    return await client.get<KubeObject>(type, ref, { signal });
  } catch (error) {
    if (isKubeError(error, 'NOT_FOUND')) return undefined;
    throw error;
  }
}
