import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PodProbes } from '../../../../src/standalone/pod-runner/pod-probes.ts';
import type { Probe } from '../../../../src/standalone/pod-runner/probe-spec.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';

const probe = (name: Probe['name'], changes: Partial<Probe> = {}): Probe => ({
  name,
  check: { kind: 'exec', command: ['x'] },
  ...{ initialDelaySeconds: 0, periodSeconds: 10, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 3 },
  ...changes,
});

function begin(probes: readonly Probe[], { wasReady = false, startedBeforeMs = 0 } = {}) {
  const clock = new FakeClock();
  const calls: string[] = [];
  const answers = { now: true as boolean | 'none' };
  const kept = new PodProbes({
    clock,
    check: async (_uid, { name }, signal) => {
      calls.push(`ask ${name}`);
      if (answers.now === 'none') {
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
        return { isGood: false, message: 'late' };
      }
      return { isGood: answers.now, message: 'not well' };
    },
    onChange: () => void calls.push('change'),
    onFailure: (_uid, name, message) => void calls.push(`${name} failed: ${message}`),
  });
  const startedAtMs = clock.now().getTime() - startedBeforeMs;
  kept.keep({ uid: 'u', container: 'compute', probes, startedAtMs, wasReady });
  const pass = async (ms: number) => {
    for (let left = ms; left > 0; left -= 500) {
      clock.advance(Math.min(500, left));
      for (let turns = 0; turns < 20; turns++) await Promise.resolve();
    }
  };
  const taken = () => calls.splice(0);
  return { clock, kept, answers, pass, taken, state: () => kept.state('u') };
}

test('a readiness probe is asked after its delay, then in its rhythm, and makes ready by its first success', async () => {
  const { pass, taken, state } = begin([probe('readiness', { initialDelaySeconds: 5 })], { startedBeforeMs: 2_000 });
  await pass(2_500);
  assert.deepEqual([taken(), state()?.isReady], [[], false]);
  await pass(500);
  assert.deepEqual([taken(), state()?.isReady], [['ask readiness', 'change'], true]);
  await pass(9_500);
  assert.deepEqual(taken(), []);
  await pass(500);
  assert.deepEqual(taken(), ['ask readiness']);
});

test('it is no longer ready after as many failures in a row as its threshold, and ready again after as many successes', async () => {
  const { pass, taken, state, answers } = begin([probe('readiness', { successThreshold: 2 })], { wasReady: true });
  answers.now = false;
  await pass(500);
  await pass(10_000);
  assert.deepEqual(taken(), Array(2).fill(['ask readiness', 'readiness failed: not well']).flat());
  answers.now = true;
  await pass(10_000);
  answers.now = false;
  await pass(20_000);
  assert.equal(state()?.isReady, true, 'not in a row');
  await pass(10_000);
  assert.equal(state()?.isReady, false);
  answers.now = true;
  await pass(10_000);
  assert.equal(state()?.isReady, false);
  await pass(10_000);
  assert.equal(state()?.isReady, true);
});

test('a liveness probe that fails too often says so once, and is asked no more; readiness goes on', async () => {
  const { pass, taken, state, answers, clock } = begin([probe('liveness', { periodSeconds: 1, failureThreshold: 2 })]);
  assert.deepEqual(state(), { isReady: true, unhealthy: undefined });
  await pass(1_500);
  taken();
  answers.now = false;
  await pass(10_000);
  const failure = ['ask liveness', 'liveness failed: not well'];
  assert.deepEqual(taken(), [...failure, ...failure, 'change']);
  assert.equal(state()?.unhealthy, 'Container compute failed liveness probe');
  assert.equal(clock.timers, 0);
});

test('no answer in time is a failure', async () => {
  const { pass, taken, answers } = begin([probe('readiness', { timeoutSeconds: 3 })]);
  answers.now = 'none';
  await pass(2_500);
  assert.deepEqual(taken(), ['ask readiness']);
  await pass(1_000);
  assert.deepEqual(taken(), ['readiness failed: late']);
});

test('what is stopped is asked no more, also in the middle of a question, and what it said stays', async () => {
  const { pass, taken, state, answers, kept, clock } = begin([probe('readiness')]);
  await pass(500);
  answers.now = 'none';
  await pass(10_000);
  taken();
  kept.stop('u');
  await pass(60_000);
  assert.deepEqual([taken(), state()?.isReady, clock.timers], [[], true, 0]);
  kept.forget('u');
  assert.equal(state(), undefined);
});
