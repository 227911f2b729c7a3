import {
  finalizers,
  isFinal,
  isFinalMigration,
  labels,
  migrationRefusal,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from '../../api/index.ts';
import { isRecord, sameJson } from '../../base/index.ts';
import type { Admission, StoredObjects } from '../api-type.ts';
import { type FieldError, forbiddenField, requiredField } from '../errors.ts';
import { type ApiObject, at, stringAt } from '../object.ts';

/** What upstream's webhooks do to migrations (`migration-create-mutator.go`, `migration-create-admitter.go`, `migration-update-admitter.go` in pkg/virt-api/webhooks). */
export const migrationAdmission: Admission = {
  fill(migration, { old }) {
    const name = stringAt(migration, 'spec', 'vmiName');
    if (old || !name) return;
    const { metadata } = migration;
    metadata.labels = { ...metadata.labels, [labels.migrationVmi]: name };
    metadata.finalizers = [...new Set([...(metadata.finalizers ?? []), finalizers.migration])];
  },
  validate(migration, { old, privileged }) {
    if (old) return sameJson(migration.spec, old.spec) ? [] : [restricted];
    const name = at(migration, 'spec', 'vmiName');
    if (!isRecord(migration.spec) || typeof name !== 'string' || name === '') return [requiredField('spec.vmiName')];
    const isOthers = at(migration, 'spec', 'priority') !== undefined && !privileged;
    return [
      ...(isOthers ? [forbiddenField('spec.priority', 'only virt-controller is allowed to set the priority')] : []),
      ...(['sendTo', 'receive'] as const).flatMap((end) =>
        (at(migration, 'spec', end) ?? undefined) === undefined
          ? []
          : [forbiddenField(`spec.${end}`, noSynchronization)],
      ),
    ];
  },
  deny(migration, { old }, stored) {
    const message = old ? undefined : denial(migration, stored);
    return message === undefined ? undefined : { webhook: 'migration-create-validator.kubevirt.io', message };
  },
};

/** Why no guest comes from another VMI object, or goes to one. */
export const noSynchronization =
  'guests move between namespaces and clusters by virt-synchronization-controller, which does not run on a standalone node';

const restricted: FieldError = forbiddenField('spec', "update of Migration object's spec is restricted");

function denial(migration: ApiObject, stored: StoredObjects): string | undefined {
  const { namespace = '' } = migration.metadata;
  const name = stringAt(migration, 'spec', 'vmiName') ?? '';
  const vmi = stored.vmi(namespace, name) as VirtualMachineInstance | undefined;
  if (!vmi) return `the VMI "${namespace}/${name}" does not exist`;
  if (isFinal(vmi)) return 'Cannot migrate VMI in finalized state.';
  const refusal = migrationRefusal(vmi);
  if (refusal !== undefined) return refusal;
  const others = stored.migrations(namespace, name) as unknown as readonly VirtualMachineInstanceMigration[];
  const active = others.find((other) => !isFinalMigration(other));
  if (!active) return undefined;
  return `in-flight migration detected. Active migration job (${active.metadata.uid}) is currently already in progress for VMI ${name}.`;
}
