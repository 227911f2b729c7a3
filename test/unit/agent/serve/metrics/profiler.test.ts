import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { inspectorSession, Profiler, type ProfilerSession } from '../../../../../src/agent/serve/metrics/profiler.ts';
import { FakeClock } from '../../../../fixtures/fake-clock.ts';

const open: Profiler[] = [];
afterEach(async () => {
  for (const profiler of open.splice(0)) await profiler.close();
});

function world(openSession: () => ProfilerSession = inspectorSession, maxBytes = 16e6) {
  const clock = new FakeClock();
  const settings = { isAllowed: true };
  const sessions = { open: 0 };
  const profiler = new Profiler(
    { longestMs: 120_000, keptMs: 600_000, maxBytes },
    {
      isAllowed: () => settings.isAllowed,
      openSession: () => {
        const session = openSession();
        sessions.open++;
        return {
          post: (method, params) => session.post(method, params),
          close: () => {
            sessions.open--;
            session.close();
          },
        };
      },
      clock,
    },
  );
  open.push(profiler);
  return { profiler, clock, settings, sessions };
}

const refusing = (method: string) => (): ProfilerSession => ({
  post: async (asked) => (asked === method ? Promise.reject(new Error(`V8 refuses ${asked}`)) : {}),
  close: () => undefined,
});

test('a profile has what the processor and the memory did, and a new one forgets it', async () => {
  const { profiler, sessions } = world();
  await profiler.start();
  await profiler.stop();
  const { cpu, heap } = profiler.dump().pprofData;
  assert.ok(JSON.parse(Buffer.from(cpu, 'base64').toString()).nodes.length > 0);
  assert.ok(JSON.parse(Buffer.from(heap, 'base64').toString()).head);
  assert.equal(sessions.open, 0);
  await profiler.start();
  assert.throws(() => profiler.dump(), { code: 'NOT_STARTED' });
});

test('a start that fails leaves nothing open, and the next one is possible', async () => {
  for (const method of ['Profiler.enable', 'Profiler.start', 'HeapProfiler.startSampling']) {
    let openSession = refusing(method);
    const { profiler, clock, sessions } = world(() => openSession());
    await assert.rejects(profiler.start(), /V8 refuses/, method);
    assert.equal(profiler.state, 'idle');
    assert.equal(sessions.open, 0);
    assert.equal(clock.timers, 0);
    openSession = inspectorSession;
    await profiler.start();
    await profiler.stop();
    assert.ok(profiler.dump().pprofData.cpu.length > 0);
  }
});

test('an end that fails leaves nothing open either', async () => {
  const { profiler, clock, sessions } = world(refusing('Profiler.stop'));
  await profiler.start();
  await assert.rejects(profiler.stop(), /V8 refuses/);
  assert.equal(profiler.state, 'idle');
  assert.equal(sessions.open, 0);
  assert.equal(clock.timers, 0);
});

test('one profile at a time, also while one begins', async () => {
  const { profiler, sessions } = world();
  const results = await Promise.allSettled([profiler.start(), profiler.start(), profiler.start()]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected'],
  );
  await assert.rejects(profiler.start(), { code: 'RUNNING' });
  assert.equal(sessions.open, 1);
  const stops = await Promise.allSettled([profiler.stop(), profiler.stop()]);
  assert.deepEqual(
    stops.map(({ status }) => status),
    ['fulfilled', 'rejected'],
  );
});

test('a profile that nobody ends is ended after two minutes, and forgotten ten minutes later', async () => {
  const { profiler, clock } = world();
  await profiler.start();
  clock.advance(120_000);
  for (let turn = 0; turn < 100 && profiler.state !== 'ended'; turn++) await new Promise(setImmediate);
  assert.ok(profiler.dump().pprofData.cpu.length > 0);
  clock.advance(600_000);
  assert.throws(() => profiler.dump(), { code: 'NOT_STARTED' });
  assert.equal(clock.timers, 0);
});

test('a profile that is too large is thrown away, and whoever asks is told', async () => {
  const { profiler } = world(inspectorSession, 10);
  await profiler.start();
  await assert.rejects(profiler.stop(), { code: 'TOO_LARGE' });
  assert.throws(() => profiler.dump(), { code: 'TOO_LARGE' });
  await profiler.start();
});

test('nothing is possible while it is off, and nothing is kept when it goes off', async () => {
  const { profiler, settings, sessions, clock } = world();
  await profiler.start();
  settings.isAllowed = false;
  await assert.rejects(profiler.start(), { code: 'OFF' });
  await assert.rejects(profiler.stop(), { code: 'OFF' });
  assert.throws(() => profiler.dump(), { code: 'OFF' });
  await profiler.close();
  assert.equal(sessions.open, 0);
  assert.equal(clock.timers, 0);
  settings.isAllowed = true;
  assert.throws(() => profiler.dump(), { code: 'NOT_STARTED' });
});

test('whoever closes it while it begins leaves nothing running', async () => {
  const { profiler, sessions, clock } = world();
  const starting = profiler.start();
  await profiler.close();
  await starting;
  assert.equal(profiler.state, 'idle');
  assert.equal(sessions.open, 0);
  assert.equal(clock.timers, 0);
});

test('a profiler that V8 does not give is one failure, not one for ever', async () => {
  let fails = true;
  const { profiler } = world(() => {
    if (fails) throw new Error('there is no inspector');
    return inspectorSession();
  });
  await assert.rejects(profiler.start(), /no inspector/);
  assert.equal(profiler.state, 'idle');
  fails = false;
  await profiler.start();
});

test('a profile that goes off while it ends is not kept', async () => {
  let letGo: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const slow = (): ProfilerSession => ({
    post: async (method) => {
      if (method === 'Profiler.stop') await gate;
      return {};
    },
    close: () => undefined,
  });
  const { profiler, settings, sessions, clock } = world(slow);
  await profiler.start();
  const stopping = profiler.stop();
  settings.isAllowed = false;
  const closing = profiler.close();
  letGo();
  await Promise.allSettled([stopping, closing]);
  assert.equal(profiler.state, 'idle');
  assert.equal(sessions.open, 0);
  assert.equal(clock.timers, 0);
});
