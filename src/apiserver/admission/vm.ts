import { finalizers } from '../../api/index.ts';
import { isRecord, sameJson } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import {
  duplicateField,
  type FieldError,
  forbiddenField,
  invalidField,
  refusedField,
  requiredField,
  unsupportedField,
} from '../errors.ts';
import { type ApiObject, at, type JsonObject, objectsAt, stringAt } from '../object.ts';
import { validateLabels } from './metadata.ts';
import { noSynchronization } from './migration.ts';
import { takeIn } from './take-in.ts';
import { addDevices, fillTemplate, validateSpec } from './vmi.ts';
import { checkUtilityVolumes } from './vmi-disk-rules.ts';

const runStrategies = ['Always', 'Halted', 'Manual', 'RerunOnFailure', 'Once', 'WaitAsReceiver'];

export const vmAdmission: Admission = {
  complete: ({ spec }) => addDevices(at(spec, 'template', 'spec')),
  fill(vm, context) {
    if (isRecord(vm.spec)) fillTemplate(vm.spec, context.old?.spec, context);
    if (isRecord(vm.status)) vm.status.printableStatus ??= 'Stopped';
    // Where no program would take the finalizer off again the VM gets none.
    if (!context.old && context.cluster.runtimeUser !== undefined) takeIn(vm, finalizers.vm);
  },
  validate(vm, { old, hasNewSpec, cluster }) {
    const spec = vm.spec;
    if (!isRecord(spec)) return [requiredField('spec')];
    if (!isRecord(spec.template)) return [requiredField('spec.template'), ...validateRunning(spec)];
    const options = { isWhole: !isRecord(spec.instancetype) && !isRecord(spec.preference) };
    return [
      ...validateRunning(spec),
      ...(isReceiver(vm) && !(old && isReceiver(old)) ? [forbiddenField('spec.runStrategy', noSynchronization)] : []),
      ...validateLabels(at(spec, 'template', 'metadata', 'labels'), 'spec.template.metadata.labels'),
      ...validateMatchers(spec),
      ...(hasNewSpec ? validateSpec(spec.template.spec, 'spec.template.spec', cluster, options) : []),
      ...(old ? [] : checkUtilityVolumes(spec.template.spec, 'spec.template.spec')),
      ...validateDataVolumes(spec),
      ...(old ? validateUnderWay(vm, old) : []),
    ];
  },
};

/** While a snapshot or a restore is under way (upstream: vm-storage-status.go in pkg/storage/admitters). */
function validateUnderWay(vm: ApiObject, old: ApiObject): FieldError[] {
  const snapshot = stringAt(old, 'status', 'snapshotInProgress');
  const restore = stringAt(old, 'status', 'restoreInProgress');
  const volumesOf = (of: ApiObject) => at(of, 'spec', 'template', 'spec', 'volumes') ?? [];
  const isOtherStrategy = strategyOf(vm) !== strategyOf(old);
  const problems: FieldError[] = [];
  if (snapshot && !sameJson(volumesOf(vm), volumesOf(old)))
    problems.push(forbiddenField('spec', `Cannot update vm disks or volumes until snapshot "${snapshot}" completes`));
  if (snapshot && isOtherStrategy)
    problems.push(forbiddenField('spec', `Cannot update vm running state until snapshot "${snapshot}" completes`));
  if (restore && isOtherStrategy)
    problems.push(forbiddenField('spec', `Cannot update VM runStrategy until restore "${restore}" completes`));
  return problems;
}

/** It waits for the guest of another VMI object. */
const isReceiver = (vm: ApiObject) => strategyOf(vm) === 'WaitAsReceiver';

function strategyOf(vm: ApiObject): unknown {
  const running = at(vm, 'spec', 'running');
  if (typeof running === 'boolean') return running ? 'Always' : 'Halted';
  return at(vm, 'spec', 'runStrategy');
}

function validateRunning(spec: Record<string, unknown>): FieldError[] {
  const { running, runStrategy } = spec;
  const hasRunning = running !== undefined && running !== null;
  const hasStrategy = runStrategy !== undefined && runStrategy !== null && runStrategy !== '';
  if (hasRunning && hasStrategy) return [invalidField('spec.running', running, 'is exclusive with spec.runStrategy')];
  if (!hasRunning && !hasStrategy) return [requiredField('spec.runStrategy', 'one of running or runStrategy')];
  if (hasRunning && typeof running !== 'boolean')
    return [invalidField('spec.running', running, 'must be true or false')];
  if (hasStrategy && !(typeof runStrategy === 'string' && runStrategies.includes(runStrategy))) {
    return [unsupportedField('spec.runStrategy', runStrategy, runStrategies)];
  }
  return [];
}

const matcherKinds = {
  instancetype: ['VirtualMachineInstancetype', 'VirtualMachineClusterInstancetype'],
  preference: ['VirtualMachinePreference', 'VirtualMachineClusterPreference'],
} as const;

/** A kind may be written as its resource, too, in any letters. */
function validateMatchers(spec: JsonObject): FieldError[] {
  return (['instancetype', 'preference'] as const).flatMap((name) => {
    const kind = (stringAt(spec, name, 'kind') ?? '').toLowerCase();
    const kinds = matcherKinds[name];
    const isKnown = kinds.some((known) => [known, `${known}s`].some((each) => each.toLowerCase() === kind));
    return kind === '' || isKnown ? [] : [unsupportedField(`spec.${name}.kind`, kind, kinds)];
  });
}

/** What KubeVirt's webhook says of claims that come with the VM (upstream: ValidateDataVolumeTemplate in pkg/storage/admitters/data-volume-template.go). */
function validateDataVolumes(spec: JsonObject): FieldError[] {
  const used = objectsAt(spec, 'template', 'spec', 'volumes').map(
    (volume) => stringAt(volume, 'dataVolume', 'name') ?? stringAt(volume, 'persistentVolumeClaim', 'claimName'),
  );
  const seen = new Set<string>();
  return objectsAt(spec, 'dataVolumeTemplates').flatMap((template, index) => {
    // Upstream leaves out the s.
    const field = `spec.dataVolumeTemplate[${index}]`;
    const name = stringAt(template, 'metadata', 'name');
    const refuse = (where: string, words: string) => [refusedField(`${field}${where}`, words)];
    if (!name) {
      return refuse('.name', `'name' field must not be empty for DataVolumeTemplate entry ${field}.name.`);
    }
    // Upstream makes one of them, and never says which.
    if (seen.has(name)) return [duplicateField(`spec.dataVolumeTemplates[${index}].metadata.name`, name)];
    seen.add(name);
    const [pvc, storage] = ['pvc', 'storage'].map((member) => at(template, 'spec', member));
    if (!isRecord(pvc) && !isRecord(storage)) return refuse('.PVC.Storage', 'Missing Data volume PVC or Storage');
    if (isRecord(pvc) && isRecord(storage)) {
      return refuse('.PVC.Storage', 'Duplicate storage definition, both target storage and target pvc defined');
    }
    if (used.includes(name)) return [];
    return refuse('', `DataVolumeTemplate entry ${field} must be referenced in the VMI template's 'volumes' list`);
  });
}
