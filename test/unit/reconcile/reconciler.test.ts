import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { settle } from '../../fixtures/fake-clock.ts';
import { key, Lamps, lampOf } from './lamps.ts';

async function started(t: { after(fn: () => Promise<void>): void }, on = true): Promise<Lamps> {
  const lamps = new Lamps();
  t.after(() => lamps.loop.stop());
  lamps.apply(lampOf(on));
  await settle();
  return lamps;
}

test('a key is observed, decided on, acted for and written, and rests', async (t) => {
  const lamps = await started(t);
  assert.deepEqual(lamps.rules(), ['not-looked-at', 'to-turn']);
  assert.deepEqual(lamps.stored.get(key)?.status, { lit: true });
  assert.deepEqual(lamps.events, ['TurnedOn', 'Written']);
  assert.deepEqual(lamps.loop.decisions.last(key)?.events, ['TurnedOn', 'Written']);
  assert.equal(lamps.loop.tryOf(key).because, 'when the lamp changes');
  assert.equal(lamps.loop.tryOf(key).state, 'idle');
});

test('a look and what follows from it are one run, and the echo of the own write wakes nothing', async (t) => {
  const lamps = await started(t);
  assert.deepEqual(lamps.reconciled, ['to-turn done']);
  lamps.loop.wake(key);
  await settle();
  assert.deepEqual(lamps.reconciled, ['to-turn done', 'as-wished done']);
  assert.equal(lamps.loop.decisions.last(key)?.healthy, true);
});

test('nothing is decided before the caches have synced', async (t) => {
  const lamps = new Lamps();
  t.after(() => lamps.loop.stop());
  let synced = false;
  Object.defineProperty(lamps.overlay, 'synced', { get: () => synced });
  lamps.apply(lampOf(true));
  await lamps.clock.pass(5_000);
  assert.deepEqual(lamps.rules(), []);
  synced = true;
  await lamps.clock.pass(1_000);
  assert.equal(lamps.lit.get(key), true);
});

test('what comes while it looks is part of the second look, and no run of its own', async (t) => {
  const lamps = new Lamps();
  t.after(() => lamps.loop.stop());
  lamps.onLook = () => lamps.apply(lampOf(true, '2'));
  lamps.apply(lampOf(true, '1'));
  await settle();
  assert.deepEqual([lamps.reconciled, lamps.lit.get(key)], [['to-turn done'], true]);
});

test('the same decision at once, over and over, is slowed down', async (t) => {
  const lamps = await started(t);
  lamps.isRestless = true;
  const before = lamps.reconciled.length;
  lamps.loop.wake(key);
  await settle();
  assert.equal(lamps.reconciled.length - before, 4);
  assert.equal(lamps.loop.tryOf(key).because, 'it makes no progress');
  await lamps.clock.pass(10_000);
  assert.equal(lamps.reconciled.length - before, 14);
});

test('a key in a crash loop is tried at the longest back-off, whatever its own was', async (t) => {
  const lamps = new Lamps();
  t.after(() => lamps.loop.stop());
  lamps.refusal = 'too large';
  lamps.apply(lampOf(false));
  await lamps.clock.pass(10_000);
  assert.ok(lamps.loop.crashLoops.of(key));
  const before = lamps.reconciled.length;
  await lamps.clock.pass(600_000);
  assert.equal(lamps.reconciled.length - before, 10);
});

test('of a key that was never here nothing is kept', async (t) => {
  const lamps = new Lamps();
  t.after(() => lamps.loop.stop());
  lamps.loop.wake('default/nowhere');
  await settle();
  assert.deepEqual([lamps.reconciled, lamps.loop.decisions.keys()], [['gone done'], []]);
});

