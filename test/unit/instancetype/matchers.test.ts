import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resources } from '../../../src/api/index.ts';
import { followedRef, matcherOf, nameAnnotation, referredType } from '../../../src/instancetype/index.ts';
import { buildVm } from '../controller/builders.ts';

const controllerRevisionRef = { name: 'r' };
const old = { name: 'small', kind: 'VirtualMachineInstancetype', controllerRevisionRef };
for (const [what, matcher, ref] of [
  ['the same keeps its revision', { name: 'small' }, old],
  ['another name has none yet', { name: 'large' }, { name: 'large', kind: 'VirtualMachineInstancetype' }],
  [
    'another kind has none yet',
    { name: 'small', kind: 'VirtualMachineClusterInstancetype' },
    { name: 'small', kind: 'VirtualMachineClusterInstancetype' },
  ],
  [
    'a revision that the VM names wins',
    { name: 'small', revisionName: 'own' },
    { ...old, controllerRevisionRef: { name: 'own' } },
  ],
  [
    'a policy changes nothing',
    { name: 'small', inferFromVolumeFailurePolicy: 'Ignore' },
    { ...old, inferFromVolumeFailurePolicy: 'Ignore' },
  ],
] as const) {
  test(`the status follows the spec: ${what}`, () => assert.deepEqual(followedRef(matcher, old), ref));
}

for (const [field, kind, type] of [
  ['instancetype', '', resources.virtualMachineClusterInstancetypes],
  ['instancetype', 'virtualmachineclusterinstancetypes', resources.virtualMachineClusterInstancetypes],
  ['instancetype', 'VirtualMachineInstancetype', resources.virtualMachineInstancetypes],
  ['preference', '', resources.virtualMachineClusterPreferences],
  ['preference', 'VirtualMachinePreferences', resources.virtualMachinePreferences],
] as const) {
  test(`${field} of kind "${kind}" is a ${type.kind}`, () => assert.equal(referredType(field, { kind }), type));
}

test('a kind of the other field is none', () => {
  assert.throws(() => referredType('instancetype', { kind: 'VirtualMachinePreference' }), /spec\.instancetype\.kind/);
});

test('the annotations of a VMI are upstream’s', () => {
  const types = [
    resources.virtualMachineInstancetypes,
    resources.virtualMachineClusterInstancetypes,
    resources.virtualMachinePreferences,
    resources.virtualMachineClusterPreferences,
  ];
  assert.deepEqual(types.map(nameAnnotation), [
    'kubevirt.io/instancetype-name',
    'kubevirt.io/cluster-instancetype-name',
    'kubevirt.io/preference-name',
    'kubevirt.io/cluster-preference-name',
  ]);
});

test('what is no text says nothing', () => {
  const vm = buildVm({ instancetype: { name: 'a', kind: 1, revisionName: '' }, preference: 'x' });
  assert.deepEqual([matcherOf(vm, 'instancetype'), matcherOf(vm, 'preference')], [{ name: 'a' }, undefined]);
});
