import { isMacAddress } from '../../api/index.ts';
import { listOf as elementsOf, isRecord } from '../../base/index.ts';
import type { Admission } from '../api-type.ts';
import { type FieldError, invalidField, requiredField, unsupportedField } from '../errors.ts';
import { type ApiObject, at, ensureObject, stringAt } from '../object.ts';
import { validatePatches } from './vm-patches.ts';
import { sameSpec } from './vm-snapshot.ts';

const sourceGroups: Readonly<Record<string, string>> = {
  VirtualMachine: 'kubevirt.io',
  VirtualMachineSnapshot: 'snapshot.kubevirt.io',
};
const suffixLength = 5;

/** What upstream's webhooks do to clones (vmclone-admitter.go and clone-create-mutator.go in pkg/virt-api/webhooks). */
export const vmCloneAdmission: Admission = {
  fill(clone, { old, randomUuid }) {
    const source = stringAt(clone, 'spec', 'source', 'name');
    if (old || !source) return;
    const spec = ensureObject(clone, 'spec');
    const target = isRecord(spec.target) ? spec.target : { apiGroup: 'kubevirt.io', kind: 'VirtualMachine' };
    if (!target.name) target.name = `clone-${source}-${randomUuid().slice(0, suffixLength)}`;
    spec.target = target;
  },
  validate(clone, { old }) {
    if (old) return sameSpec(clone, old);
    const filters = (...path: string[]) => validateFilters(at(clone, 'spec', ...path), `spec.${path.join('.')}`);
    return [
      ...filters('annotationFilters'),
      ...filters('labelFilters'),
      ...filters('template', 'annotationFilters'),
      ...filters('template', 'labelFilters'),
      ...validateSource(at(clone, 'spec', 'source')),
      ...validateTarget(clone),
      ...validateMacAddresses(at(clone, 'spec', 'newMacAddresses')),
      ...validatePatches(at(clone, 'spec', 'patches'), 'spec.patches'),
    ];
  },
};

function validateFilters(value: unknown, field: string): FieldError[] {
  return elementsOf(value).flatMap((filter, index) => {
    const at = `${field}[${index}]`;
    if (typeof filter !== 'string' || filter === '' || filter === '!')
      return [invalidField(at, filter, 'must be a key, with ! at its beginning or * at its end or both')];
    const isNegated = filter.slice(1).includes('!');
    const isWild = filter.slice(0, -1).includes('*');
    return [
      ...(isNegated ? [invalidField(at, filter, 'cannot contain a negation character (!) but at the beginning')] : []),
      ...(isWild ? [invalidField(at, filter, 'cannot contain a wildcard character (*) but at the end')] : []),
    ];
  });
}

function validateSource(source: unknown): FieldError[] {
  const [group, kind, name] = ['apiGroup', 'kind', 'name'].map((member) => at(source, member));
  if (typeof kind !== 'string' || !Object.hasOwn(sourceGroups, kind))
    return [unsupportedField('spec.source.kind', kind, Object.keys(sourceGroups))];
  const wanted = sourceGroups[kind];
  return [
    ...(group === wanted ? [] : [invalidField('spec.source.apiGroup', group, `must be ${wanted}`)]),
    ...(typeof name === 'string' && name !== '' ? [] : [requiredField('spec.source.name')]),
  ];
}

function validateTarget(clone: ApiObject): FieldError[] {
  const [source, target] = ['source', 'target'].map((member) => at(clone, 'spec', member));
  const field = 'spec.target';
  if (at(target, 'kind') !== 'VirtualMachine')
    return [unsupportedField(`${field}.kind`, at(target, 'kind'), ['VirtualMachine'])];
  const group = at(target, 'apiGroup');
  const name = at(target, 'name');
  const isItself = at(source, 'kind') === 'VirtualMachine' && at(source, 'name') === name;
  const why = 'target name cannot be equal to source name when both are VirtualMachines';
  return [
    ...(group === 'kubevirt.io' ? [] : [invalidField(`${field}.apiGroup`, group, 'must be kubevirt.io')]),
    ...(isItself ? [invalidField(`${field}.name`, name, why)] : []),
  ];
}

function validateMacAddresses(value: unknown): FieldError[] {
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, address]) => {
    const isAddress = typeof address === 'string' && isMacAddress(address);
    if (address === '' || isAddress) return [];
    return [invalidField(`spec.newMacAddresses.${name}`, address, `interface ${name} has malformed MAC address`)];
  });
}
