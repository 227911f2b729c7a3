import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sleep } from '../../../src/base/index.ts';
import { KeyedQueue, type KeyResult } from '../../../src/reconcile/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { FakeClock, settle } from '../../fixtures/fake-clock.ts';

const fast = { concurrency: 4, backoff: { baseMs: 1, maxMs: 4 } };

const aMoment = () => new Promise((resolve) => setImmediate(resolve));

function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

test('a key never runs twice at a time, and what is added meanwhile makes it run once more', async () => {
  const first = gate();
  const second = gate();
  let running = 0;
  let worst = 0;
  const runs: string[] = [];
  const queue = new KeyedQueue(fast, {
    async run(key): Promise<KeyResult> {
      worst = Math.max(worst, ++running);
      runs.push(key);
      if (runs.length === 1) await first.opened;
      running--;
      if (runs.length === 2) second.open();
      return { kind: 'done' };
    },
  });
  queue.add('a/b');
  queue.add('a/b');
  queue.add('a/b');
  first.open();
  await second.opened;
  await settle();
  assert.equal(queue.depth, 0, 'nothing waits that could run a third time');
  assert.equal(worst, 1);
  assert.deepEqual(runs, ['a/b', 'a/b']);
  await queue.stop();
});

test('what is added in the background waits behind all else, also behind what is added later, and is taken out of it by a wake', async () => {
  const first = gate();
  const runs: string[] = [];
  const queue = new KeyedQueue(
    { ...fast, concurrency: 1 },
    {
      async run(key): Promise<KeyResult> {
        runs.push(key);
        await first.opened;
        return { kind: 'done' };
      },
    },
  );
  queue.add('first');
  queue.inBackground(() => {
    for (const key of ['one', 'two', 'three', 'two']) queue.add(key);
  });
  assert.deepEqual([queue.depth, queue.status('three').state], [3, 'queued']);
  queue.add('news');
  queue.add('three');
  queue.inBackground(() => queue.add('news'));
  assert.deepEqual([queue.depth, queue.counts.queued], [4, 4]);
  first.open();
  await eventually(() => assert.equal(runs.length, 5));
  assert.deepEqual(runs, ['first', 'news', 'three', 'one', 'two']);
  await queue.stop();
});

test('a key in the background is taken out of it by a delay that ends sooner, one asked for before or after', async () => {
  const first = gate();
  const runs: string[] = [];
  const run = async (key: string): Promise<KeyResult> => {
    runs.push(key);
    if (key === 'first') await first.opened;
    return { kind: 'done' };
  };
  const clock = new FakeClock();
  const queue = new KeyedQueue({ ...fast, concurrency: 1 }, { run, clock });
  queue.add('first');
  queue.addAfter('before', 10);
  queue.inBackground(() => {
    for (const key of ['one', 'before', 'after']) queue.add(key);
  });
  queue.addAfter('after', 20);
  assert.deepEqual(queue.counts, { running: 1, queued: 3, waiting: 0, failing: 0 });
  clock.advance(20);
  first.open();
  await clock.pass(100);
  assert.deepEqual(runs, ['first', 'before', 'after', 'one']);
  assert.equal(clock.timers, 0, 'a delay is left of a key that has run');
  await queue.stop();
});

test('however much else there is, what waits in the background comes to its turn', async () => {
  let left = 200;
  const runs: string[] = [];
  const run = async (key: string): Promise<KeyResult> => {
    runs.push(key);
    if (key.startsWith('busy') && left-- > 0) queue.add(key);
    return { kind: 'done' };
  };
  const queue = new KeyedQueue({ ...fast, concurrency: 1 }, { run });
  queue.inBackground(() => {
    for (const key of ['one', 'two']) queue.add(key);
  });
  for (const key of ['busy/1', 'busy/2']) queue.add(key);
  await eventually(() => assert.equal(runs.length, 204));
  const [one, two] = ['one', 'two'].map((key) => runs.indexOf(key));
  assert.ok(one !== undefined && two !== undefined && one < two && two < 50, `at ${one} and ${two}`);
  await queue.stop();
});

