import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Health } from '../../../src/serving/health.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

const version = { gitVersion: 'v1.31.0' };

function world(askVersion: (signal: AbortSignal) => Promise<unknown>) {
  const clock = new FakeClock();
  const state = { asked: 0, watchFailures: 0, notReady: [] as string[] };
  const health = new Health({
    askVersion: (signal) => {
      state.asked++;
      return askVersion(signal);
    },
    watchFailures: () => state.watchFailures,
    configVersion: () => '42',
    notReady: () => state.notReady,
    lastSuccesses: () => [
      { what: 'heartbeat', lastSuccessMs: clock.monotonicMs() - 1_500 },
      { what: 'nodes', lastSuccessMs: undefined },
    ],
    clock,
  });
  return { health, clock, state };
}

const lastSuccessSecondsAgo = { heartbeat: 1.5, nodes: null };

test('healthz tells the version of the API server, asks for it once and is upstream-shaped', async () => {
  const { health, state } = world(async () => version);
  const apiserver = { connectivity: 'ok', version };
  const expected = { status: 200, body: { apiserver, 'config-resource-version': '42', lastSuccessSecondsAgo } };
  assert.deepEqual(await health.healthz(), expected);
  assert.deepEqual(await health.healthz(), expected);
  assert.equal(state.asked, 1);
});

test('healthz asks again after the watch of the authorities has failed', async () => {
  let isThere = true;
  const { health, state } = world(async () => (isThere ? version : Promise.reject(new Error('connection refused'))));
  await health.healthz();
  isThere = false;
  state.watchFailures++;
  const { status, body } = await health.healthz();
  assert.equal(status, 500);
  assert.deepEqual((body as { apiserver: unknown }).apiserver, { connectivity: 'failed', error: 'connection refused' });
});

test('healthz answers within a second when the API server is silent, and every probe shares one question', async () => {
  const { health, clock, state } = world(() => new Promise(() => undefined));
  const answers = [health.healthz(), health.healthz()];
  await clock.pass(1_000);
  for (const { status } of await Promise.all(answers)) assert.equal(status, 500);
  assert.equal(state.asked, 1);
});

test('a failure holds for a second: probes do not hammer an API server that is down', async () => {
  const { health, clock, state } = world(async () => Promise.reject(new Error('refused')));
  for (let probe = 0; probe < 10; probe++) await health.healthz();
  assert.equal(state.asked, 1);
  await clock.pass(1_001);
  await health.healthz();
  assert.equal(state.asked, 2);
});

test('an API server that tells nonsense is not connected', async () => {
  for (const answer of [null, 'x', 7]) {
    const { health } = world(async () => answer);
    assert.equal((await health.healthz()).status, 500);
  }
});

test('livez answers while the API server is away, and asks nobody', () => {
  const { health, state } = world(async () => Promise.reject(new Error('away')));
  assert.deepEqual(health.livez(), { status: 200, body: { alive: true, lastSuccessSecondsAgo } });
  assert.equal(state.asked, 0);
});

test('readyz says why the agent is not ready', () => {
  const { health, state } = world(async () => version);
  assert.deepEqual(health.readyz(), { status: 200, body: { ready: true, lastSuccessSecondsAgo } });
  state.notReady = ['the agent leaves'];
  assert.deepEqual(health.readyz(), {
    status: 503,
    body: { ready: false, because: ['the agent leaves'], lastSuccessSecondsAgo },
  });
});
