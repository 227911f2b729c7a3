import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Logger, silentLogger } from '../../../src/base/index.ts';
import { type KeyResult, SingleReconciler } from '../../../src/reconcile/index.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';

function service(results: readonly (KeyResult | Error)[]) {
  const clock = new FakeClock();
  const runs: number[] = [];
  const logged: string[] = [];
  const log: Logger = Object.assign(Object.create(silentLogger), {
    warn: ({ reason }: { reason: string }) => logged.push(`warn ${reason}`),
    debug: ({ reason }: { reason: string }) => logged.push(`debug ${reason}`),
  });
  const left = [...results];
  const reconciler = new SingleReconciler(
    { name: 'node1', backoff: { baseMs: 10, maxMs: 40 }, failedMessage: 'it could not be brought about' },
    {
      reconcile: async () => {
        runs.push(clock.monotonicMs() - 1_000_000);
        const next = left.shift() ?? { kind: 'done' };
        if (next instanceof Error) throw next;
        return next;
      },
      clock,
      log,
    },
  );
  return { clock, runs, logged, reconciler };
}

test('it reconciles when woken, after the time it asked for, and not without either', async () => {
  const { clock, runs, reconciler } = service([{ kind: 'done', requeueAfterMs: 50 }]);
  reconciler.wake();
  await settle();
  assert.deepEqual(runs, [0]);
  await clock.pass(1_000);
  assert.deepEqual(runs, [0, 50]);
  reconciler.wakeAfter(20);
  reconciler.wakeAfter(500);
  await clock.pass(1_000);
  assert.deepEqual(runs, [0, 50, 1_020]);
  await reconciler.stop();
});

test('a failure is tried again after back-off, warned of once, and is over with the first success', async () => {
  const failure = () => new Error('no file');
  const { clock, runs, logged, reconciler } = service([failure(), failure(), new Error('no disk')]);
  reconciler.wake();
  await settle();
  assert.deepEqual([reconciler.problem, reconciler.isFailing], ['no file', true]);
  await clock.pass(10 + 20 + 40);
  assert.deepEqual(runs, [0, 10, 30, 70]);
  assert.deepEqual(logged, ['warn no file', 'debug no file', 'warn no disk']);
  assert.deepEqual([reconciler.problem, reconciler.isFailing], [undefined, false]);
  await reconciler.stop();
});

test('it ends what it follows, and nothing runs afterwards', async () => {
  const { clock, runs, reconciler } = service([]);
  let ended = 0;
  reconciler.follow(
    () => ended++,
    () => ended++,
  );
  reconciler.wakeAfter(5);
  await reconciler.stop();
  await reconciler.stop();
  reconciler.wake();
  await clock.pass(100);
  assert.deepEqual([ended, runs, clock.timers], [2, [], 0]);
});
