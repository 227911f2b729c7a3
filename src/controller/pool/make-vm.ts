import {
  apiVersionOf,
  finalizers,
  labels,
  resources,
  type VirtualMachine,
  type VirtualMachinePool,
} from '../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../base/index.ts';
import { controllerReference } from '../owned/index.ts';

type PoolSpec = VirtualMachinePool['spec'];
type VmSpec = VirtualMachine['spec'];

/** Where the template is kept that a VM was made from (upstream: getRevisionName in pkg/virt-controller/watch/pool/pool.go). */
export function revisionName({ metadata }: VirtualMachinePool): string {
  return `${metadata.name}-${metadata.generation ?? 1}`;
}

/** The number at the end of a name; undefined: it has none. */
export function indexOf(name: string): number | undefined {
  const end = name.slice(name.lastIndexOf('-') + 1);
  return name.includes('-') && /^\d{1,10}$/.test(end) ? Number(end) : undefined;
}

/** The lowest names of the pool that no VM has. */
export function freeNames(
  { metadata }: VirtualMachinePool,
  count: number,
  isTaken: (name: string) => boolean,
): string[] {
  const names: string[] = [];
  for (let index = 0; names.length < count; index++) {
    const name = `${metadata.name}-${index}`;
    if (!isTaken(name)) names.push(name);
  }
  return names;
}

export function makeVm(name: string, pool: VirtualMachinePool): VirtualMachine {
  const { metadata = {} } = pool.spec.virtualMachineTemplate;
  const { namespace } = pool.metadata;
  const revision = revisionName(pool);
  return {
    apiVersion: apiVersionOf(resources.virtualMachines),
    kind: resources.virtualMachines.kind,
    metadata: {
      name,
      ...(namespace && { namespace }),
      labels: { ...metadata.labels, [labels.poolRevision]: revision },
      ...(metadata.annotations && { annotations: { ...metadata.annotations } }),
      finalizers: [finalizers.pool],
      ownerReferences: [controllerReference(resources.pools, pool)],
    },
    spec: withRevision(indexedSpec(pool.spec, indexOf(name) ?? 0), revision),
  };
}

/**
 * The VM as the pool's template wants it now. What others added to its metadata stays; what an earlier template (`before`) had put there and the
 * present one has not goes. The guest keeps its firmware's UUID and serial number, by which it knows its machine.
 */
export function updatedVm(
  vm: VirtualMachine,
  pool: VirtualMachinePool,
  before: PoolSpec['virtualMachineTemplate'] | undefined,
): VirtualMachine {
  const { metadata = {} } = pool.spec.virtualMachineTemplate;
  const revision = revisionName(pool);
  const spec = withRevision(indexedSpec(pool.spec, indexOf(vm.metadata.name) ?? 0), revision);
  const firmware = vm.spec.template?.spec?.domain?.firmware;
  const identity = { ...(firmware?.uuid && { uuid: firmware.uuid }), ...serialOf(firmware) };
  const { domain } = spec.template.spec;
  if (firmware) spec.template.spec.domain = { ...domain, firmware: { ...domain?.firmware, ...identity } };
  return {
    ...vm,
    metadata: {
      ...vm.metadata,
      labels: {
        ...replaced(vm.metadata.labels, before?.metadata?.labels, metadata.labels),
        [labels.poolRevision]: revision,
      },
      annotations: replaced(vm.metadata.annotations, before?.metadata?.annotations, metadata.annotations),
    },
    spec,
  };
}

type Texts = Readonly<Record<string, string>>;

function replaced(present: Texts = {}, before: Texts = {}, after: Texts = {}): Record<string, string> {
  const others = Object.entries(present).filter(([key]) => !Object.hasOwn(before, key));
  return { ...Object.fromEntries(others), ...after };
}

function serialOf(firmware: unknown): object {
  const serial = memberAt(firmware, 'serial');
  return typeof serial === 'string' && serial !== '' ? { serial } : {};
}

function withRevision(spec: VmSpec, revision: string): VmSpec {
  const { metadata } = spec.template;
  const template = {
    ...spec.template,
    metadata: { ...metadata, labels: { ...metadata?.labels, [labels.poolRevision]: revision } },
  };
  return { ...spec, template };
}

/**
 * The template's spec for one VM: names of its DataVolumes, and if the pool asks for it of ConfigMaps and Secrets, end with its index
 * (upstream: indexVMSpec in pkg/virt-controller/watch/pool/pool.go).
 */
export function indexedSpec({ virtualMachineTemplate, nameGeneration }: PoolSpec, index: number): VmSpec {
  const spec = structuredClone(virtualMachineTemplate.spec);
  const suffix = `-${index}`;
  const ownVolumes = new Set<string>();
  for (const template of listOf(spec.dataVolumeTemplates)) {
    const metadata = memberAt(template, 'metadata');
    const name = memberAt(metadata, 'name');
    if (!isRecord(metadata) || typeof name !== 'string') continue;
    ownVolumes.add(name);
    metadata.name = `${name}${suffix}`;
  }
  const isOwn = (name: string) => ownVolumes.has(name);
  const always = () => true;
  for (const volume of listOf(spec.template.spec.volumes)) {
    append(volume, ['persistentVolumeClaim'], 'claimName', suffix, isOwn);
    append(volume, ['dataVolume'], 'name', suffix, isOwn);
    if (nameGeneration?.appendIndexToConfigMapRefs === true) append(volume, ['configMap'], 'name', suffix, always);
    if (nameGeneration?.appendIndexToSecretRefs !== true) continue;
    append(volume, ['secret'], 'secretName', suffix, always);
    for (const source of ['cloudInitNoCloud', 'cloudInitConfigDrive']) {
      append(volume, [source, 'secretRef'], 'name', suffix, always);
      append(volume, [source, 'networkDataSecretRef'], 'name', suffix, always);
    }
  }
  return spec;
}

function append(
  volume: unknown,
  path: readonly string[],
  field: string,
  suffix: string,
  isMeant: (name: string) => boolean,
): void {
  const source = memberAt(volume, ...path);
  if (!isRecord(source)) return;
  const name = source[field];
  if (typeof name === 'string' && isMeant(name)) source[field] = `${name}${suffix}`;
}
