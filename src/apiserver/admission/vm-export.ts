import { parseGoDurationMs } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { type FieldError, invalidField, requiredField, unsupportedField } from '../errors.ts';
import { type ApiObject, at } from '../object.ts';
import { sameSpec } from './vm-snapshot.ts';

/** Kinds that can be exported here, with their groups. */
const sourceGroups: Readonly<Record<string, string>> = {
  PersistentVolumeClaim: '',
  VirtualMachine: 'kubevirt.io',
  VirtualMachineSnapshot: 'snapshot.kubevirt.io',
  VirtualMachineBackup: 'backup.kubevirt.io',
};

/** What upstream's webhook says of exports (vmexport.go in pkg/storage/admitters), and of a duration that nothing can be made of. */
export const vmExportAdmission: Admission = {
  validate(vmExport, { old }) {
    if (old) return sameSpec(vmExport, old);
    return [
      ...validateSource(at(vmExport, 'spec', 'source')),
      ...validateTtl(vmExport),
      ...validateToken(at(vmExport, 'spec', 'tokenSecretRef')),
    ];
  },
};

function validateSource(source: unknown): FieldError[] {
  const [group, kind, name] = ['apiGroup', 'kind', 'name'].map((member) => at(source, member));
  if (typeof kind !== 'string' || !Object.hasOwn(sourceGroups, kind))
    return [unsupportedField('spec.source.kind', kind, Object.keys(sourceGroups))];
  const wanted = sourceGroups[kind];
  const isRight = (group ?? '') === wanted;
  const advice = wanted === '' ? 'a claim has no API group: leave it out' : `must be ${wanted}`;
  return [
    ...(isRight ? [] : [invalidField('spec.source.apiGroup', group, advice)]),
    ...(typeof name === 'string' && name !== '' ? [] : [requiredField('spec.source.name')]),
  ];
}

export function validateTtl(object: ApiObject): FieldError[] {
  const value = at(object, 'spec', 'ttlDuration');
  if (value === undefined || value === null) return [];
  const ms = typeof value === 'string' ? parseGoDurationMs(value) : undefined;
  if (ms !== undefined && ms > 0) return [];
  return [invalidField('spec.ttlDuration', value, 'must be a duration above 0 as "2h" or "90m"')];
}

function validateToken(value: unknown): FieldError[] {
  if (value !== '') return [];
  return [invalidField('spec.tokenSecretRef', value, 'must name a secret; leave it out, and one is made')];
}
