import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject, PersistentVolumeClaim, ResourceType } from '../../../../src/api/index.ts';
import { createStateClaim, makeStateClaim } from '../../../../src/controller/kept-state/create.ts';
import { keptStateIndexes, stateClaimOf } from '../../../../src/controller/kept-state/find.ts';
import { observeKeptState } from '../../../../src/controller/kept-state/observe.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { buildVmi } from '../builders.ts';
import { claim } from '../vmi/plugged.ts';

const vm = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', name: 'vm1', uid: 'uid-vm', controller: true };
const kept = (
  keeps: object = { devices: { tpm: { persistent: true } } },
  metadata: object = { ownerReferences: [vm] },
) => buildVmi({ domain: { memory: { guest: '1Gi' }, ...keeps } }, {}, metadata);
const migration = { apiVersion: 'x/v1', kind: 'M', metadata: { name: 'job', namespace: 'default', uid: 'uid-job' } };
const { signal } = new AbortController();

function named(name: string, labels: Record<string, string>, more: object = {}): PersistentVolumeClaim {
  const made = claim(name);
  return { ...made, metadata: { ...made.metadata, labels, ...more } };
}

/** An API server with these objects, by kind and name. */
function api(...objects: readonly KubeObject[]) {
  const created: PersistentVolumeClaim[] = [];
  const find = (kind: string, name: string) =>
    objects.find((each) => each.kind === kind && each.metadata.name === name);
  const client = {
    create: async <T extends KubeObject>(_: ResourceType, body: T) => {
      if (find(body.kind, body.metadata.name)) throw new KubeError('ALREADY_EXISTS', 'there');
      created.push(body as unknown as PersistentVolumeClaim);
      return body;
    },
    get: async <T extends KubeObject>({ kind }: ResourceType, { name }: { name: string }) => {
      const found = find(kind, name);
      if (!found) throw new KubeError('NOT_FOUND', `${kind} ${name}`);
      return found as T;
    },
    list: async <T extends KubeObject>({ kind }: ResourceType) => ({
      items: objects.filter((each) => each.kind === kind) as T[],
      resourceVersion: '1',
    }),
  };
  return { client, created };
}

const storageClass = (name: string, mark?: string, more: object = {}): KubeObject => ({
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name, ...(mark && { annotations: { [mark]: 'true' } }) },
  ...more,
});
const usual = storageClass('usual', 'storageclass.kubernetes.io/is-default-class');

test('the claim of a VM has upstream’s label and size, and is the VM’s', () => {
  const { metadata, spec } = makeStateClaim(kept(), { kind: 'vm' }, 'fast', 'ReadWriteOnce');
  assert.match(metadata.name, /^persistent-state-for-vm1-[0-9a-f]{8}$/);
  assert.deepEqual(metadata.labels, { 'persistent-state-for': 'vm1', 'cdi.kubevirt.io/applyStorageProfile': 'true' });
  assert.deepEqual(metadata.ownerReferences, [vm]);
  const requests = { storage: '10Mi' };
  const form = { storageClassName: 'fast', volumeMode: 'Filesystem', resources: { requests } };
  assert.deepEqual(spec, { accessModes: ['ReadWriteOnce'], ...form });
});

test('a VMI of no VM owns its claim itself, one of a replica set, too; that of a migration has the migration’s label and another name', () => {
  const set = [{ ...vm, kind: 'VirtualMachineInstanceReplicaSet' }];
  for (const ownerReferences of [undefined, set]) {
    const { metadata } = makeStateClaim(kept({}, { ownerReferences }), { kind: 'vm' }, 'a', 'b');
    assert.deepEqual(
      metadata.ownerReferences?.map(({ kind, uid }) => [kind, uid]),
      [['VirtualMachineInstance', 'uid-vmi']],
    );
  }
  const own = makeStateClaim(kept(), { kind: 'vm' }, 'a', 'b').metadata;
  const moved = makeStateClaim(kept(), { kind: 'migration', migration }, 'a', 'b').metadata;
  assert.deepEqual(
    [moved.labels?.['kubevirt.io/migrationName'], moved.labels?.['persistent-state-for']],
    ['job', undefined],
  );
  assert.notEqual(moved.name, own.name);
  const long = kept({}, { name: 'a'.repeat(64) });
  assert.throws(() => makeStateClaim(long, { kind: 'vm' }, 'a', 'b'), { code: 'NAME_TOO_LONG', message: /at most 63/ });
});

const profile = (...accessModes: string[]): KubeObject & Record<string, unknown> => ({
  apiVersion: 'cdi.kubevirt.io/v1beta1',
  kind: 'StorageProfile',
  metadata: { name: 'usual' },
  status: {
    claimPropertySets: [
      { volumeMode: 'Block', accessModes: ['ReadWriteMany'] },
      { volumeMode: 'Filesystem', accessModes },
    ],
  },
});
const virt = storageClass('virt', 'storageclass.kubevirt.io/is-default-virt-class');

const classes: readonly (readonly [
  title: string,
  configured: string,
  objects: readonly KubeObject[],
  expected: readonly [string, string],
])[] = [
  ['the default class', '', [storageClass('other'), usual], ['usual', 'ReadWriteOnce']],
  ['the default class for virtual machines before it', '', [usual, virt], ['virt', 'ReadWriteOnce']],
  ['the class of the KubeVirt object, which is taken for a shared one', 'mine', [usual], ['mine', 'ReadWriteMany']],
  ['what its profile can do', '', [usual, profile('ReadWriteOnce', 'ReadWriteMany')], ['usual', 'ReadWriteMany']],
  ['what its profile can do at most', 'usual', [profile('ReadWriteOnce')], ['usual', 'ReadWriteOnce']],
];
for (const [title, configured, objects, expected] of classes) {
  test(`a claim for kept state is of ${title}`, async () => {
    const { client, created } = api(...objects);
    const { isNew } = await createStateClaim(kept(), { kind: 'vm' }, { client, storageClass: configured, signal });
    const [made] = created;
    assert.deepEqual([isNew, made?.spec.storageClassName, made?.spec.accessModes], [true, expected[0], [expected[1]]]);
  });
}