test('a key that fails the same way over and over is in crash-loop back-off: reported once, and tried on', async (t) => {
  const lamps = new Lamps();
  t.after(() => lamps.loop.stop());
  lamps.turnError = Object.assign(new Error('stuck'), { code: 'STUCK' });
  lamps.apply(lampOf(true));
  await lamps.clock.pass(600_000);
  const entry = lamps.loop.crashLoops.of(key);
  assert.deepEqual([entry?.where, entry?.problem], ['turn', 'stuck']);
  assert.deepEqual(lamps.loop.crashLoops.keys(), [key]);
  assert.deepEqual(
    lamps.events.filter((reason) => reason === 'LampStuck'),
    ['LampStuck'],
  );
  assert.ok(lamps.turns >= 3 + 600_000 / 30_000 - 2, `${lamps.turns} tries: latestMs bounds the pause`);
  assert.match(lamps.loop.tryOf(key).because, /back-off after a failure: stuck/);
  lamps.turnError = undefined;
  await lamps.clock.pass(61_000);
  assert.equal(lamps.loop.crashLoops.of(key), undefined);
});

test('another wish ends a crash loop, and so does another state of the real thing', async (t) => {
  const lamps = new Lamps();
  t.after(() => lamps.loop.stop());
  lamps.turnError = new Error('stuck');
  lamps.apply(lampOf(true));
  await lamps.clock.pass(100_000);
  assert.ok(lamps.loop.crashLoops.of(key));
  lamps.apply(lampOf(false, '5'));
  await settle();
  assert.equal(lamps.loop.crashLoops.of(key), undefined);
  lamps.apply(lampOf(true, '6'));
  await lamps.clock.pass(100_000);
  assert.ok(lamps.loop.crashLoops.of(key));
  lamps.lit.set(key, true);
  lamps.apply(lampOf(false, '7'));
  await settle();
  assert.equal(lamps.loop.crashLoops.of(key), undefined);
});

test('an API server that is away makes no crash loop; one that refuses the content does', async (t) => {
  const lamps = new Lamps();
  t.after(() => lamps.loop.stop());
  lamps.writeError = new Error('the API server is away');
  lamps.apply(lampOf(true));
  await lamps.clock.pass(300_000);
  assert.deepEqual(lamps.loop.crashLoops.keys(), []);
  assert.deepEqual(lamps.loop.failing(), [key]);
  lamps.writeError = undefined;
  lamps.refusal = 'too large';
  await lamps.clock.pass(600_000);
  assert.equal(lamps.loop.crashLoops.of(key)?.where, 'write');
  assert.deepEqual(lamps.loop.decisions.last(key)?.write, { outcome: 'failed', because: 'too large' });
});

test('a status that meets conflicts is put on the newest object, and too many of them are a failure', async (t) => {
  const lamps = new Lamps();
  t.after(() => lamps.loop.stop());
  lamps.conflicts = 2;
  lamps.apply(lampOf(true));
  await settle();
  assert.deepEqual([lamps.stored.get(key)?.status, lamps.turns], [{ lit: true }, 1]);
  lamps.conflicts = 3;
  lamps.apply(lampOf(false, '20'));
  await settle();
  assert.match(
    lamps.loop.decisions
      .of(key)
      .map(({ next }) => next?.because ?? '')
      .join(' '),
    /the lamp was changed by others at every try/,
  );
  await lamps.clock.pass(60_000);
  assert.deepEqual(lamps.stored.get(key)?.status, { lit: false });
});

test('a write that comes too late is repeated at once on the newer object, however often the key decided the same before', async (t) => {
  const lamps = await started(t);
  for (const [index, on] of [false, true, false, true, false].entries()) {
    lamps.apply(lampOf(on, String(10 + index)));
    await settle();
  }
  assert.ok(lamps.loop.decisions.timesInARow(key) > 4);
  lamps.overtaken = 1;
  lamps.apply(lampOf(true, '20'));
  await settle();
  assert.deepEqual(lamps.stored.get(key)?.status, { lit: false });
  assert.equal(lamps.loop.tryOf(key).state, 'idle');
});

test('writes that come too late, without a newer object, are slowed down', async (t) => {
  const lamps = await started(t);
  lamps.isStale = true;
  const before = lamps.reconciled.length;
  lamps.loop.wake(key);
  await settle();
  assert.equal(lamps.reconciled.length - before, 5);
  await lamps.clock.pass(10_000);
  assert.equal(lamps.reconciled.length - before, 15);
});

