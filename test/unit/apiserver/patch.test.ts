import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { applyJsonPatch } from '../../../src/apiserver/patch/json-patch.ts';
import { applyStrategicPatch } from '../../../src/apiserver/patch/strategic.ts';
import { podStrategic } from '../../../src/apiserver/patch/strategic-schema.ts';

const freeze = <T>(value: T): T => {
  if (typeof value === 'object' && value !== null) for (const member of Object.values(value)) freeze(member);
  return Object.freeze(value);
};

describe('JSON patch', () => {
  test('all or nothing: the target is never changed', () => {
    const target = freeze({ a: [1, 2], b: { c: 1 } });
    assert.deepEqual(applyJsonPatch(target, [{ op: 'add', path: '/a/1', value: 9 }]), { a: [1, 9, 2], b: { c: 1 } });
    assert.throws(() => applyJsonPatch(target, [{ op: 'remove', path: '/b/x' }]), { code: 'INVALID' });
  });

  test('the whole document can be replaced', () => {
    assert.deepEqual(applyJsonPatch({ a: 1 }, [{ op: 'replace', path: '', value: { b: 2 } }]), { b: 2 });
  });

  test('a copied value is not shared with its origin', () => {
    const made = applyJsonPatch({ a: { x: 1 } }, [
      { op: 'copy', from: '/a', path: '/b' },
      { op: 'replace', path: '/b/x', value: 2 },
    ]);
    assert.deepEqual(made, { a: { x: 1 }, b: { x: 2 } });
  });

  const malformed: [string, unknown][] = [
    ['no list', { op: 'add' }],
    ['an unknown operation', [{ op: 'merge', path: '/a' }]],
    ['no pointer', [{ op: 'remove', path: 'a' }]],
    ['no value', [{ op: 'add', path: '/a' }]],
    ['no from', [{ op: 'move', path: '/a' }]],
    ['a path to the prototype', [{ op: 'add', path: '/__proto__/polluted', value: 1 }]],
    ['a null operation', [null]],
  ];
  for (const [what, patch] of malformed) {
    test(`${what} is refused as malformed`, () => {
      assert.throws(() => applyJsonPatch({ a: 1 }, patch), { code: 'BAD_REQUEST' });
    });
  }

  test('more than 10,000 operations are refused', () => {
    const many = Array.from({ length: 10_001 }, () => ({ op: 'test', path: '/a', value: 1 }));
    assert.throws(() => applyJsonPatch({ a: 1 }, many), { code: 'TOO_LARGE' });
  });
});

describe('strategic merge patch', () => {
  const pod = freeze({
    metadata: { finalizers: ['a/b'], ownerReferences: [{ uid: '1', name: 'one' }] },
    spec: {
      containers: [
        { name: 'main', image: 'a', env: [{ name: 'X', value: '1' }], ports: [{ containerPort: 80, name: 'http' }] },
        { name: 'side', image: 'b' },
      ],
      volumes: [{ name: 'v', emptyDir: {} }],
      tolerations: [{ key: 'a' }],
    },
    status: { conditions: [{ type: 'Ready', status: 'False' }] },
  });
  const apply = (patch: unknown) => applyStrategicPatch(pod, freeze(patch), podStrategic) as typeof pod;

  test('containers merge by name, their env by name, their ports by number', () => {
    const env = [
      { name: 'Y', value: '2' },
      { name: 'X', value: '3' },
    ];
    const { containers } = apply({
      spec: { containers: [{ name: 'main', env, ports: [{ containerPort: 80, name: 'web' }] }] },
    }).spec;
    assert.deepEqual(containers[0], {
      name: 'main',
      image: 'a',
      env: [
        { name: 'X', value: '3' },
        { name: 'Y', value: '2' },
      ],
      ports: [{ containerPort: 80, name: 'web' }],
    });
    assert.equal(containers.length, 2);
  });

  test('$patch: delete removes one element', () => {
    const { containers } = apply({ spec: { containers: [{ name: 'side', $patch: 'delete' }] } }).spec;
    assert.deepEqual(
      containers.map(({ name }) => name),
      ['main'],
    );
  });

  test('$patch: replace puts the list in place of the old one', () => {
    const { containers } = apply({ spec: { containers: [{ name: 'new', image: 'c' }, { $patch: 'replace' }] } }).spec;
    assert.deepEqual(containers, [{ name: 'new', image: 'c' }]);
  });

  test('$patch: replace on an object drops its other members', () => {
    const made = apply({ spec: { $patch: 'replace', containers: [{ name: 'only' }] } });
    assert.deepEqual(made.spec, { containers: [{ name: 'only' }] });
  });

  test('$setElementOrder orders what it names', () => {
    const order = [{ name: 'side' }, { name: 'main' }];
    const { containers } = apply({
      spec: { '$setElementOrder/containers': order, containers: [{ name: 'main', image: 'z' }] },
    }).spec;
    assert.deepEqual(
      containers.map(({ name }) => name),
      ['side', 'main'],
    );
  });

  test('$retainKeys drops members that are not named', () => {
    const volumes = [{ name: 'v', $retainKeys: ['name', 'hostPath'], hostPath: { path: '/x' } }];
    assert.deepEqual(apply({ spec: { volumes } }).spec.volumes, [{ name: 'v', hostPath: { path: '/x' } }]);
  });

  test('finalizers are a set; $deleteFromPrimitiveList takes values out', () => {
    const added = apply({ metadata: { finalizers: ['a/b', 'c/d'] } });
    assert.deepEqual(added.metadata.finalizers, ['a/b', 'c/d']);
    const taken = apply({ metadata: { '$deleteFromPrimitiveList/finalizers': ['a/b'] } });
    assert.deepEqual(taken.metadata.finalizers, []);
  });

  test('owner references merge by uid, conditions by type', () => {
    const made = apply({
      metadata: { ownerReferences: [{ uid: '2', name: 'two' }] },
      status: {
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: 'Other', status: 'True' },
        ],
      },
    });
    assert.deepEqual(
      made.metadata.ownerReferences.map(({ uid }) => uid),
      ['1', '2'],
    );
    assert.deepEqual(
      made.status.conditions.map(({ status }) => status),
      ['True', 'True'],
    );
  });

  test('a list that is not named in the schema is replaced', () => {
    assert.deepEqual(apply({ spec: { tolerations: [{ key: 'b' }] } }).spec.tolerations, [{ key: 'b' }]);
  });

  test('elements without their key, unknown directives and non-lists are refused', () => {
    for (const patch of [
      { spec: { containers: [{ image: 'x' }] } },
      { spec: { containers: ['x'] } },
      { spec: { $patch: 'explode' } },
      { metadata: { '$deleteFromPrimitiveList/finalizers': 'a/b' } },
      'text',
    ]) {
      assert.throws(() => apply(patch), { code: 'BAD_REQUEST' }, JSON.stringify(patch));
    }
  });
});
