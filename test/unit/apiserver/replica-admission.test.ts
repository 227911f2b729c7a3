import assert from 'node:assert/strict';
import { test } from 'node:test';
import { poolAdmission, replicaSetAdmission } from '../../../src/apiserver/admission/index.ts';
import type { Admission, AdmissionContext } from '../../../src/apiserver/api-type.ts';
import type { ApiObject } from '../../../src/apiserver/object.ts';
import { clusterDefaultsWith } from '../../fixtures/cluster-defaults.ts';

const vmi = { metadata: { labels: { app: 'web' } }, spec: { domain: { memory: { guest: '64Mi' } } } };
const selector = { matchLabels: { app: 'web' } };
const set = { selector, template: vmi };
const vm = { metadata: { labels: { app: 'web' } }, spec: { runStrategy: 'Halted', template: vmi } };
const pool = { selector, virtualMachineTemplate: vm };

function fields(admission: Admission, spec: unknown, old?: unknown): readonly string[] {
  const object = (of: unknown): ApiObject => ({ apiVersion: 'v', kind: 'K', metadata: { name: 'web' }, spec: of });
  const given = { hasNewSpec: true, old: old === undefined ? undefined : object(old), cluster: clusterDefaultsWith() };
  const context = given as AdmissionContext;
  return (admission.validate?.(object(spec), context) ?? []).map(({ field }) => field);
}

const shared: readonly (readonly [what: string, change: object, expected: readonly string[]])[] = [
  ['as it should be', {}, []],
  ['no replicas', { replicas: 0 }, []],
  ['fewer than none', { replicas: -1 }, ['spec.replicas']],
  ['half of one', { replicas: 0.5 }, ['spec.replicas']],
  ['no selector', { selector: undefined }, ['spec.selector']],
  ['a selector of everything', { selector: {} }, ['spec.selector']],
  ['a selector of others', { selector: { matchLabels: { app: 'db' } } }, ['spec.selector']],
  ['a selector that is none', { selector: { matchExpressions: [{ key: 'a', operator: 'Is' }] } }, ['spec.selector']],
];

for (const [what, change, expected] of shared) {
  test(`a replica set and a pool: ${what}`, () => {
    assert.deepEqual(fields(replicaSetAdmission, { ...set, ...change }), expected);
    assert.deepEqual(fields(poolAdmission, { ...pool, ...change }), expected);
  });
}

test('a template is needed, and checked as the object that is made from it', () => {
  assert.deepEqual(fields(replicaSetAdmission, undefined), ['spec']);
  assert.deepEqual(fields(poolAdmission, undefined), ['spec']);
  assert.deepEqual(fields(replicaSetAdmission, { selector }), ['spec.template']);
  assert.deepEqual(fields(poolAdmission, { selector }), ['spec.virtualMachineTemplate']);
  const nonsense = { ...vmi, spec: { domain: 7 } };
  assert.deepEqual(fields(replicaSetAdmission, { ...set, template: nonsense }), ['spec.template.spec.domain']);
  const bad = { ...vm, spec: { template: vmi } };
  assert.deepEqual(fields(poolAdmission, { ...pool, virtualMachineTemplate: bad }), [
    'spec.virtualMachineTemplate.spec.runStrategy',
  ]);
});

for (const [what, change, expected] of [
  ['a share', { maxUnavailable: '50%' }, []],
  ['a number', { maxUnavailable: 2 }, []],
  ['no share', { maxUnavailable: '0%' }, ['spec.maxUnavailable']],
  ['more than all', { maxUnavailable: '101%' }, ['spec.maxUnavailable']],
  ['a word', { maxUnavailable: 'some' }, ['spec.maxUnavailable']],
  ['two ways to update', { updateStrategy: { opportunistic: {}, proactive: {} } }, ['spec.updateStrategy']],
  ['two ways to scale', { scaleInStrategy: { unmanaged: {}, proactive: {} } }, ['spec.scaleInStrategy']],
] as const) {
  test(`a pool: ${what}`, () => assert.deepEqual(fields(poolAdmission, { ...pool, ...change }), expected));
}

test('the selector of a pool stays as it is', () => {
  const other = { ...pool, selector: { matchExpressions: [{ key: 'app', operator: 'Exists' }] } };
  assert.deepEqual(fields(poolAdmission, other, pool), ['spec.selector']);
  assert.deepEqual(fields(poolAdmission, pool, pool), []);
});
