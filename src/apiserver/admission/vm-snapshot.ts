import {
  isRestoreOver,
  readinessPolicies,
  type VirtualMachineRestore,
  volumeOwnershipPolicies,
  volumeRestorePolicies,
} from '../../api/index.ts';
import { listOf as elementsOf, isRecord, parseGoDurationMs, sameJson } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { type FieldError, invalidField, requiredField, unsupportedField } from '../errors.ts';
import { type ApiObject, at, stringAt } from '../object.ts';
import { validatePatches } from './vm-patches.ts';

/** What upstream's webhooks say of snapshots and restores (vmsnapshot.go and vmrestore.go in pkg/storage/admitters). */
export const vmSnapshotAdmission: Admission = {
  validate(snapshot, { old }) {
    if (old) return sameSpec(snapshot, old);
    return [
      ...validateVm(at(snapshot, 'spec', 'source'), 'spec.source'),
      ...validateOneOf(snapshot, 'deletionPolicy', ['Delete', 'Retain']),
      ...validateDeadline(at(snapshot, 'spec', 'failureDeadline')),
    ];
  },
};

export const vmRestoreAdmission: Admission = {
  validate(restore, { old }) {
    if (old) return sameSpec(restore, old);
    const isNamed = Boolean(stringAt(restore, 'spec', 'virtualMachineSnapshotName'));
    return [
      ...validateVm(at(restore, 'spec', 'target'), 'spec.target'),
      ...(isNamed ? [] : [requiredField('spec.virtualMachineSnapshotName')]),
      ...validateOneOf(restore, 'targetReadinessPolicy', readinessPolicies),
      ...validateOneOf(restore, 'volumeRestorePolicy', volumeRestorePolicies),
      ...validateOneOf(restore, 'volumeOwnershipPolicy', volumeOwnershipPolicies),
      ...validatePatches(at(restore, 'spec', 'patches'), 'spec.patches'),
      ...validateOverrides(at(restore, 'spec', 'volumeRestoreOverrides')),
    ];
  },
  deny(restore, { old }, stored) {
    if (old) return undefined;
    const others = stored.restores(restore.metadata.namespace ?? '', stringAt(restore, 'spec', 'target', 'name') ?? '');
    const active = others.find((other) => !isRestoreOver(other as unknown as VirtualMachineRestore));
    if (!active) return undefined;
    const message = `spec.target: VirtualMachineRestore "${active.metadata.name}" in progress`;
    return { webhook: 'virtualmachinerestore-validator.snapshot.kubevirt.io', message };
  },
};

export function sameSpec(object: ApiObject, old: ApiObject): FieldError[] {
  const isSame = sameJson(object.spec, old.spec);
  return isSame ? [] : [invalidField('spec', object.metadata.name, 'spec is immutable after creation')];
}

function validateVm(reference: unknown, field: string): FieldError[] {
  const [group, kind, name] = ['apiGroup', 'kind', 'name'].map((member) => at(reference, member));
  if (group === undefined || group === null || group === '')
    return [requiredField(`${field}.apiGroup`, 'missing apiGroup: kubevirt.io')];
  return [
    ...(group === 'kubevirt.io' ? [] : [invalidField(`${field}.apiGroup`, group, 'invalid apiGroup: kubevirt.io')]),
    ...(kind === 'VirtualMachine' ? [] : [invalidField(`${field}.kind`, kind, 'invalid kind: VirtualMachine')]),
    ...(typeof name === 'string' && name !== '' ? [] : [requiredField(`${field}.name`)]),
  ];
}

function validateOneOf(object: ApiObject, member: string, allowed: readonly string[]): FieldError[] {
  const value = at(object, 'spec', member);
  if (value === undefined || value === null) return [];
  const isKnown = typeof value === 'string' && allowed.includes(value);
  return isKnown ? [] : [unsupportedField(`spec.${member}`, value, allowed)];
}

function validateDeadline(value: unknown): FieldError[] {
  if (value === undefined || value === null) return [];
  const ms = typeof value === 'string' ? parseGoDurationMs(value) : undefined;
  if (ms !== undefined && ms >= 0) return [];
  return [invalidField('spec.failureDeadline', value, 'must be a duration as "5m" or "90s"; "0s": none')];
}

function validateOverrides(value: unknown): FieldError[] {
  return elementsOf(value).flatMap((override, index) => {
    const field = `spec.volumeRestoreOverrides[${index}]`;
    const isNamed = Boolean(at(override, 'volumeName'));
    const changes = ['restoreName', 'annotations', 'labels'].some((member) => {
      const given = at(override, member);
      return isRecord(given) || (typeof given === 'string' && given !== '');
    });
    return [
      ...(isNamed ? [] : [requiredField(`${field}.volumeName`, 'must provide a volume name')]),
      ...(changes ? [] : [requiredField(field, 'must provide at least one overridden field')]),
    ];
  });
}
