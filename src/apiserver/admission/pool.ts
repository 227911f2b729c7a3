import { isRecord } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { type FieldError, forbiddenField, invalidField, requiredField } from '../errors.ts';
import { at } from '../object.ts';
import { validateReplicas, validateSelector } from './replica-set.ts';
import { vmAdmission } from './vm.ts';

/** What upstream's webhook says of pools (pkg/virt-api/webhooks/validating-webhook/admitters/vmpool-admitter.go). */
export const poolAdmission: Admission = {
  validate(pool, context) {
    const { spec } = pool;
    if (!isRecord(spec)) return [requiredField('spec')];
    const template = spec.virtualMachineTemplate;
    if (!isRecord(template)) return [requiredField('spec.virtualMachineTemplate'), ...validateReplicas(spec)];
    const vm = { ...pool, spec: template.spec };
    const problems = vmAdmission.validate?.(vm, context) ?? [];
    return [
      ...validateReplicas(spec),
      ...problems.map((problem) => ({ ...problem, field: `spec.virtualMachineTemplate.${problem.field}` })),
      ...validateSelector(spec, at(template, 'metadata', 'labels')),
      ...validateSameSelector(spec, context.old?.spec),
      ...validateMaxUnavailable(spec),
      ...['updateStrategy', 'scaleInStrategy'].flatMap((field) => validateOneOf(spec, field)),
    ];
  },
};

function validateSameSelector(spec: Record<string, unknown>, old: unknown): FieldError[] {
  const isSame = old === undefined || JSON.stringify(at(old, 'selector')) === JSON.stringify(spec.selector);
  return isSame ? [] : [forbiddenField('spec.selector', 'selector is immutable after creation.')];
}

function validateMaxUnavailable({ maxUnavailable: value }: Record<string, unknown>): FieldError[] {
  if (value === undefined || value === null) return [];
  const share = typeof value === 'string' && /^\d{1,3}%$/.test(value) ? Number.parseInt(value, 10) : undefined;
  const isUsable = share === undefined ? Number.isInteger(value) && Number(value) > 0 : share > 0 && share <= 100;
  return isUsable ? [] : [invalidField('spec.maxUnavailable', value, 'must be a number from 1 on, or 1% to 100%')];
}

function validateOneOf(spec: Record<string, unknown>, field: string): FieldError[] {
  const given = ['unmanaged', 'opportunistic', 'proactive'].filter((name) => isRecord(at(spec, field, name)));
  if (given.length < 2) return [];
  const why = `only one strategy can be configured at a time: but found ${given.join(', ')} strategies`;
  return [invalidField(`spec.${field}`, given.join(', '), why)];
}
