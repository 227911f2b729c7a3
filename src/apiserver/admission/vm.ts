import { isRecord } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { type FieldError, invalidField, requiredField, unsupportedField } from '../errors.ts';
import { at } from '../object.ts';
import { addDevices, fillTemplate, validateSpec } from './vmi.ts';

const runStrategies = ['Always', 'Halted', 'Manual', 'RerunOnFailure', 'Once', 'WaitAsReceiver'];

export const vmAdmission: Admission = {
  complete: ({ spec }) => addDevices(at(spec, 'template', 'spec')),
  fill(vm, context) {
    if (isRecord(vm.spec)) fillTemplate(vm.spec, context.old?.spec, context);
    if (isRecord(vm.status)) vm.status.printableStatus ??= 'Stopped';
  },
  validate(vm) {
    const spec = vm.spec;
    if (!isRecord(spec)) return [requiredField('spec')];
    if (!isRecord(spec.template)) return [requiredField('spec.template'), ...validateRunning(spec)];
    const options = { isWhole: !isRecord(spec.instancetype) };
    return [...validateRunning(spec), ...validateSpec(spec.template.spec, 'spec.template.spec', options)];
  },
};

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
