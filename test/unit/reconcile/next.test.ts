import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nextOf, type Requeue, type StepOutcome, type Written } from '../../../src/reconcile/index.ts';

const words = { object: 'the lamp', onChange: 'when the lamp changes' };
const error = { severity: 'retry', code: 'STUCK', message: 'it is stuck' } as const;
const failed: StepOutcome = { step: 'turn', outcome: { kind: 'failed', error }, tookMs: 1 };
const waits: StepOutcome = { step: 'turn', outcome: { kind: 'wait', afterMs: 7, reason: 'it is hot' }, tookMs: 1 };
const away: Written = { kind: 'failed', error: new Error('the API server is away') };
const refused: Written = { kind: 'refused', error: new Error('too large') };
const fine: Written = { kind: 'unchanged' };

const next = (written: Written, decision: Requeue = {}, outcomes: readonly StepOutcome[] = []) => {
  const { result, because, afterMs, latestMs } = nextOf(decision, outcomes, written, words);
  return [result.kind, afterMs ?? latestMs, because];
};

const failure = 'back-off after a failure:';
const rows: readonly (readonly [what: string, given: ReturnType<typeof next>, expected: readonly unknown[]])[] = [
  ['nothing to do', next(fine), ['done', undefined, words.onChange]],
  [
    'no object',
    next({ kind: 'no-object' }, { requeueAfterMs: 9 }),
    ['done', 9, `at the latest; sooner ${words.onChange}`],
  ],
  ['again at once', next(fine, { requeueAfterMs: 0 }), ['done', 0, 'what follows is decided at once']],
  [
    'outdated, even after a failed step',
    next({ kind: 'outdated' }, {}, [failed]),
    ['done', 0, 'the lamp changed while it was written'],
  ],
  ['gone', next({ kind: 'gone' }), ['done', 1_000, 'the lamp is no more; its watch will say so']],
  ['a failed step', next(fine, { latestMs: 5 }, [failed]), ['retry', 5, `${failure} it is stuck`]],
  [
    'no answer to a write: soon again whatever the back-off',
    next(away),
    ['retry', 15_000, `${failure} the API server is away`],
  ],
  [
    'no answer to a write, and the decision is in a hurry',
    next(away, { latestMs: 5 }),
    ['retry', 5, `${failure} the API server is away`],
  ],
  [
    'no answer to a write, and the decision is in none',
    next(away, { latestMs: 60_000 }),
    ['retry', 15_000, `${failure} the API server is away`],
  ],
  [
    'conflicts',
    next({ kind: 'conflicts' }),
    ['retry', 15_000, `${failure} the lamp was changed by others at every try to write its status`],
  ],
  ['a refused write has the whole back-off', next(refused), ['retry', undefined, `${failure} too large`]],
  ['a step that waits', next(fine, { requeueAfterMs: 1 }, [waits]), ['done', 7, 'it is hot']],
  [
    'a status that is unfinished',
    next({ kind: 'written', requeueAfterMs: 3 }, { requeueAfterMs: 9 }),
    ['done', 3, 'part of the status is not finished or was not taken'],
  ],
  [
    'a status that is unfinished for longer',
    next({ kind: 'written', requeueAfterMs: 30 }, { requeueAfterMs: 9 }),
    ['done', 9, `at the latest; sooner ${words.onChange}`],
  ],
];

for (const [what, given, expected] of rows) {
  test(`when a key runs next: ${what}`, () => assert.deepEqual(given, expected));
}
