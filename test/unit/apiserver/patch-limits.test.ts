import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { ApiError } from '../../../src/apiserver/errors.ts';
import { applyJsonPatch, CompareBudget } from '../../../src/apiserver/patch/json-patch.ts';
import { applyStrategicPatch } from '../../../src/apiserver/patch/strategic.ts';
import { podStrategic } from '../../../src/apiserver/patch/strategic-schema.ts';
import { sameJson } from '../../../src/base/index.ts';
import { spentMs } from '../../fixtures/spent-ms.ts';

/** Far above what linear work takes on a slow machine, far below what quadratic work takes on a fast one; of processors, which others may keep. */
const generousMs = 5_000;

function refusal(work: () => unknown): ApiError {
  const startMs = spentMs();
  let caught: unknown;
  try {
    work();
  } catch (error) {
    caught = error;
  }
  assert.ok(spentMs() - startMs < generousMs, `took ${Math.round(spentMs() - startMs)} ms`);
  assert.ok(caught instanceof ApiError, String(caught));
  return caught;
}

function quickly<T>(work: () => T): T {
  const startMs = spentMs();
  const value = work();
  assert.ok(spentMs() - startMs < generousMs, `took ${Math.round(spentMs() - startMs)} ms`);
  return value;
}

const list = <T>(length: number, of: (index: number) => T): T[] => Array.from({ length }, (_, index) => of(index));

describe('a hostile JSON patch', () => {
  test('copies that double a value are refused once they have added 3 MiB', () => {
    const target = { data: { a: { text: 'x'.repeat(100) } } };
    // Fewer than the attack's thirty: without the limit this process would end, and no test could fail.
    const patch = list(20, (index) => ({ op: 'copy', from: '/data/a', path: `/data/a/${index}` }));
    const error = refusal(() => applyJsonPatch(target, patch));
    assert.equal(error.code, 'INVALID');
    assert.match(error.message, /accumulated size increase of copy is \d+, exceeding the limit 3145728/);
  });

  test('copies of one value side by side count together', () => {
    const target = { data: { a: 'x'.repeat(1_000_000) } };
    const copies = (count: number) =>
      list(count, (index) => ({ op: 'copy', from: '/data/a', path: `/data/b${index}` }));
    assert.equal(Object.keys((applyJsonPatch(target, copies(3)) as typeof target).data).length, 4);
    assert.match(refusal(() => applyJsonPatch(target, copies(4))).message, /exceeding the limit/);
  });

  test('a result that is nested too deep is refused, however small', () => {
    const target = { a: {} };
    const patch = list(12, () => ({ op: 'copy', from: '/a', path: '/a/a' }));
    const deep = list(300, (index) => ({ op: 'add', path: `/a${'/a'.repeat(index)}`, value: {} }));
    assert.equal(refusal(() => applyJsonPatch(target, deep)).code, 'INVALID');
    const nested = patch.map((operation, index) => ({ ...operation, path: `/a${'/a'.repeat(2 ** index)}` }));
    assert.match(refusal(() => applyJsonPatch(target, nested)).message, /deeper than 256/);
  });

  test('a test of two long lists takes no longer than reading them', () => {
    const target = { list: list(100_000, (index) => index) };
    const patch = [{ op: 'test', path: '/list', value: list(100_000, (index) => index + 1) }];
    assert.match(refusal(() => applyJsonPatch(target, patch)).message, /test of "\/list" failed/);
    assert.deepEqual(
      applyJsonPatch({ list: [1, { a: 2 }] }, [{ op: 'test', path: '', value: { list: [1, { a: 2 }] } }]),
      {
        list: [1, { a: 2 }],
      },
    );
  });

  test('ten thousand tests of a large object are refused before they have taken long', () => {
    const target = { data: Object.fromEntries(list(50_000, (index) => [`k${index}`, index])) };
    const patch = [
      ...list(5_000, () => ({ op: 'test', path: '/data/k0', value: 0 })),
      ...list(5_000, () => ({ op: 'test', path: '/data', value: target.data })),
    ];
    assert.match(refusal(() => applyJsonPatch(target, structuredClone(patch))).message, /may look at 2000000 values/);
  });

  test('what it says does not repeat a long path', () => {
    const path = `/${'x'.repeat(1_000_000)}`;
    for (const operation of [
      { op: 'remove', path },
      { op: 'test', path, value: 1 },
      { op: 'copy', from: path, path: '/a' },
      { op: 'move', from: path, path: '/a' },
      { op: 'add', path: `${path}/b/c`, value: 1 },
    ]) {
      const { message } = refusal(() => applyJsonPatch({}, [operation]));
      assert.ok(message.length < 1_000, `${operation.op}: ${message.length} characters`);
    }
  });
});

test('values are compared within a budget as they are without one', () => {
  const value = fc.jsonValue({ maxDepth: 3 });
  fc.assert(
    fc.property(value, value, (a, b) => {
      assert.equal(new CompareBudget(100_000).isSame(a, b), sameJson(a, b));
      assert.ok(new CompareBudget(100_000).isSame(a, structuredClone(a)));
    }),
  );
});

describe('a hostile strategic merge patch', () => {
  const many = 60_000;

  test('many elements of a list with a key take no longer than reading them', () => {
    const conditions = (status: string) => list(many, (index) => ({ type: `t${index}`, status }));
    const target = { status: { conditions: conditions('False') } };
    const made = quickly(() =>
      applyStrategicPatch(target, { status: { conditions: conditions('True') } }, podStrategic),
    ) as typeof target;
    assert.equal(made.status.conditions.length, many);
    assert.equal(made.status.conditions.at(-1)?.status, 'True');
  });

  test('so do many plain values, their order, and those to delete', () => {
    const names = (prefix: string) => list(many, (index) => `${prefix}${index}`);
    const patch = {
      metadata: {
        finalizers: [...names('b'), ...names('b')],
        '$deleteFromPrimitiveList/finalizers': names('a').slice(1),
        '$setElementOrder/finalizers': names('b').reverse(),
      },
    };
    const target = { metadata: { finalizers: names('a') } };
    const made = quickly(() => applyStrategicPatch(target, patch, podStrategic)) as typeof target;
    assert.deepEqual(made.metadata.finalizers, ['a0', ...names('b').reverse()]);
  });

  test('so do many elements to delete, and many keys to retain', () => {
    const elements = (more: object) => list(many, (index) => ({ type: `t${index}`, ...more }));
    const target = { status: { conditions: elements({ status: 'True' }) } };
    const made = quickly(() =>
      applyStrategicPatch(target, { status: { conditions: elements({ $patch: 'delete' }) } }, podStrategic),
    ) as typeof target;
    assert.deepEqual(made.status.conditions, []);
    const keys = list(many, (index) => `k${index}`);
    const data = Object.fromEntries(keys.map((key) => [key, 1]));
    const kept = quickly(() => applyStrategicPatch({ data }, { data: { $retainKeys: keys } }, podStrategic));
    assert.deepEqual(kept, { data });
  });

  test('an element is named by a plain value', () => {
    const patch = { status: { conditions: [{ type: { a: 1 } }] } };
    assert.equal(refusal(() => applyStrategicPatch({}, patch, podStrategic)).code, 'BAD_REQUEST');
  });
});
