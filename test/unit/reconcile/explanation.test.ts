import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainAll, explainKey, explainObject, explainPath, faultRule } from '../../../src/reconcile/index.ts';
import { decidedLoop } from '../../fixtures/decided-loop.ts';

const { source } = decidedLoop({ seen: { lamp: 'lit' }, rule: 'as-wished' });
const words = {
  why: ({ rule }: { readonly rule: string }) => `because of ${rule}`,
  problem: ({ problem }: { readonly problem?: string }) => problem,
};

test('all objects are listed by namespace and name, each with its last decision', () => {
  const items = explainAll(source, words);
  assert.deepEqual(
    items.map(({ key }) => key),
    ['default/broken', 'default/gone', 'default/vm1', 'default/vm2', 'other/vm1'],
  );
  const [broken, gone] = items;
  assert.deepEqual([broken?.decision.rule, broken?.decision.problem], [faultRule, 'it is not a function']);
  assert.deepEqual([broken?.object.goneAt, gone?.object.goneAt], [undefined, '2026-01-02T03:00:05.000Z']);
});

test('an object has all its decisions with their sentences, its crash loop and what is awaited', () => {
  const found = explainObject('default/broken', source, words);
  assert.deepEqual(
    found?.decisions.map(({ why, times }) => [why, times]),
    [[`because of ${faultRule}`, 3]],
  );
  assert.equal(found?.crashLoop?.failures, 3);
  assert.deepEqual([found?.state.problem, found?.state.nextTry.failuresInARow], ['it is not a function', 2]);
  assert.equal(explainObject('default/none', source, words), undefined);
});

test('an address is taken apart as it is, or decoded where that is asked for', () => {
  assert.deepEqual(explainPath('/a//%62/?c#d'), { kind: 'path', parts: ['a', '%62'] });
  assert.deepEqual(explainPath('/a/%62', decodeURIComponent), { kind: 'path', parts: ['a', 'b'] });
  const unreadable = explainPath('/%zz', decodeURIComponent);
  assert.equal(unreadable.kind === 'refused' && unreadable.httpStatus, 400);
  assert.equal(explainPath('a'.repeat(1025)).kind, 'refused');
  assert.equal(explainPath('a'.repeat(1024)).kind, 'path');
});

test('only names that an object can have make a key', () => {
  assert.deepEqual(explainKey('default', 'my.vm-1'), { kind: 'key', key: 'default/my.vm-1' });
  for (const name of ['', '..', 'VM', '-a', 'a/b', 'a'.repeat(254)]) {
    assert.equal(explainKey('default', name).kind, 'refused', name);
    assert.equal(explainKey(name, 'vm1').kind, 'refused', name);
  }
});
