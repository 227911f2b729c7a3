import { readLabelSelector, selects } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { type FieldError, invalidField, requiredField } from '../errors.ts';
import { at } from '../object.ts';
import { validateSpec } from './vmi.ts';

/** What upstream's webhook and definition say of replica sets (pkg/virt-api/webhooks/validating-webhook/admitters/vmirs-admitter.go). */
export const replicaSetAdmission: Admission = {
  validate(set, { hasNewSpec, cluster }) {
    const { spec } = set;
    if (!isRecord(spec)) return [requiredField('spec')];
    if (!isRecord(spec.template)) return [requiredField('spec.template'), ...validateReplicas(spec)];
    const template = hasNewSpec ? validateSpec(spec.template.spec, 'spec.template.spec', cluster) : [];
    return [...validateReplicas(spec), ...template, ...validateSelector(spec, at(spec.template, 'metadata', 'labels'))];
  },
};

/** 0 to the largest number of 32 bits; absent: 1. */
export function validateReplicas({ replicas }: Record<string, unknown>): FieldError[] {
  if (replicas === undefined || replicas === null) return [];
  const isUsable = typeof replicas === 'number' && Number.isInteger(replicas) && replicas >= 0 && replicas < 2 ** 31;
  return isUsable ? [] : [invalidField('spec.replicas', replicas, 'must be a whole number from 0 on')];
}

/** `labels`: of the template. */
export function validateSelector({ selector: value }: Record<string, unknown>, labels: unknown): FieldError[] {
  if (value === undefined || value === null) return [requiredField('spec.selector')];
  const selector = readLabelSelector(value);
  if (!selector) return [invalidField('spec.selector', value, 'is no label selector')];
  const { matchLabels = {}, matchExpressions = [] } = selector;
  if (Object.keys(matchLabels).length + matchExpressions.length === 0)
    return [invalidField('spec.selector', value, 'must name labels: an empty one selects everything')];
  const isSelected = selects(selector, isRecord(labels) ? (labels as Record<string, string>) : {});
  return isSelected ? [] : [invalidField('spec.selector', value, 'selector does not match labels.')];
}
