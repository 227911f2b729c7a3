import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeObject, ResourceType, VirtualMachine } from '../../../../src/api/index.ts';
import { inferReferences, Lookup } from '../../../../src/controller/instancetypes/index.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { buildVm } from '../builders.ts';

/** By `resource namespace/name`; errors are thrown. */
type Objects = Readonly<Record<string, object | KubeError>>;

function apiWith(objects: Objects) {
  return {
    get: async <T extends KubeObject>(type: ResourceType, ref: { name: string; namespace?: string | undefined }) => {
      const key = `${type.resource} ${ref.namespace ?? ''}/${ref.name}`;
      const found = objects[key];
      if (found instanceof KubeError) throw found;
      if (!found) throw new KubeError('NOT_FOUND', `${key} not found`, { httpStatus: 404 });
      return { apiVersion: '', kind: type.kind, metadata: { name: ref.name }, ...found } as unknown as T;
    },
    update: async <T extends KubeObject>(_type: ResourceType, object: T) => object,
  };
}

const labelled = (name: string) => ({
  metadata: { name: 'x', labels: { 'instancetype.kubevirt.io/default-instancetype': name } },
});
const signal = new AbortController().signal;
const vmOn = (volume: object, more: object = {}) =>
  buildVm({
    instancetype: { inferFromVolume: 'root' },
    template: { spec: { domain: {}, volumes: [{ name: 'root', ...volume }] } },
    ...more,
  });
const inferred = async (vm: VirtualMachine, objects: Objects) =>
  (await inferReferences(vm, apiWith(objects), signal)).spec.instancetype;

const dataVolume = { dataVolume: { name: 'dv' } };
const dv = 'datavolumes default/dv';
const source = { pvc: { name: 'golden', namespace: 'images' } };
const sourceRef = { kind: 'DataSource', name: 'fedora', namespace: 'images' };
for (const [from, objects, more] of [
  ['a claim', { 'persistentvolumeclaims default/root': labelled('found') }, undefined],
  ['the labels of a DataVolume', { [dv]: labelled('found') }, undefined],
  ['the claim of a DataVolume that is gone', { 'persistentvolumeclaims default/dv': labelled('found') }, undefined],
  [
    'the claim that a DataVolume is filled from',
    { [dv]: { spec: { source } }, 'persistentvolumeclaims images/golden': labelled('found') },
    undefined,
  ],
  [
    'a snapshot',
    {
      [dv]: { spec: { source: { snapshot: { name: 's', namespace: 'images' } } } },
      'volumesnapshots images/s': labelled('found'),
    },
    undefined,
  ],
  ['a DataSource', { [dv]: { spec: { sourceRef } }, 'datasources images/fedora': labelled('found') }, undefined],
  [
    'what a DataSource stands for',
    {
      [dv]: { spec: { sourceRef } },
      'datasources images/fedora': { spec: { source } },
      'persistentvolumeclaims images/golden': labelled('found'),
    },
    undefined,
  ],
  [
    'a DataSource of its own namespace',
    {
      [dv]: { spec: { sourceRef: { ...sourceRef, namespace: undefined } } },
      'datasources default/fedora': labelled('found'),
    },
    undefined,
  ],
  [
    'a template of the VM',
    { 'persistentvolumeclaims images/golden': labelled('found') },
    { dataVolumeTemplates: [{ metadata: { name: 'dv' }, spec: { source } }] },
  ],
] as const) {
  test(`an instance type is taken from ${from}`, async () => {
    const volume = from === 'a claim' ? { persistentVolumeClaim: { claimName: 'root' } } : dataVolume;
    assert.deepEqual(await inferred(vmOn(volume, more), objects), { name: 'found' });
  });
}

const ignoring = { instancetype: { inferFromVolume: 'root', inferFromVolumeFailurePolicy: 'Ignore' } };
for (const [what, volume, objects, words] of [
  ['a volume of another kind', { emptyDisk: {} }, {}, /root as type is not supported/],
  ['a DataVolume from elsewhere', dataVolume, { [dv]: { spec: { source: { http: {} } } } }, /source of the DataVolume/],
  ['a source of another kind', dataVolume, { [dv]: { spec: { sourceRef: { kind: 'Image' } } } }, /kind Image/],
  [
    'a DataSource that stands for another',
    dataVolume,
    { [dv]: { spec: { sourceRef } }, 'datasources images/fedora': { spec: { sourceRef } } },
    /label on DataSource/,
  ],
] as const) {
  test(`${what} says nothing, which may be passed over`, async () => {
    await assert.rejects(inferred(vmOn(volume), objects), words);
    assert.equal(await inferred(vmOn(volume, ignoring), objects), undefined);
  });
}

