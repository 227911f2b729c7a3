import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import { nowMs, observationOf } from '../../../../fixtures/agent/builders.ts';
import { sriov, triedAt } from './rule-rows/sriov.ts';

const decided = (given: ReturnType<typeof sriov>) => decide(observationOf(given));

test('a network device is asked for ever more seldom, up to every ten minutes', () => {
  const pauses = [1, 2, 3, 10, 11, 100].map((count) => decided(sriov({ plugTries: triedAt(count, 0) })).requeueAfterMs);
  assert.deepEqual(
    pauses.map((ms) => Math.round((ms ?? 0) / 100) / 10),
    [3, 5.4, 9.7, 595.1, 600, 600],
  );
});

test('the first try is remembered for the end of all, each one for the next', () => {
  assert.deepEqual(decided(sriov()).remember, {
    hostDevices: { plugTries: { count: 1, firstMs: nowMs, lastMs: nowMs } },
  });
  assert.deepEqual(decided(sriov({ plugTries: triedAt(2, 10_000, 20_000) })).remember, {
    hostDevices: { plugTries: { count: 3, firstMs: nowMs - 20_000, lastMs: nowMs } },
  });
});

test('it is forgotten when the device is there: the next migration begins anew', () => {
  const { remember, healthy } = decided(
    sriov({ infoSource: 'domain, multus-status', isInGuest: true, plugTries: triedAt(9, 1_000) }),
  );
  assert.equal(healthy, true);
  assert.deepEqual(remember, { hostDevices: { plugTries: undefined, plugRefusal: undefined } });
});

test('from the second try on the user is told, in the same words at each try, and what to do after the last one', () => {
  const told = [2, 3, 30].map((count) => decided(sriov({ plugTries: triedAt(count, 0) })).problem);
  assert.equal(new Set(told).size, 1);
  assert.match(
    told[0] ?? '',
    /network devices of the machine .*\(fast\): .*launcher's log.*It is tried again by itself\.$/,
  );
  const refused = decided(sriov({ plugTries: triedAt(2, 0), plugRefusal: 'no such device' }));
  assert.match(refused.problem ?? '', /\(fast\): no such device\. It is tried again by itself\.$/);
  const over = decided(sriov({ plugTries: triedAt(40, 0, 5 * 3_600_000) }));
  assert.match(over.problem ?? '', /tried no more: restart the VM/);
  assert.equal(over.healthy, undefined);
});
