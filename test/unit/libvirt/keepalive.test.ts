import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeepaliveTimer } from '../../../src/libvirt/keepalive.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

function start(options = { intervalMs: 1_000, count: 2 }) {
  const clock = new FakeClock();
  const log: string[] = [];
  const startMs = clock.monotonicMs();
  const timer = new KeepaliveTimer(options, {
    clock,
    sendPing: () => log.push(`ping ${clock.monotonicMs() - startMs}`),
    onDead: () => log.push(`dead ${clock.monotonicMs() - startMs}`),
  });
  timer.start();
  return { clock, log, timer };
}

test('a silent daemon is pinged each interval and counts as dead after the last unanswered ping', () => {
  const { clock, log } = start();
  clock.advance(10_000);
  assert.deepEqual(log, ['ping 1000', 'ping 2000', 'dead 3000']);
  assert.equal(clock.timers, 0);
});

test('a daemon that is heard is not pinged', () => {
  const { clock, log, timer } = start();
  for (let i = 0; i < 20; i++) {
    clock.advance(500);
    timer.heard();
  }
  assert.deepEqual(log, []);
});

test('any packet after a ping starts the count again', () => {
  const { clock, log, timer } = start();
  clock.advance(1_500);
  timer.heard();
  clock.advance(2_500);
  assert.deepEqual(log, ['ping 1000', 'ping 2500', 'ping 3500']);
});

test('a stopped timer leaves nothing behind', () => {
  const { clock, log, timer } = start();
  timer.stop();
  clock.advance(10_000);
  assert.deepEqual(log, []);
  assert.equal(clock.timers, 0);
});