test('runs in the background that wait for nothing let the event loop go on between them, and what it brings is taken first', async () => {
  const runs: string[] = [];
  const run = async (key: string): Promise<KeyResult> => {
    runs.push(key);
    return { kind: 'done' };
  };
  const queue = new KeyedQueue({ ...fast, concurrency: 2 }, { run });
  const keys = Array.from({ length: 100 }, (_, number) => `seen/${number}`);
  queue.inBackground(() => {
    for (const key of keys) queue.add(key);
    assert.deepEqual(runs, [], 'one runs while others are still added');
  });
  setTimeout(() => queue.add('news'), 5);
  await eventually(() => assert.equal(runs.length, 101));
  assert.ok(runs.indexOf('news') < 100, 'the news came after all that was there');
  await queue.stop();
});

test('work in the background that throws leaves what comes after it in the foreground', async () => {
  const first = gate();
  const runs: string[] = [];
  const run = async (key: string): Promise<KeyResult> => {
    runs.push(key);
    await first.opened;
    return { kind: 'done' };
  };
  const queue = new KeyedQueue({ ...fast, concurrency: 1 }, { run });
  queue.add('first');
  const broken = () => {
    queue.add('later');
    throw new Error('broken');
  };
  assert.throws(() => queue.inBackground(broken), /broken/);
  queue.add('news');
  first.open();
  await eventually(() => assert.deepEqual(runs, ['first', 'news', 'later']));
  await queue.stop();
});

test('different keys run side by side up to the limit', async () => {
  const all = gate();
  let running = 0;
  let worst = 0;
  const queue = new KeyedQueue(
    { ...fast, concurrency: 2 },
    {
      async run(): Promise<KeyResult> {
        worst = Math.max(worst, ++running);
        await all.opened;
        running--;
        return { kind: 'done' };
      },
    },
  );
  for (const key of ['a/1', 'a/2', 'a/3']) queue.add(key);
  await eventually(() => assert.equal(running, 2));
  assert.equal(queue.depth, 1);
  all.open();
  await queue.stop();
  assert.equal(worst, 2);
});

test('a failing key backs off alone: another key is not delayed by it', async () => {
  const delays: number[] = [];
  const ok = gate();
  const queue = new KeyedQueue(
    { concurrency: 4, backoff: { baseMs: 2, maxMs: 8 } },
    {
      async run(key): Promise<KeyResult> {
        if (key === 'a/bad' && delays.length < 3) throw new Error('no');
        if (key === 'a/bad') ok.open();
        return { kind: 'done' };
      },
      onError: (_key, _error, retryInMs) => delays.push(retryInMs),
    },
  );
  queue.add('a/bad');
  await ok.opened;
  assert.deepEqual(delays, [2, 4, 8]);
  await queue.stop();
});

test('a delayed add keeps the earliest time', async () => {
  const ran = gate();
  const start = performance.now();
  const queue = new KeyedQueue(fast, {
    async run(): Promise<KeyResult> {
      ran.open();
      return { kind: 'done' };
    },
  });
  queue.addAfter('a/b', 20);
  queue.addAfter('a/b', 60_000);
  await ran.opened;
  assert.ok(performance.now() - start < 30_000);
  await queue.stop();
});

test('nothing runs after stop, and stop waits for what runs', async () => {
  let ended = false;
  const queue = new KeyedQueue(fast, {
    async run(_key, signal): Promise<KeyResult> {
      await sleep(10_000, signal).catch(() => undefined);
      ended = true;
      return { kind: 'done', requeueAfterMs: 1 };
    },
  });
  queue.add('a/b');
  await queue.stop();
  assert.equal(ended, true);
  queue.add('a/b');
  assert.equal(queue.depth, 0);
});

test('a key that runs again without delay still never runs twice at a time', async () => {
  let running = 0;
  let worst = 0;
  let runs = 0;
  const done = gate();
  const queue = new KeyedQueue(fast, {
    async run(key): Promise<KeyResult> {
      worst = Math.max(worst, ++running);
      runs++;
      await aMoment();
      queue.add(key);
      await aMoment();
      running--;
      if (runs >= 6) done.open();
      return runs < 3 ? { kind: 'done', requeueAfterMs: 0 } : { kind: 'done' };
    },
  });
  queue.add('a/b');
  await done.opened;
  await queue.stop();
  assert.equal(worst, 1);
});

