import { applyPatch, type Operation, Pointer } from 'rfc6902';
import {
  annotations,
  apiVersionOf,
  type KeptVirtualMachine,
  resources,
  type VirtualMachine,
  type VirtualMachineRestore,
  type Volume,
  type VolumeRestore,
} from '../../api/index.ts';
import { isRecord, listOf, memberAt } from '../../base/index.ts';
import { restoreMark } from './names.ts';

type VmSpec = VirtualMachine['spec'];

/** What the restore names cannot be done; the message says what to change. */
export class RestoreError extends Error {}

/** Names of DataVolumes that the VM has templates of. */
export function templateNames(spec: VmSpec): string[] {
  return listOf(spec.dataVolumeTemplates).flatMap((template) => nameOf(template) ?? []);
}

function nameOf(template: unknown): string | undefined {
  const name = memberAt(template, 'metadata', 'name');
  return typeof name === 'string' && name !== '' ? name : undefined;
}

/** Of a volume that is on a DataVolume of the VM's templates. */
export function templateOfVolume(spec: VmSpec, volume: string): string | undefined {
  const found = listOf(spec.template?.spec?.volumes).find((each) => memberAt(each, 'name') === volume);
  const name = memberAt(found, 'dataVolume', 'name');
  return typeof name === 'string' && templateNames(spec).includes(name) ? name : undefined;
}

/**
 * The VM as it shall be: what the snapshot has, on the volumes that were restored (upstream: generateRestoredVMSpec in
 * pkg/storage/snapshot/restore.go). A VM that is there keeps its run strategy, a new one is halted. Throws RestoreError.
 */
export function restoredVm(
  restore: VirtualMachineRestore,
  kept: KeptVirtualMachine,
  target: VirtualMachine | undefined,
  restores: readonly VolumeRestore[],
): VirtualMachine {
  const spec = restoredSpec(structuredClone(kept.spec), restores);
  const mark = { [annotations.lastRestore]: restoreMark(restore) };
  if (target) {
    const metadata = { ...target.metadata, annotations: { ...target.metadata.annotations, ...mark } };
    return { ...target, metadata, spec: withStrategyOf(spec, target.spec) };
  }
  const { labels, annotations: noted } = kept.metadata ?? {};
  const { running: _running, runStrategy: _strategy, ...rest } = spec;
  const made: VirtualMachine = {
    apiVersion: apiVersionOf(resources.virtualMachines),
    kind: resources.virtualMachines.kind,
    metadata: {
      name: restore.spec.target.name,
      ...(restore.metadata.namespace && { namespace: restore.metadata.namespace }),
      ...(labels && { labels }),
      annotations: { ...withoutApplied(noted), ...mark },
    },
    spec: { ...rest, runStrategy: 'Halted' },
  };
  return withoutEmpty(patched(made, restore.spec.patches ?? []));
}

/** What kubectl has applied is another object. */
function withoutApplied(noted: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { 'kubectl.kubernetes.io/last-applied-configuration': _, ...rest } = noted;
  return rest;
}

function withStrategyOf({ running: _r, runStrategy: _s, ...spec }: VmSpec, { running, runStrategy }: VmSpec): VmSpec {
  // Admission takes no other one while the VM is locked.
  return typeof running === 'boolean' ? { ...spec, running } : { ...spec, runStrategy: runStrategy ?? 'Halted' };
}

function restoredSpec(spec: VmSpec, restores: readonly VolumeRestore[]): VmSpec {
  const { volumes: _volumes, ...vmi } = spec.template.spec;
  const of = (name: unknown) => restores.find(({ volumeName }) => volumeName === name);
  const templates = templateNames(spec);
  const renamed = new Map<string, string>();
  const volumes = listOf(spec.template.spec.volumes).flatMap((volume) => {
    if (!isRecord(volume) || isRecord(volume.memoryDump)) return [];
    const restore = of(volume.name);
    if (!restore) return [volume];
    const { persistentVolumeClaim: claimName, dataVolumeName } = restore;
    if (isRecord(volume.persistentVolumeClaim))
      return [{ ...volume, persistentVolumeClaim: { ...volume.persistentVolumeClaim, claimName } }];
    if (!isRecord(volume.dataVolume)) return [volume];
    const name = String(volume.dataVolume.name);
    if (!templates.includes(name) || dataVolumeName === undefined)
      return [{ name: volume.name, persistentVolumeClaim: { claimName } }];
    renamed.set(name, dataVolumeName);
    return [{ ...volume, dataVolume: { ...volume.dataVolume, name: dataVolumeName } }];
  });
  const dataVolumeTemplates = listOf(spec.dataVolumeTemplates).map((template) => {
    const name = renamed.get(nameOf(template) ?? '');
    if (!isRecord(template) || name === undefined) return template;
    return { ...template, metadata: { ...(isRecord(template.metadata) ? template.metadata : {}), name } };
  });
  const template = { ...spec.template, spec: { ...vmi, volumes: volumes as unknown as Volume[] } };
  return { ...spec, template, ...(spec.dataVolumeTemplates !== undefined && { dataVolumeTemplates }) };
}

/** One operation each, as text. A member that is not there is replaced, too, as Go's clients do. */
function patched(vm: VirtualMachine, patches: readonly string[]): VirtualMachine {
  const result: VirtualMachine = structuredClone(vm);
  for (const text of patches) applyTo(result, text);
  const keeps = (...names: string[]) => memberAt(result, ...names) === memberAt(vm, ...names);
  if (!keeps('metadata', 'name') || !keeps('metadata', 'namespace'))
    throw new RestoreError('spec.patches: the VM has the name of spec.target, and is in the namespace of the restore');
  // By this the VM that was made is known again.
  if (!keeps('metadata', 'annotations', annotations.lastRestore))
    throw new RestoreError(`spec.patches: the annotation ${annotations.lastRestore} is the restore's own`);
  if (!isRecord(memberAt(result, 'spec', 'template', 'spec', 'domain')))
    throw new RestoreError('spec.patches: they leave the VM without spec.template.spec.domain');
  return result;
}

function applyTo(vm: VirtualMachine, text: string): void {
  const operation = operationOf(text);
  let error: Error | null | undefined;
  try {
    const isMissing = operation.op === 'replace' && Pointer.fromJSON(operation.path).get(vm) === undefined;
    [error] = applyPatch(vm, [isMissing ? { ...operation, op: 'add' } : operation]);
  } catch (cause) {
    // A path that is none.
    throw new RestoreError(`spec.patches: ${text} is no operation of a JSON patch`, { cause });
  }
  if (error) throw new RestoreError(`spec.patches: ${text} does not apply to the VM: ${error.name}`);
}

function operationOf(text: string): Operation {
  let operation: unknown;
  try {
    operation = JSON.parse(text);
  } catch {
    throw new RestoreError(`spec.patches: ${text} is no JSON`);
  }
  if (!isRecord(operation) || typeof operation.op !== 'string' || typeof operation.path !== 'string')
    throw new RestoreError(`spec.patches: ${text} is no operation of a JSON patch`);
  return operation as unknown as Operation;
}

/** An empty text is none to Go's programs: a clone gets an address, a serial number and an identity of its own by it. */
function withoutEmpty(vm: VirtualMachine): VirtualMachine {
  const { domain } = vm.spec.template.spec;
  const drop = (value: unknown, names: readonly string[]) => {
    if (!isRecord(value)) return;
    for (const name of names) if (value[name] === '') delete value[name];
  };
  drop(domain?.firmware, ['uuid', 'serial']);
  for (const link of listOf(domain?.devices?.interfaces)) drop(link, ['macAddress']);
  return vm;
}
