import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appliedDataVolumes } from '../../../src/instancetype/index.ts';

const preference = { volumes: { preferredStorageClassName: 'fast' } };
const templateWith = (spec: object) => ({ metadata: { name: 'root' }, spec });

for (const member of ['pvc', 'storage']) {
  test(`a template whose ${member} names no storage class gets the preferred one`, () => {
    const given = [templateWith({ [member]: { accessModes: [] } })];
    const wanted = [templateWith({ [member]: { accessModes: [], storageClassName: 'fast' } })];
    assert.deepEqual(appliedDataVolumes(given, preference), wanted);
  });

  test(`a template whose ${member} names a storage class keeps it, also the empty one`, () => {
    const given = ['slow', ''].map((storageClassName) => templateWith({ [member]: { storageClassName } }));
    assert.deepEqual(appliedDataVolumes(given, preference), given);
  });
}

test('without a preferred storage class, and without a claim, templates stay as they are', () => {
  const given = [templateWith({ storage: {} }), templateWith({}), {}, 'x'];
  assert.deepEqual(appliedDataVolumes(given, {}), given);
  assert.deepEqual(appliedDataVolumes(given, undefined), given);
  assert.deepEqual(appliedDataVolumes(given.slice(1), preference), given.slice(1));
  assert.deepEqual(appliedDataVolumes(undefined, preference), []);
});