test('a queue tells what each key does, and a retry can ask for more than its back-off', async () => {
  const clock = new FakeClock();
  const opened = gate();
  const queue = new KeyedQueue(
    { concurrency: 2, backoff: { baseMs: 20, maxMs: 1_000 } },
    {
      clock,
      async run(key): Promise<KeyResult> {
        if (key === 'a/long') await opened.opened;
        return key === 'a/bad' ? { kind: 'retry', atLeastMs: 60_000 } : { kind: 'done' };
      },
    },
  );
  queue.add('a/long');
  queue.add('a/bad');
  await settle();
  assert.deepEqual(queue.status('a/bad'), { state: 'waiting', dueInMs: 60_000, failures: 1 });
  assert.deepEqual(queue.status('a/long'), { state: 'running', forMs: 0, failures: 0 });
  clock.advance(1_500);
  assert.deepEqual(queue.runningFor(1_500), ['a/long']);
  assert.deepEqual(queue.runningFor(1_501), []);
  assert.deepEqual(queue.status('a/none'), { state: 'idle', failures: 0 });
  assert.deepEqual(queue.counts, { running: 1, queued: 0, waiting: 1, failing: 1 });
  assert.deepEqual(queue.failing(), ['a/bad']);
  opened.open();
  await queue.stop();
});

test('a run that hangs gives up its worker slot after a while, keeps its key to itself, and is waited for at the end', async () => {
  const clock = new FakeClock();
  const hung = gate();
  const runs: string[] = [];
  const run = async (key: string): Promise<KeyResult> => {
    runs.push(key);
    if (key.startsWith('hung')) await hung.opened;
    return { kind: 'done' };
  };
  const queue = new KeyedQueue({ concurrency: 2, slotMs: 1_000 }, { run, clock });
  for (const key of ['hung-1', 'hung-2', 'good-1', 'good-2', 'good-3']) queue.add(key);
  queue.add('hung-1');
  await clock.pass(999);
  assert.deepEqual(runs, ['hung-1', 'hung-2']);
  await clock.pass(1);
  assert.deepEqual(runs, ['hung-1', 'hung-2', 'good-1', 'good-2', 'good-3']);
  assert.equal(clock.timers, 0);
  let isStopped = false;
  const stopping = queue.stop().then(() => {
    isStopped = true;
  });
  await settle();
  assert.equal(isStopped, false);
  hung.open();
  await stopping;
});

test('each run has a signal of its own, which the end of the queue aborts with its reason', async () => {
  const signals: AbortSignal[] = [];
  const begun = gate();
  const queue = new KeyedQueue(fast, {
    async run(key, signal): Promise<KeyResult> {
      signals.push(signal);
      if (key === 'a/last') {
        begun.open();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      }
      return { kind: 'done' };
    },
  });
  queue.add('a/first');
  queue.add('a/last');
  await begun.opened;
  await queue.stop();
  const [first, last] = signals;
  assert.equal(signals.length, 2);
  assert.notEqual(first, last);
  assert.equal(first?.aborted, false, 'its run was over before');
  assert.ok(last?.reason instanceof Error);
});

test('a run that looks anew does not run again for what was added before, only for what comes after', async () => {
  const runs: string[] = [];
  const queue: KeyedQueue = new KeyedQueue(fast, {
    async run(key): Promise<KeyResult> {
      runs.push(key);
      queue.add(key);
      queue.absorb(key);
      queue.absorb('nobody');
      if (runs.length === 1) queue.add(key);
      return { kind: 'done' };
    },
  });
  queue.add('a/b');
  await settle();
  assert.deepEqual(runs, ['a/b', 'a/b']);
  await queue.stop();
});

test('an observer hears what is added once, how long it waited and ran, and how that ended', async () => {
  const clock = new FakeClock();
  const reported: string[] = [];
  const release = gate();
  let runs = 0;
  const queue = new KeyedQueue(
    { concurrency: 1, backoff: { baseMs: 1, maxMs: 1 } },
    {
      clock,
      async run(): Promise<KeyResult> {
        if (++runs === 1) await release.opened;
        return runs === 2 ? { kind: 'retry' } : { kind: 'done' };
      },
      observer: {
        added: () => reported.push('added'),
        started: (waitedMs) => reported.push(`started after ${waitedMs}`),
        ended: (tookMs, kind) => reported.push(`${kind} after ${tookMs}`),
      },
    },
  );
  queue.add('a/first');
  for (let time = 0; time < 3; time++) queue.add('a/second');
  clock.advance(40);
  assert.deepEqual(queue.unfinished, { totalMs: 40, longestMs: 40 });
  release.open();
  await settle();
  assert.deepEqual(reported, [
    'added',
    'started after 0',
    'added',
    'done after 40',
    'started after 40',
    'retry after 0',
  ]);
  assert.deepEqual(queue.unfinished, { totalMs: 0, longestMs: 0 });
  await queue.stop();
});
