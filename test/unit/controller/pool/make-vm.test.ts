import assert from 'node:assert/strict';
import { test } from 'node:test';
import { labels } from '../../../../src/api/index.ts';
import { freeNames, indexedSpec, indexOf, makeVm, updatedVm } from '../../../../src/controller/pool/make-vm.ts';
import { storageOf } from '../../../../src/controller/pool/storage.ts';
import { buildPool, owner, template, vmOf } from './situations.ts';

test('a VM has name, labels, owner and finalizer of its pool, and tells its revision to its guest', () => {
  const { metadata, spec } = makeVm('web-3', buildPool());
  assert.deepEqual(metadata, {
    ...{ name: 'web-3', namespace: 'default', finalizers: ['pool.kubevirt.io/finalizer'], ownerReferences: [owner] },
    labels: { pool: 'web', [labels.poolRevision]: 'web-2' },
  });
  assert.deepEqual(spec.template.metadata?.labels, { guest: 'web', [labels.poolRevision]: 'web-2' });
});

test('the lowest free numbers are taken', () => {
  const taken = new Set(['web-0', 'web-2']);
  assert.deepEqual(
    freeNames(buildPool(), 3, (name) => taken.has(name)),
    ['web-1', 'web-3', 'web-4'],
  );
});

for (const [name, index] of [
  ['web-12', 12],
  ['a-b-0', 0],
  ['web', undefined],
  ['web-x', undefined],
  ['12', undefined],
] as const) {
  test(`the number of ${name} is ${index}`, () => assert.equal(indexOf(name), index));
}

const volumes = [
  { name: 'root', dataVolume: { name: 'root' } },
  { name: 'claim', persistentVolumeClaim: { claimName: 'root' } },
  { name: 'shared', persistentVolumeClaim: { claimName: 'shared' } },
  { name: 'map', configMap: { name: 'map' } },
  { name: 'secret', secret: { secretName: 'secret' } },
  { name: 'cloud', cloudInitNoCloud: { secretRef: { name: 'user' }, networkDataSecretRef: { name: 'net' } } },
  { name: 'drive', cloudInitConfigDrive: { secretRef: { name: 'user' } } },
];

function indexed(nameGeneration?: object) {
  const dataVolumeTemplates = [{ metadata: { name: 'root' } }];
  const vmi = { spec: { domain: {}, volumes } };
  const virtualMachineTemplate = template('64Mi', { dataVolumeTemplates, template: vmi });
  const spec = indexedSpec(buildPool({ virtualMachineTemplate, ...(nameGeneration && { nameGeneration }) }).spec, 4);
  return { spec, texts: JSON.stringify([spec.dataVolumeTemplates, spec.template.spec.volumes]) };
}

test('names of own DataVolumes get the number, and those of claims that VMs share do not', () => {
  const { texts } = indexed();
  assert.match(texts, /"metadata":\{"name":"root-4"\}.*"dataVolume":\{"name":"root-4"\}.*"claimName":"root-4"/);
  assert.match(texts, /"claimName":"shared"/);
  assert.doesNotMatch(texts, /(map|secret|user|net)-4/);
  assert.equal(volumes[0]?.dataVolume?.name, 'root', 'the template itself is left alone');
});

test('names of ConfigMaps and of Secrets get it where the pool asks for it', () => {
  const maps = indexed({ appendIndexToConfigMapRefs: true }).texts;
  assert.match(maps, /"configMap":\{"name":"map-4"\}/);
  assert.doesNotMatch(maps, /(secret|user|net)-4/);
  const secrets = indexed({ appendIndexToSecretRefs: true }).texts;
  assert.match(secrets, /"secretName":"secret-4"/);
  assert.match(
    secrets,
    /"cloudInitNoCloud":\{"secretRef":\{"name":"user-4"\},"networkDataSecretRef":\{"name":"net-4"\}\}/,
  );
  assert.match(secrets, /"cloudInitConfigDrive":\{"secretRef":\{"name":"user-4"\}\}/);
  assert.doesNotMatch(secrets, /map-4/);
});

test('an update keeps the machine that the guest knows, and what others wrote', () => {
  const vm = vmOf(1, 1, {
    labels: { pool: 'web', old: 'x', users: 'own', [labels.poolRevision]: 'web-1' },
    annotations: { note: 'users' },
  });
  vm.spec.template.spec.domain = { firmware: { uuid: 'u-1', serial: 's-1' } as never };
  const before = { ...template('32Mi'), metadata: { labels: { pool: 'web', old: 'x' } } };
  const virtualMachineTemplate = template('64Mi');
  virtualMachineTemplate.spec.template.spec.domain.firmware = { uuid: 'from-template' };
  const { metadata, spec } = updatedVm(vm, buildPool({ virtualMachineTemplate }), before);
  assert.deepEqual(metadata.labels, { pool: 'web', users: 'own', [labels.poolRevision]: 'web-2' });
  assert.deepEqual(metadata.annotations, { note: 'users' });
  assert.deepEqual(spec.template.spec.domain.firmware, { uuid: 'u-1', serial: 's-1' });
  assert.equal(spec.template.spec.domain.memory?.guest, '64Mi');
  assert.deepEqual(
    [metadata.resourceVersion, metadata.finalizers],
    [vm.metadata.resourceVersion, vm.metadata.finalizers],
  );
});

test('what a VM stores is known by its templates and volumes', () => {
  const { claims, dataVolumes } = storageOf({ ...vmOf(4), spec: indexed().spec });
  assert.deepEqual([...claims].sort(), ['root-4', 'shared']);
  assert.deepEqual([...dataVolumes], ['root-4']);
});
