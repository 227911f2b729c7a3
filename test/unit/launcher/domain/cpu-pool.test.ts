import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CpuPool, type HostCell } from '../../../../src/launcher/domain/cpu-pool.ts';
import { twoCells } from './cases.ts';

const all = [0, 1, 2, 3, 4, 5, 6, 7];
const pool = (cpus: readonly number[], threads: number, topology: readonly HostCell[] = twoCells) =>
  new CpuPool({ cpus, topology, threads });
const within = { crossesCells: false };
const anywhere = { crossesCells: true };

test('threads of a core of the guest are siblings on the host', () => {
  assert.deepEqual(pool(all, 2).takeCores(3, within), [0, 4, 1, 5, 2, 6]);
});

test('a core of the host serves several small cores of the guest', () => {
  assert.deepEqual(pool(all, 1).takeCores(3, within), [0, 4, 1]);
});

test('without siblings left a core of the guest gets CPUs of one cell', () => {
  assert.deepEqual(pool([0, 1, 2, 6], 2).takeCores(2, within), [2, 6, 0, 1]);
});

test('a core of the guest crosses cells only where that is allowed', () => {
  assert.equal(pool([0, 2], 2).takeCores(1, within), undefined);
  assert.deepEqual(pool([0, 2], 2).takeCores(1, anywhere), [0, 2]);
});

test('too few CPUs are too few', () => {
  assert.equal(pool([0, 1, 2], 2).takeCores(2, anywhere), undefined);
  assert.equal(pool([], 1).takeCores(1, anywhere), undefined);
  assert.equal(pool([], 1).takeThread(), undefined);
});

test('a single thread is taken from a core that is broken already', () => {
  const some = pool([0, 4, 1], 2);
  assert.deepEqual([some.takeThread(), some.takeThread(), some.takeThread()], [1, 0, 4]);
});

test('what remains of a large core after a single thread can still be a core', () => {
  const wide: HostCell = { id: 0, cpus: [{ id: 0, siblings: [0, 1, 2, 3] }] };
  const some = pool([0, 1, 2, 3], 2, [wide]);
  assert.equal(some.takeThread(), 0);
  assert.deepEqual(some.takeCores(1, within), [1, 2]);
});

test('CPUs that the topology does not know are cores of their own', () => {
  assert.deepEqual(pool([8, 9], 1, []).takeCores(2, within), [8, 9]);
  assert.deepEqual(pool([0, 4, 9], 1).takeCores(3, within), [0, 4, 9]);
});

test('no CPU is given twice, none that the pod has not, and all of them can be used', () => {
  const sets = fc.uniqueArray(fc.nat(9), { minLength: 1, maxLength: 10 });
  fc.assert(
    fc.property(sets, fc.integer({ min: 1, max: 4 }), fc.nat(4), (cpus, threads, cores) => {
      const some = pool(cpus, threads);
      const fits = cores * threads <= cpus.length;
      const taken = some.takeCores(cores, anywhere);
      assert.equal(taken !== undefined, fits);
      const rest = Array.from({ length: fits ? cpus.length - cores * threads : 0 }, () => some.takeThread());
      const given = [...(taken ?? cpus), ...rest];
      assert.deepEqual([...given].sort(), [...cpus].sort());
      assert.ok(!fits || some.takeThread() === undefined);
    }),
  );
});
