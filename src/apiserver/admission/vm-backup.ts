import { isBackupOver, type VirtualMachineBackup } from '../../api/index.ts';
import { sameJson } from '../../base/index.ts';
import type { Admission, AdmissionContext, Denial } from '../api-type.ts';
import { type FieldError, invalidField, requiredField, unsupportedField } from '../errors.ts';
import { at, stringAt } from '../object.ts';
import { validateTtl } from './vm-export.ts';
import { sameSpec } from './vm-snapshot.ts';

const modes = ['Push', 'Pull'];
/** Kinds that a backup can be of, with their groups. */
const sourceKinds: Readonly<Record<string, string>> = {
  'kubevirt.io': 'VirtualMachine',
  'backup.kubevirt.io': 'VirtualMachineBackupTracker',
};

/**
 * What upstream's webhook says of backups (backup.go in pkg/storage/admitters) and the rules of its CRD, and of a duration that nothing
 * can be made of.
 */
export const vmBackupAdmission: Admission = {
  validate(backup, { old }) {
    if (old) return sameSpec(backup, old);
    const source = validateSource(at(backup, 'spec', 'source'), Object.keys(sourceKinds));
    return [...source, ...validateMode(at(backup, 'spec')), ...validateTtl(backup)];
  },
  deny(backup, context, stored) {
    const webhook = 'virtualmachinebackup-validator.backup.kubevirt.io';
    const closed = denyClosed(context, webhook);
    if (closed || context.old) return closed;
    const others = stored.backups(backup.metadata.namespace ?? '') as unknown as readonly VirtualMachineBackup[];
    const source = at(backup, 'spec', 'source');
    const active = others.find((other) => sameJson(other.spec.source, source) && !isBackupOver(other));
    if (!active) return undefined;
    return { webhook, message: `spec.source: VirtualMachineBackup "${active.metadata.name}" in progress for source` };
  },
};

export const vmBackupTrackerAdmission: Admission = {
  validate(tracker, { old }) {
    return old ? sameSpec(tracker, old) : validateSource(at(tracker, 'spec', 'source'), ['kubevirt.io']);
  },
  deny: (_tracker, context) => denyClosed(context, 'virtualmachinebackuptracker-validator.backup.kubevirt.io'),
};

function denyClosed({ old, cluster }: AdmissionContext, webhook: string): Denial | undefined {
  if (old || cluster.gates.IncrementalBackup) return undefined;
  return { webhook, message: 'IncrementalBackup feature gate not enabled' };
}

function validateSource(source: unknown, groups: readonly string[]): FieldError[] {
  const [group, kind, name] = ['apiGroup', 'kind', 'name'].map((member) => at(source, member));
  if (group === undefined || group === null || group === '') return [requiredField('spec.source.apiGroup')];
  if (typeof group !== 'string' || !groups.includes(group))
    return [invalidField('spec.source.apiGroup', group, `must be ${groups.join(' or ')}`)];
  const wanted = sourceKinds[group];
  const isRight = kind === wanted;
  return [
    ...(isRight ? [] : [invalidField('spec.source.kind', kind, `must be ${wanted} where apiGroup is ${group}`)]),
    ...(typeof name === 'string' && name !== '' ? [] : [requiredField('spec.source.name')]),
  ];
}

function validateMode(spec: unknown): FieldError[] {
  const mode = at(spec, 'mode') ?? 'Push';
  if (typeof mode !== 'string' || !modes.includes(mode)) return [unsupportedField('spec.mode', mode, modes)];
  const claim = stringAt(spec, 'pvcName') ? [] : [requiredField('spec.pvcName')];
  const needsToken = mode === 'Pull' && !stringAt(spec, 'tokenSecretRef');
  return [
    ...claim,
    ...(needsToken ? [requiredField('spec.tokenSecretRef', 'the secret that a pull is asked for with')] : []),
  ];
}
