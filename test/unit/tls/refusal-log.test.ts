import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { pino } from 'pino';
import { RefusalLog } from '../../../src/tls/refusal-log.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';

function reported() {
  const lines: { code: string; more?: number }[] = [];
  const sink = new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(JSON.parse(String(chunk)));
      done();
    },
  });
  const clock = new FakeClock();
  return { lines, clock, log: new RefusalLog({ log: pino({}, sink), clock }) };
}

test('the first refusal of a kind is told at once, others of it once a minute with their number', () => {
  const { lines, clock, log } = reported();
  for (let i = 0; i < 100; i++) log.note('COMMON_NAME', `name ${i}`, '10.0.0.1');
  log.note('CERT_HAS_EXPIRED', 'expired', '10.0.0.1');
  assert.deepEqual(
    lines.map(({ code, more }) => [code, more]),
    [
      ['COMMON_NAME', undefined],
      ['CERT_HAS_EXPIRED', undefined],
    ],
  );
  clock.advance(60_000);
  log.note('COMMON_NAME', 'again', '10.0.0.1');
  assert.deepEqual([lines.at(-1)?.code, lines.at(-1)?.more], ['COMMON_NAME', 99]);
  assert.equal(log.total, 102);
});

test('a flood of different kinds is counted, and fills neither the memory nor the log', () => {
  const { lines, log } = reported();
  for (let i = 0; i < 1_000; i++) log.note(`CODE_${i}`, 'x', undefined);
  assert.equal(log.total, 1_000);
  assert.ok(lines.length <= 51, `${lines.length} lines`);
});
