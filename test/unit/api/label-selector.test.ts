import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type LabelOperator,
  type LabelRequirement,
  labelMatcher,
  labelQuery,
  parseLabelQuery,
  readLabelSelector,
  selects,
} from '../../../src/api/index.ts';

test('the object form selects as Kubernetes does', () => {
  const labels = { zone: 'a', disk: 'ssd' };
  assert.equal(selects({}, labels), true);
  assert.equal(selects({ matchLabels: { zone: 'a' } }, labels), true);
  assert.equal(selects({ matchLabels: { zone: 'a', other: '' } }, labels), false);
  const one = (key: string, operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist', values?: string[]) =>
    selects({ matchExpressions: [{ key, operator, ...(values && { values }) }] }, labels);
  assert.deepEqual(
    [one('zone', 'In', ['a', 'b']), one('zone', 'In', ['b']), one('x', 'In', [''])],
    [true, false, false],
  );
  assert.deepEqual([one('zone', 'NotIn', ['a']), one('x', 'NotIn', ['a'])], [false, true]);
  assert.deepEqual([one('zone', 'Exists'), one('toString', 'Exists'), one('x', 'DoesNotExist')], [true, false, true]);
});

test('a requirement on a number holds for integers only, and one that is not known for nothing', () => {
  const holds = (operator: string, value: string | undefined, than: string) =>
    labelMatcher([{ key: 'n', operator: operator as LabelOperator, values: [than] }])(
      value === undefined ? {} : { n: value },
    );
  assert.deepEqual([holds('Gt', '10', '3'), holds('Gt', '3', '3'), holds('Gt', '-1', '3')], [true, false, false]);
  assert.deepEqual([holds('Lt', '2', '3'), holds('Lt', '', '3'), holds('Lt', '2.5', '3')], [true, false, false]);
  assert.deepEqual(
    [holds('Lt', undefined, '3'), holds('Lt', '2', 'many'), holds('Near', '3', '3')],
    Array(3).fill(false),
  );
});

test('the query form names each requirement', () => {
  const query = labelQuery(
    { key: 'a', operator: 'In', values: ['x', 'y'] },
    { key: 'b', operator: 'NotIn', values: ['z'] },
    { key: 'c', operator: 'Exists' },
    { key: 'd', operator: 'DoesNotExist' },
    { key: 'e', operator: 'Gt', values: ['1'] },
    { key: 'f', operator: 'Lt', values: ['-1'] },
  );
  assert.equal(query, 'a in (x,y),b notin (z),c,!d,e>1,f<-1');
});

const word = fc.stringMatching(/^[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,5}[a-zA-Z0-9])?$/);
const key = fc.oneof(
  word,
  word.map((each) => `kubevirt.io/${each}`),
);
const requirement: fc.Arbitrary<LabelRequirement> = fc.oneof(
  fc
    .tuple(
      key,
      fc.constantFrom('In' as const, 'NotIn' as const),
      fc.array(fc.oneof(word, fc.constant('')), { minLength: 1 }),
    )
    .map(([name, operator, values]) => ({ key: name, operator, values })),
  fc
    .tuple(key, fc.constantFrom('Exists' as const, 'DoesNotExist' as const))
    .map(([name, operator]) => ({ key: name, operator })),
  fc
    .tuple(key, fc.constantFrom('Gt' as const, 'Lt' as const), fc.integer())
    .map(([name, operator, number]) => ({ key: name, operator, values: [String(number)] })),
);

test('what is written as a query is read as the same requirements', () => {
  fc.assert(
    fc.property(fc.array(requirement, { maxLength: 4 }), (requirements) => {
      assert.deepEqual(parseLabelQuery(labelQuery(...requirements)), requirements);
    }),
  );
});

test('a query that is none says which part of it', () => {
  assert.throws(() => parseLabelQuery('a=b,c in (d'), {
    code: 'INVALID_LABEL_SELECTOR',
    message: 'unable to parse label selector "a=b,c in (d": parentheses do not match',
  });
});

test('an object is a selector only as a whole', () => {
  const expressions = (...matchExpressions: unknown[]) => readLabelSelector({ matchExpressions });
  assert.deepEqual(readLabelSelector({}), {});
  assert.deepEqual(readLabelSelector({ matchLabels: { a: 'b' } }), { matchLabels: { a: 'b' } });
  assert.deepEqual(expressions({ key: 'a', operator: 'Exists' }), {
    matchExpressions: [{ key: 'a', operator: 'Exists' }],
  });
  const refused = [
    { key: 'a', operator: 'In' },
    { key: 'a', operator: 'In', values: [1] },
    { key: 'a', operator: 'Exists', values: ['b'] },
    { key: 'a', operator: 'Gt', values: ['1'] },
    { operator: 'Exists' },
  ];
  for (const each of refused) assert.equal(expressions({ key: 'b', operator: 'Exists' }, each), undefined);
  assert.equal(readLabelSelector({ matchLabels: { a: 1 } }), undefined);
  assert.equal(readLabelSelector([]), undefined);
});
