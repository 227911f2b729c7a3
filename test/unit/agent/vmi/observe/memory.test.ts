import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  forgetStay,
  memoryFields,
  newMemory,
  prepareTries,
  withMore,
  withStartTries,
} from '../../../../../src/agent/vmi/observe/index.ts';
import { sourceMemory } from '../../../../../src/agent/vmi/observe/memory.ts';
import { uid } from '../../../../fixtures/agent/builders.ts';
import { asSource, asTarget, remembered } from '../../../../fixtures/agent/remembered.ts';

const synced = { fingerprint: 'f', atMs: 10, endedMs: 12 };
const tries = { fingerprint: 'f', count: 2, lastMs: 20 };

test('of a group only what is new is replaced, a state is replaced as a whole', () => {
  const before = remembered({ killedMs: 1, cleaned: true, synced, migration: asSource({ sentMs: 5 }) });
  const after = withMore(before, { ending: { cleaned: false }, migration: asTarget() });
  assert.deepEqual(after, remembered({ killedMs: 1, synced, migration: asTarget() }));
});

test('what belongs to one stay is forgotten, what is the process’s is not', () => {
  const before = remembered({
    ...{ synced, startTries: tries, killedMs: 1, deletedMs: 2, cleaned: true, askedAgainMs: 3, reportedProblem: 'p' },
    ...{ ioRetry: { lastMs: 4, waitMs: 5 }, writeFailedMs: 6, pausedSinceMs: 7 },
  });
  const after = withMore(before, forgetStay());
  assert.deepEqual(after, remembered({ writeFailedMs: 6, pausedSinceMs: 7 }));
});

test('a start that is tried again keeps the sync that succeeded before', () => {
  const first = withMore(newMemory(uid), { sync: withStartTries(newMemory(uid), tries) });
  assert.deepEqual(first.sync, { kind: 'starting', startTries: tries });
  const again = withStartTries(remembered({ synced }), tries);
  assert.deepEqual(again, { kind: 'starting-again', synced, startTries: tries });
});

test('another migration begins anew, on either side', () => {
  const memory = remembered({ migration: asSource({ sentMs: 5, cancelledMs: 6 }) });
  assert.equal(sourceMemory(memory, 'm1').cancelledMs, 6);
  assert.deepEqual(sourceMemory(memory, 'm2'), { role: 'source', migrationUid: 'm2', order: { kind: 'none' } });
  assert.deepEqual(prepareTries(memory, 9), { firstTryMs: 9, lastTryMs: 9 });
  const target = remembered({ migration: asTarget({ refusal: 'no', firstTryMs: 3 }) });
  assert.deepEqual(prepareTries(target, 9), { firstTryMs: 3, lastTryMs: 9 });
});

test('"explain" has one list of names, whatever the states are', () => {
  const shown = (flat: Parameters<typeof remembered>[0]) => JSON.parse(JSON.stringify(memoryFields(remembered(flat))));
  assert.deepEqual(shown({ synced, startTries: tries }), {
    ...{ synced, startTries: tries, cleaned: false, reportedProblem: '' },
  });
  assert.deepEqual(shown({ migration: asTarget({ preparedMs: 1, firstTryMs: 2, lastTryMs: 3 }) }).migration, {
    ...{ migrationUid: 'm1', preparedMs: 1, firstTryMs: 2, lastTryMs: 3 },
  });
  assert.deepEqual(shown({ migration: asSource({ firstTryMs: 2, sentMs: 3, unheardSinceMs: 4 }) }).migration, {
    ...{ migrationUid: 'm1', firstTryMs: 2, sentMs: 3, unheardSinceMs: 4 },
  });
});