test('what is not there is never passed over', async () => {
  await assert.rejects(
    inferred(vmOn({ persistentVolumeClaim: { claimName: 'no' } }, ignoring), {}),
    /default\/no not found/,
  );
  const other = buildVm({ ...ignoring, template: { spec: { domain: {} } } });
  await assert.rejects(inferred(other, {}), /unable to find volume root/);
});

test('memory that the VM says for want of an instance type goes when one is found', async () => {
  const vm = vmOn({ persistentVolumeClaim: { claimName: 'root' } }, ignoring);
  vm.spec.template.spec.domain.memory = { guest: '1Gi' };
  const after = await inferReferences(
    vm,
    apiWith({ 'persistentvolumeclaims default/root': labelled('found') }),
    signal,
  );
  assert.equal(after.spec.template.spec.domain.memory, undefined);
});

for (const [what, instancetype, words] of [
  ['a name', { inferFromVolume: 'root', name: 'a' }, /spec\.instancetype\.name: clear it/],
  ['a kind', { inferFromVolume: 'root', kind: 'a' }, /spec\.instancetype\.kind: clear it/],
  ['a policy that is none', { inferFromVolume: 'root', inferFromVolumeFailurePolicy: 'Maybe' }, /Maybe is none/],
] as const) {
  test(`a volume beside ${what} is refused`, async () => {
    const vm = vmOn({ persistentVolumeClaim: { claimName: 'root' } }, { instancetype });
    await assert.rejects(inferred(vm, { 'persistentvolumeclaims default/root': labelled('found') }), words);
  });
}

test('a controller without the right to read instance types says so', async () => {
  const error = new KubeError('FORBIDDEN', 'no', { httpStatus: 403 });
  const lookup = new Lookup(apiWith({ 'virtualmachineclusterinstancetypes /small': error }));
  const found = await lookup.find(buildVm({ instancetype: { name: 'small' } }), 'instancetype', signal);
  assert.equal(found.kind, 'missing');
  assert.match(JSON.stringify(found), /may not read virtualmachineclusterinstancetypes\.instancetype\.kubevirt\.io/);
});

test('an API server that does not answer says nothing about instance types', async () => {
  const error = new KubeError('UNREACHABLE', 'refused');
  const lookup = new Lookup(apiWith({ 'virtualmachineclusterinstancetypes /small': error }));
  await assert.rejects(lookup.find(buildVm({ instancetype: { name: 'small' } }), 'instancetype', signal), error);
});

test('a revision is asked for once, and only used for what it was made of', async () => {
  let gets = 0;
  const data = {
    apiVersion: 'instancetype.kubevirt.io/v1beta1',
    kind: 'VirtualMachineInstancetype',
    spec: { cpu: { guest: 3 }, memory: { guest: '1Gi' } },
  };
  const labels = { 'instancetype.kubevirt.io/object-name': 'small' };
  const { get } = apiWith({
    'controllerrevisions default/r': { metadata: { name: 'r', labels }, data },
    'virtualmachineclusterinstancetypes /other': { spec: { cpu: { guest: 1 }, memory: { guest: '1Gi' } } },
  });
  const counted: typeof get = (type, target) => {
    gets++;
    return get(type, target);
  };
  const lookup = new Lookup({ get: counted });
  const ref = (name: string) => ({ name, controllerRevisionRef: { name: 'r' } });
  const cpusOf = async (name: string) => {
    const vm = buildVm({ instancetype: { name } }, { instancetypeRef: ref(name) });
    const found = await lookup.find(vm, 'instancetype', signal);
    return JSON.stringify(found).match(/"guest":(\d)/)?.[1];
  };
  assert.deepEqual([await cpusOf('small'), await cpusOf('small'), gets], ['3', '3', 1]);
  assert.equal(await cpusOf('other'), '1');
});
