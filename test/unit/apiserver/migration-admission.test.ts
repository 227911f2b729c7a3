import assert from 'node:assert/strict';
import { test } from 'node:test';
import { migrationAdmission, migrationPolicyAdmission } from '../../../src/apiserver/admission/index.ts';
import type { AdmissionContext, StoredObjects } from '../../../src/apiserver/api-type.ts';
import type { ApiObject } from '../../../src/apiserver/object.ts';
import { clusterDefaultsWith } from '../../fixtures/cluster-defaults.ts';

const cluster = clusterDefaultsWith();
const context = {
  old: undefined,
  hasNewSpec: true,
  now: new Date(),
  privileged: false,
  randomUuid: () => 'u',
  cluster,
} as const;
const asSystem: AdmissionContext = { ...context, privileged: true };

const migration = (spec: unknown = { vmiName: 'vm1' }, more: object = {}): ApiObject => ({
  apiVersion: 'kubevirt.io/v1',
  kind: 'VirtualMachineInstanceMigration',
  metadata: { name: 'job', namespace: 'default' },
  spec,
  ...more,
});

const vmi = (status: object): ApiObject => ({ ...migration({}), kind: 'VirtualMachineInstance', status });
const stored = (found: ApiObject | undefined, migrations: readonly ApiObject[] = []): StoredObjects => ({
  vmi: () => found,
  migrations: () => migrations,
  storageClass: () => undefined,
  restores: () => [],
  backups: () => [],
});
const running = vmi({ phase: 'Running' });

test('a new migration gets label and finalizer, as the webhook of KubeVirt gives them; an old one is left alone', () => {
  const made = migration();
  migrationAdmission.fill?.(made, context);
  assert.deepEqual(made.metadata.labels, { 'kubevirt.io/vmi-name': 'vm1' });
  assert.deepEqual(made.metadata.finalizers, ['kubevirt.io/migrationJobFinalize']);
  const released = migration();
  migrationAdmission.fill?.(released, { ...context, old: made });
  assert.equal(released.metadata.finalizers, undefined);
});

test('a migration to or from another VMI object is refused: nothing on this node carries what the two say to each other', () => {
  const fieldsOf = (spec: object, given: AdmissionContext) =>
    migrationAdmission.validate?.(migration({ vmiName: 'vm1', ...spec }), given).map(({ field }) => field);
  const sendTo = { migrationID: 'a', connectURL: 'b:1' };
  for (const given of [context, asSystem]) {
    assert.deepEqual(fieldsOf({ sendTo }, given), ['spec.sendTo']);
    assert.deepEqual(fieldsOf({ receive: { migrationID: 'a' } }, given), ['spec.receive']);
    assert.deepEqual(fieldsOf({ sendTo: null }, given), []);
  }
});

const denied: readonly (readonly [what: string, stored: StoredObjects, message: RegExp])[] = [
  ['there is no VMI', stored(undefined), /^the VMI "default\/vm1" does not exist$/],
  ['the VMI has ended', stored(vmi({ phase: 'Failed' })), /^Cannot migrate VMI in finalized state\.$/],
  [
    'the VMI cannot migrate',
    stored(
      vmi({
        phase: 'Running',
        conditions: [{ type: 'LiveMigratable', status: 'False', reason: 'DisksNotLiveMigratable', message: 'disk0' }],
      }),
    ),
    /^Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: disk0$/,
  ],
  [
    'another one is under way',
    stored(running, [migration({}, { metadata: { name: 'a', uid: 'u1' }, status: { phase: 'Running' } })]),
    /^in-flight migration detected\. Active migration job \(u1\) is currently already in progress for VMI vm1\.$/,
  ],
  ['another one has just been made', stored(running, [migration()]), /^in-flight migration detected/],
];
for (const [what, objects, message] of denied) {
  test(`a migration is denied when ${what}`, () => {
    assert.match(migrationAdmission.deny?.(migration(), context, objects)?.message ?? '', message);
  });
}

test('a migration is taken when those before it are over, and the VMI says nothing against it', () => {
  const over = ['Succeeded', 'Failed'].map((phase) => migration({}, { status: { phase } }));
  assert.equal(migrationAdmission.deny?.(migration(), context, stored(running, over)), undefined);
});

test('only programs of KubeVirt set a priority, and no one changes the spec', () => {
  const urgent = migration({ vmiName: 'vm1', priority: 'system-critical' });
  const fields = (object: ApiObject, of: AdmissionContext) =>
    migrationAdmission.validate?.(object, of).map(({ field }) => field);
  assert.deepEqual(fields(urgent, context), ['spec.priority']);
  assert.deepEqual(fields(urgent, asSystem), []);
  assert.deepEqual(fields(urgent, { ...asSystem, old: migration() }), ['spec']);
  assert.deepEqual(fields(migration({}), context), ['spec.vmiName']);
  assert.deepEqual(fields(migration(null), context), ['spec.vmiName']);
});

test('a migration policy that controller and agents could not use is refused by the path of each field', () => {
  const fieldsOf = (spec: unknown) =>
    migrationPolicyAdmission
      .validate?.({ ...migration(spec), kind: 'MigrationPolicy' }, context)
      .map(({ field }) => field);
  const selectors = { virtualMachineInstanceSelector: { app: 'db' } };
  const good = { selectors, bandwidthPerMigration: '64Mi', completionTimeoutPerGiB: 0, maxDowntimeMs: 100 };
  assert.deepEqual(fieldsOf({ ...good, allowPostCopy: true, experimental: { compression: 'zstd' } }), []);
  assert.deepEqual(fieldsOf(null), ['spec']);
  assert.deepEqual(fieldsOf({}), ['spec.selectors']);
  const bad = { bandwidthPerMigration: 'much', completionTimeoutPerGiB: -5, allowPostCopy: 'yes', maxDowntimeMs: 1.5 };
  assert.deepEqual(
    new Set(fieldsOf({ selectors: { namespaceSelector: { a: 1 } }, ...bad, experimental: { compression: 'rar' } })),
    new Set(
      [...Object.keys(bad), 'selectors.namespaceSelector.a', 'experimental.compression'].map((at) => `spec.${at}`),
    ),
  );
});
