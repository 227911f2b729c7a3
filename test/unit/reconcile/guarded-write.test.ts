import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { guardedPatch, type WriteAttempt, writeGuarded } from '../../../src/reconcile/index.ts';

interface Thing {
  readonly version: number;
  readonly phase: string;
}

type Tried = WriteAttempt<Thing, string, string>;

/** `answers`: to one attempt after the other; `newest`: what the API server has after each conflict. */
async function write(answers: readonly Tried[], newest: readonly (Thing | undefined)[] = []) {
  const bases: number[] = [];
  const saw: number[] = [];
  const [left, states] = [[...answers], [...newest]];
  const result = await writeGuarded<Thing, string, string>(
    { version: 1, phase: 'up' },
    {
      attempt: async ({ version }) => {
        bases.push(version);
        return left.shift() ?? { kind: 'conflict' };
      },
      newest: async () => states.shift(),
      stillHolds: (observed, now) => observed.phase === now.phase,
      saw: ({ version }) => saw.push(version),
      tries: 3,
    },
  );
  return { result, bases, saw };
}

const written: Tried = { kind: 'written', object: { version: 9, phase: 'up' }, note: 'a' };
const conflict: Tried = { kind: 'conflict' };
const newer = (version: number, phase = 'up'): Thing => ({ version, phase });

test('what is written or unchanged says so with its note, and the answer is shown to the overlay', async () => {
  assert.deepEqual(await write([written]), { result: { kind: 'written', note: 'a' }, bases: [1], saw: [9] });
  const unchanged: Tried = { kind: 'unchanged', note: 'b' };
  assert.deepEqual(await write([unchanged]), { result: { kind: 'unchanged', note: 'b' }, bases: [1], saw: [] });
});

test('after a conflict the same is put on the newest object', async () => {
  const { result, bases, saw } = await write([conflict, conflict, written], [newer(4), newer(6)]);
  assert.deepEqual([result.kind, bases, saw], ['written', [1, 4, 6], [4, 6, 9]]);
});

test('a decision that does not hold on the newest object is not written, but the object is known', async () => {
  const { result, bases, saw } = await write([conflict], [newer(4, 'down')]);
  assert.deepEqual([result.kind, bases, saw], ['outdated', [1], [4]]);
});

test('an object that is no more is gone, whether the write or the look after a conflict finds that out', async () => {
  assert.equal((await write([{ kind: 'gone' }])).result.kind, 'gone');
  assert.equal((await write([conflict], [undefined])).result.kind, 'gone');
});

test('others who write at every try are not outrun for ever', async () => {
  const { result, bases } = await write([], [newer(2), newer(3), newer(4)]);
  assert.deepEqual([result.kind, bases.length], ['conflicts', 3]);
});

test('what is refused is not sent again', async () => {
  const { result, bases } = await write([{ kind: 'refused', refusal: 'too large' }]);
  assert.deepEqual([result, bases], [{ kind: 'refused', refusal: 'too large' }, [1]]);
});

const guard = {
  fields: ['/status/phase', '/status/ip', '/metadata/labels'],
  always: ['/status/phase'],
  isSame: isDeepStrictEqual,
};

test('a guarded patch tests what it changes and what it always depends on', () => {
  const old = { metadata: { labels: { a: '1' } }, status: { phase: 'Running' } };
  const wanted = { metadata: {}, status: { phase: 'Running', ip: '10.0.0.1', secret: 'x' } };
  assert.deepEqual(guardedPatch(old, wanted, guard), [
    { op: 'test', path: '/status/phase', value: 'Running' },
    { op: 'test', path: '/metadata/labels', value: { a: '1' } },
    { op: 'add', path: '/status/ip', value: '10.0.0.1' },
    { op: 'remove', path: '/metadata/labels' },
  ]);
});

test('a guarded patch of nothing is empty, also where there is no status at all', () => {
  assert.deepEqual(guardedPatch({}, {}, guard), []);
  assert.deepEqual(guardedPatch({}, { status: { phase: 'Failed' } }, guard), [
    { op: 'add', path: '/status/phase', value: 'Failed' },
  ]);
});
