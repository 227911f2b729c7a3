import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  backoffDelayMs,
  CodedError,
  type Component,
  deadline,
  errorCode,
  errorMessage,
  Lifecycle,
  orEnded,
  rfc3339,
  sleep,
  withDeadline,
} from '../../../src/base/index.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

test('back-off doubles up to its limit, and jitter stays around the delay', () => {
  const options = { baseMs: 10, maxMs: 100 };
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6].map((failures) => backoffDelayMs(failures, options)),
    [10, 20, 40, 80, 100, 100],
  );
  const jittered = (random: number) => backoffDelayMs(2, { ...options, jitter: 0.5, random: () => random });
  assert.deepEqual([jittered(0), jittered(0.5), jittered(1)], [10, 20, 30]);
});

test('sleep ends early with the reason of its signal', async () => {
  const stop = new AbortController();
  const sleeping = sleep(60_000, stop.signal);
  stop.abort(new Error('enough'));
  await assert.rejects(sleeping, /enough/);
  await assert.rejects(sleep(1, stop.signal), /enough/);
  assert.equal(await sleep(1), undefined);
});

test('a deadline fires by time or by its parent', async () => {
  const parent = new AbortController();
  const signal = deadline(60_000, parent.signal);
  parent.abort(new Error('parent'));
  assert.match(errorMessage(signal.reason), /parent/);
  assert.equal(deadline(60_000).aborted, false);
});

test('work with a deadline is told by time or by its parent, and leaves no timer', async () => {
  const clock = new FakeClock();
  const parent = new AbortController();
  const wait = (signal: AbortSignal) => sleep(60_000, signal, clock);
  const options = { timeoutMs: 1_000, signal: parent.signal, clock };
  const late = withDeadline(options, wait);
  clock.advance(1_000);
  await assert.rejects(late, { name: 'TimeoutError' });
  const given = withDeadline(options, wait);
  parent.abort(new Error('parent'));
  await assert.rejects(given, /parent/);
  await assert.rejects(withDeadline(options, wait), /parent/);
  assert.equal(await withDeadline({ ...options, signal: new AbortController().signal }, async () => 'done'), 'done');
  assert.equal(clock.timers, 0);
});

test('times are RFC 3339 with second resolution', () => {
  assert.equal(rfc3339(new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 678))), '2026-01-02T03:04:05Z');
});

test('errors have a code that can be read from anything thrown', () => {
  class DiskError extends CodedError<'NO_SPACE'> {}
  const error = new DiskError('NO_SPACE', 'full');
  assert.equal(error.name, 'DiskError');
  assert.equal(errorCode(error), 'NO_SPACE');
  assert.equal(errorCode('text'), undefined);
  assert.equal(errorCode({ code: 7 }), undefined);
  assert.equal(errorMessage('text'), 'text');
});

function component(name: string, calls: string[], fault: { start?: boolean; stop?: boolean } = {}): Component {
  return {
    name,
    async start() {
      calls.push(`start ${name}`);
      if (fault.start) throw new Error(`no ${name}`);
    },
    async stop() {
      calls.push(`stop ${name}`);
      if (fault.stop) throw new Error(`stuck ${name}`);
    },
  };
}

test('components stop in the reverse order of their start, all of them, even when one fails', async () => {
  const calls: string[] = [];
  const lifecycle = new Lifecycle([
    component('a', calls),
    component('b', calls, { stop: true }),
    component('c', calls),
  ]);
  await lifecycle.start(new AbortController().signal);
  await assert.rejects(lifecycle.stop(), /1 component\(s\) did not stop cleanly/);
  assert.deepEqual(calls, ['start a', 'start b', 'start c', 'stop c', 'stop b', 'stop a']);
});

test('a component that does not start takes down those before it', async () => {
  const calls: string[] = [];
  const lifecycle = new Lifecycle([component('a', calls), component('b', calls, { start: true })]);
  await assert.rejects(lifecycle.start(new AbortController().signal), /b did not start/);
  assert.deepEqual(calls, ['start a', 'start b', 'stop b', 'stop a']);
});

test('nothing more is started once the start was called off', async () => {
  const calls: string[] = [];
  const leaving = new AbortController();
  const first = { ...component('one', calls), start: async () => leaving.abort(new Error('SIGTERM')) };
  const lifecycle = new Lifecycle([first, component('two', calls)]);
  await assert.rejects(lifecycle.start(leaving.signal), /two did not start/);
  assert.deepEqual(calls, ['stop one']);
});

test('a component that hangs in stop does not hold up the others', async () => {
  const calls: string[] = [];
  const hanging: Component = { name: 'h', start: async () => undefined, stop: () => new Promise(() => {}) };
  const lifecycle = new Lifecycle([component('a', calls), hanging], { stopTimeoutMs: 20 });
  await lifecycle.start(new AbortController().signal);
  await assert.rejects(lifecycle.stop(), AggregateError);
  assert.deepEqual(calls, ['start a', 'stop a']);
});

test('work that takes no signal is left when its signal fires, and what it comes to is dropped', async () => {
  const ending = new AbortController();
  assert.equal(await orEnded(ending.signal, Promise.resolve('done')), 'done');
  await assert.rejects(orEnded(ending.signal, Promise.reject(new Error('no disk'))), { message: 'no disk' });
  let fail: (error: Error) => void = () => undefined;
  const left = orEnded(
    ending.signal,
    new Promise((_, reject) => {
      fail = reject;
    }),
  );
  ending.abort(new Error('the agent leaves'));
  await assert.rejects(left, { message: 'the agent leaves' });
  fail(new Error('too late'));
  await assert.rejects(orEnded(ending.signal, new Promise(() => undefined)), { message: 'the agent leaves' });
});