test('others who write without end make no hot loop', async (t) => {
  const lamps = await started(t);
  lamps.overtaken = Number.POSITIVE_INFINITY;
  const before = lamps.reconciled.length;
  lamps.apply(lampOf(false, '10'));
  await settle();
  assert.ok(lamps.reconciled.length - before <= 10, `${lamps.reconciled.length - before} runs at once`);
  await lamps.clock.pass(60_000);
  assert.ok(lamps.reconciled.length - before <= 90, `${lamps.reconciled.length - before} runs within a minute`);
  lamps.overtaken = 0;
  await lamps.clock.pass(1_000);
  assert.deepEqual(lamps.stored.get(key)?.status, { lit: lamps.stored.get(key)?.spec.on });
});

test('without a pause and without a run too many the status follows what others write, collisions and late watches included', async () => {
  const changes = fc.array(fc.record({ quiet: fc.nat(5), overtaken: fc.nat(7), isWatchLate: fc.boolean() }), {
    minLength: 1,
    maxLength: 6,
  });
  await fc.assert(
    fc.asyncProperty(changes, async (list) => {
      const lamps = new Lamps();
      let foreign = 1;
      const change = async () => {
        foreign++;
        const { spec, metadata } = lamps.stored.get(key) ?? lampOf(true, '0');
        lamps.apply(lampOf(!spec.on, String(Number(metadata.resourceVersion) + 1)));
        await settle();
      };
      try {
        lamps.apply(lampOf(true));
        await settle();
        for (const { quiet, overtaken, isWatchLate } of list) {
          for (let time = 0; time < quiet; time++) await change();
          lamps.overtaken = overtaken;
          foreign += overtaken;
          const waking = change();
          lamps.isWatchHeld = isWatchLate;
          await waking;
          lamps.catchUp();
          await settle();
          const { spec, status } = lamps.stored.get(key) ?? {};
          assert.deepEqual(status, { lit: spec?.on });
          lamps.overtaken = 0;
        }
        assert.ok(lamps.reconciled.length <= foreign + list.length, `${lamps.reconciled.length} runs for ${foreign}`);
      } finally {
        await lamps.loop.stop();
      }
    }),
    { numRuns: 60 },
  );
});

test('a reconcile that throws is recorded as a fault of the program, and costs its own key only', async (t) => {
  const lamps = await started(t);
  lamps.bug = new TypeError('a bug');
  lamps.loop.wake(key);
  await lamps.clock.pass(100_000);
  const last = lamps.loop.decisions.last(key);
  assert.deepEqual([last?.rule, last?.problem], ['pass-failed', 'a bug']);
  lamps.bug = undefined;
  lamps.apply(lampOf(true), 'default/other');
  await settle();
  assert.equal(lamps.lit.get('default/other'), true);
});

test('records are counted with what came of their decisions, also those of faults', async (t) => {
  const lamps = await started(t);
  const really = () => lamps.loop.decisions.of(key).reduce((sum, record) => sum + JSON.stringify(record).length, 0);
  assert.equal(lamps.loop.decisions.size.bytes, really());
  lamps.bug = new TypeError('a bug');
  lamps.loop.wake(key);
  await lamps.clock.pass(100_000);
  assert.equal(lamps.loop.decisions.size.bytes, really());
});

test('of a key that is gone only the decisions are kept, as gone', async (t) => {
  const lamps = await started(t);
  lamps.apply(undefined);
  await settle();
  assert.ok(lamps.loop.decisions.goneAt(key));
  assert.deepEqual(lamps.loop.decisions.size, { keys: 0, gone: 1, records: 3, bytes: lamps.loop.decisions.size.bytes });
});

test('a loop that is stopped starts nothing and leaves no timer', async (t) => {
  const lamps = await started(t);
  lamps.loop.wakeAfter(key, 1_000);
  await lamps.loop.stop();
  lamps.loop.wake(key);
  await lamps.clock.pass(10_000);
  assert.deepEqual([lamps.reconciled.length, lamps.clock.timers], [1, 0]);
});