test('without a default class it says what to do; the claim of an earlier try is found again, one of somebody else is refused', async () => {
  const deps = { storageClass: '', signal };
  await assert.rejects(createStateClaim(kept(), { kind: 'vm' }, { ...api(storageClass('a')), ...deps }), {
    code: 'NO_CLASS',
    message: /no default storage class found: mark one .*vmStateStorageClass/,
  });
  const own = makeStateClaim(kept(), { kind: 'vm' }, 'usual', 'ReadWriteOnce');
  const again = (there: PersistentVolumeClaim) =>
    createStateClaim(kept(), { kind: 'vm' }, { ...api(usual, there), ...deps });
  assert.deepEqual(await again(own), { claim: own, isNew: false });
  const foreign = { ...own, metadata: { ...own.metadata, ownerReferences: [] } };
  await assert.rejects(again(foreign), { code: 'NAME_TAKEN', message: /of somebody else/ });
  const leaving = { ...own, metadata: { ...own.metadata, deletionTimestamp: 'now' } };
  await assert.rejects(again(leaving), { code: 'NAME_TAKEN', message: /being deleted/ });
});

test('of several claims of a VM the newest labelled one has its state; one that leaves, or is of a migration, has none', () => {
  const label = { 'persistent-state-for': 'vm1' };
  const old = named('a', label, { creationTimestamp: '2026-01-01T00:00:00Z' });
  const moved = named('b', label, { creationTimestamp: '2026-01-02T00:00:00Z' });
  const leaving = named('c', label, { creationTimestamp: '2026-01-03T00:00:00Z', deletionTimestamp: 'now' });
  const onItsWay = named('persistent-state-for-vm1-d', { 'kubevirt.io/migrationName': 'job' });
  const elsewhere = named('e', label, { namespace: 'other' });
  const legacy = named('persistent-state-for-vm1', {}, { creationTimestamp: '2026-01-09T00:00:00Z' });
  const found = (...claims: PersistentVolumeClaim[]) => stateClaimOf(kept(), claims)?.metadata.name;
  assert.equal(found(legacy, old, moved, leaving, onItsWay, elsewhere), 'b');
  assert.equal(found(legacy, onItsWay, elsewhere), 'persistent-state-for-vm1');
  assert.equal(found(onItsWay, elsewhere, leaving), undefined);
  assert.deepEqual(keptStateIndexes['state-of-migration'](onItsWay), ['default/job']);
  assert.deepEqual(keptStateIndexes['state-of-vm'](moved), ['default/vm1']);
  assert.deepEqual(keptStateIndexes['state-of-vm'](named('data', {})), []);
});

const state = (change: Partial<PersistentVolumeClaim>): PersistentVolumeClaim => ({
  ...named('kept', { 'persistent-state-for': 'vm1' }),
  ...change,
});
const lazy = storageClass('lazy', undefined, { volumeBindingMode: 'WaitForFirstConsumer' });
const ofClass = (storageClassName: string) => state({ spec: { storageClassName }, status: { phase: 'Pending' } });
const seen: readonly (readonly [
  title: string,
  claims: readonly PersistentVolumeClaim[],
  kind: string,
  why?: RegExp,
])[] = [
  ['no claim', [], 'missing'],
  ['a bound one', [state({ status: { phase: 'Bound' } })], 'ready'],
  ['one that waits for a pod', [ofClass('lazy')], 'ready'],
  ['one without a volume yet', [ofClass('usual')], 'waits', /PVC pending: kept/],
  ['one of a class that is not there', [ofClass('gone')], 'waits', /there is no storage class gone/],
  ['one that was lost', [state({ status: { phase: 'Lost' } })], 'unusable', /has lost its volume/],
  ['a block device', [state({ spec: { volumeMode: 'Block' } })], 'unusable', /is a block device: delete it/],
];
for (const [title, claims, kind, why] of seen) {
  test(`state that is to be kept, with ${title}: ${kind}`, async () => {
    const found = await observeKeptState(kept(), { ...api(usual, lazy), claims, signal });
    assert.equal(found.kind, kind);
    assert.match('why' in found ? found.why : '', why ?? /^$/);
  });
}

test('a VMI keeps nothing unless it says so, or when its TPM is turned off', async () => {
  for (const domain of [{}, { devices: { tpm: {} } }, { devices: { tpm: { persistent: true, enabled: false } } }]) {
    assert.deepEqual(await observeKeptState(kept(domain), { ...api(), claims: [], signal }), { kind: 'none' });
  }
});

test('a VMI whose changed blocks are recorded has a claim for the records', async () => {
  for (const [state, kind] of [
    ['Initializing', 'missing'],
    ['Enabled', 'missing'],
    ['Disabled', 'none'],
  ] as const) {
    const vmi = buildVmi({ domain: { memory: { guest: '1Gi' } } }, { changedBlockTracking: { state } });
    assert.equal((await observeKeptState(vmi, { ...api(), claims: [], signal })).kind, kind);
  }
});
