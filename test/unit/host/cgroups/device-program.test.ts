import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { nextRules } from '../../../../src/host/cgroups/block-devices.ts';
import {
  isPlain,
  readDeviceRules,
  standardProgram,
  withDeviceRules,
} from '../../../../src/host/cgroups/device-program.ts';

const words = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex').match(/.{16}/g) ?? [];

/** r0 = 0; exit */
const denyAll = Buffer.from('b7000000000000009500000000000000', 'hex');

describe('rules in front of a program', () => {
  test('are these bytes, as the kernel header linux/bpf.h has them', () => {
    const program = withDeviceRules(
      { allow: [{ major: 8, minor: 16 }], deny: [{ major: 253, minor: 1 }] },
      denyAll,
      true,
    );
    assert.deepEqual(words(program), [
      'b70000000200564b', // r0 = mark and number of rules
      '6112000000000000', // r2 = context.access_type
      '54020000ffff0000', // r2 &= 0xffff
      '55020a0001000000', // if r2 != block: to the base
      '6112040000000000', // r2 = context.major
      '6113080000000000', // r3 = context.minor
      '5502030008000000', // if r2 != 8: next
      '5503020010000000', // if r3 != 16: next
      'b700000001000000', // r0 = 1
      '9500000000000000', // exit
      '55020300fd000000',
      '5503020001000000',
      'b700000000000000',
      '9500000000000000',
      ...words(denyAll),
    ]);
  });

  test('are in the order of the other machines, too', () => {
    const program = withDeviceRules({ allow: [{ major: 8, minor: 16 }], deny: [] }, Buffer.alloc(0), false);
    assert.deepEqual(words(program).slice(0, 4), [
      'b70000004b560001',
      '6121000000000000',
      '542000000000ffff',
      '5520000600000001',
    ]);
  });

  const device = fc
    .tuple(fc.integer({ min: 0, max: 4095 }), fc.integer({ min: 0, max: 2 ** 20 - 1 }))
    .map(([major, minor]) => ({ major, minor }));
  const selector = { selector: ({ major, minor }: { major: number; minor: number }) => `${major}:${minor}` };
  const devices = fc.uniqueArray(device, { ...selector, maxLength: 40 });

  test('are read as they were written, and the base with them', () => {
    fc.assert(
      fc.property(devices, fc.integer({ min: 0, max: 40 }), fc.boolean(), (all, split, isLittle) => {
        const rules = { allow: all.slice(0, split), deny: all.slice(split) };
        assert.deepEqual(readDeviceRules(withDeviceRules(rules, denyAll, isLittle), isLittle), {
          rules,
          base: denyAll,
        });
      }),
    );
  });

  test('of a program that is cut off, or is another one, are none', () => {
    const program = withDeviceRules({ allow: [{ major: 1, minor: 2 }], deny: [] }, denyAll);
    for (const length of [0, 8, 48, 72, 80]) {
      const cut = program.subarray(0, length);
      assert.deepEqual(readDeviceRules(cut), { rules: { allow: [], deny: [] }, base: cut });
    }
    assert.deepEqual(readDeviceRules(denyAll).base, denyAll);
  });

  test('are too many when a jump does not reach over them', () => {
    const many = (count: number) => Array.from({ length: count }, (_, minor) => ({ major: 7, minor }));
    assert.throws(() => withDeviceRules({ allow: many(8_192), deny: [] }, denyAll), RangeError);
    assert.equal(readDeviceRules(withDeviceRules({ allow: many(8_000), deny: [] }, denyAll)).rules.allow.length, 8_000);
  });
});

test('a program of its own allows what its rules name', () => {
  assert.deepEqual(
    words(
      standardProgram(
        [
          { type: 'char', major: 1, minor: 3 },
          { type: 'block', onlyMake: true },
        ],
        true,
      ),
    ),
    [
      '6114000000000000', // r4 = context.access_type
      '7404000010000000', // r4 >>= 16
      '6115000000000000', // r5 = context.access_type
      '54050000ffff0000', // r5 &= 0xffff
      '6112040000000000', // r2 = context.major
      '6113080000000000', // r3 = context.minor
      '5505040002000000', // if r5 != char: next
      '5502030001000000', // if r2 != 1: next
      '5503020003000000', // if r3 != 3: next
      'b700000001000000',
      '9500000000000000',
      '5505030001000000', // if r5 != block: next
      '5504020001000000', // if r4 != mknod: next
      'b700000001000000',
      '9500000000000000',
      'b700000000000000',
      '9500000000000000',
    ],
  );
});

test('a program with calls, addresses of maps or blinded constants cannot be loaded again', () => {
  assert.equal(isPlain(denyAll), true);
  for (const other of ['8500000001000000', '1801000000000000', 'b70b000000000000', '', 'b7']) {
    assert.equal(isPlain(Buffer.from(other, 'hex')), false, other);
  }
});

describe('the rules that follow', () => {
  const [a, b, c] = [1, 2, 3].map((minor) => ({ major: 8, minor })) as [Device, Device, Device];
  type Device = { major: number; minor: number };

  test('allow exactly what is wanted, and deny what was allowed before', () => {
    assert.deepEqual(nextRules({ allow: [a, b], deny: [] }, { allow: [c, b], deny: [] }), { allow: [b, c], deny: [a] });
  });

  test('allow what was denied before and is wanted again', () => {
    assert.deepEqual(nextRules({ allow: [], deny: [a, b] }, { allow: [b], deny: [] }), { allow: [b], deny: [a] });
    assert.deepEqual(nextRules({ allow: [], deny: [] }, { allow: [a], deny: [a] }), { allow: [a], deny: [] });
  });

  test('remember the latest of what was denied', () => {
    const deny = Array.from({ length: 100 }, (_, minor) => ({ major: 9, minor }));
    const next = nextRules({ allow: [], deny }, { allow: [], deny: [a] });
    assert.deepEqual([next.deny.length, next.deny.at(-1)], [64, a]);
  });
});
