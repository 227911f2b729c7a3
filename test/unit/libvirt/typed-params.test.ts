import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeWith, encodeWith } from '../../../src/libvirt/codec.ts';
import { type TypedParam, typedParamMap, typedParams } from '../../../src/libvirt/typed-params.ts';

const golden: readonly (readonly [TypedParam, string])[] = [
  [{ field: 'a', type: 'int', value: -1 }, '00000001 61000000 00000001 ffffffff'],
  [{ field: 'a', type: 'uint', value: 4_294_967_295 }, '00000001 61000000 00000002 ffffffff'],
  [{ field: 'a', type: 'llong', value: -1n }, '00000001 61000000 00000003 ffffffffffffffff'],
  [{ field: 'a', type: 'ullong', value: 1n }, '00000001 61000000 00000004 0000000000000001'],
  [{ field: 'a', type: 'double', value: 1.5 }, '00000001 61000000 00000005 3ff8000000000000'],
  [{ field: 'a', type: 'boolean', value: true }, '00000001 61000000 00000006 00000001'],
  [{ field: 'a', type: 'string', value: 'x' }, '00000001 61000000 00000007 00000001 78000000'],
];

for (const [param, bytes] of golden) {
  test(`a typed parameter of type ${param.type} is its name, its type number and its value`, () => {
    const wire = `00000001${bytes.replaceAll(' ', '')}`;
    assert.equal(encodeWith(typedParams(8), [param]).toString('hex'), wire);
    assert.deepEqual(decodeWith(typedParams(8), Buffer.from(wire, 'hex')), [param]);
  });
}

test('an unknown type number is refused, because the value cannot be skipped', () => {
  const wire = Buffer.from('00000001 00000001 61000000 00000008 00000000'.replaceAll(' ', ''), 'hex');
  assert.throws(() => decodeWith(typedParams(8), wire), { code: 'XDR_INVALID' });
});

test('a repeated field stays twice in the list, and once, the last, in the map', () => {
  const params: TypedParam[] = [
    { field: 'migrate_disks', type: 'string', value: 'vda' },
    { field: 'migrate_disks', type: 'string', value: 'vdb' },
  ];
  const decoded = decodeWith(typedParams(8), encodeWith(typedParams(8), params));
  assert.deepEqual(decoded, params);
  assert.deepEqual([...typedParamMap(decoded)], [['migrate_disks', 'vdb']]);
});
