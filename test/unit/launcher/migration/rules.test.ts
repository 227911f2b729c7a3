import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { outgoingJob } from '../../../../src/launcher/migration/job.ts';
import { acceptableMs, memoryBytes } from '../../../../src/launcher/migration/limits.ts';
import {
  firstMonitorState,
  type MonitorState,
  watchMigration,
} from '../../../../src/launcher/migration/monitor-rules.ts';
import { decideOrder } from '../../../../src/launcher/migration/record.ts';
import { migrationSettings } from '../../../../src/launcher/migration/settings.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';
import { job, json, usual } from './bench.ts';

const settings = (change: object = {}) => migrationSettings(json({ ...usual, ...change }));

describe('the options of a migration', () => {
  test('are read in the units they are used in', () => {
    const all = settings({ Bandwidth: '64Mi', ParallelMigrationThreads: 8, Compression: 'zstd', AllowPostCopy: true });
    assert.equal(all.bandwidthMiBps, 64);
    assert.equal(all.progressTimeoutMs, 150_000);
    assert.equal(all.parallelConnections, 8);
    assert.equal(all.compression, 'zstd');
    assert.equal(all.allowsPostCopy, true);
  });

  test('no limit of bandwidth is none, and one below a mebibyte is one', () => {
    assert.equal(settings({ Bandwidth: '0' }).bandwidthMiBps, undefined);
    assert.equal(settings({ Bandwidth: '1Ki' }).bandwidthMiBps, 1);
  });

  test('fields of a wrong kind count as missing', () => {
    const odd = settings({ ProgressTimeout: '9', MaxDowntimeMs: -1, UnsafeMigration: 'true', Compression: 'none' });
    assert.deepEqual(
      [odd.progressTimeoutMs, odd.maxDowntimeMs, odd.allowsUnsafe, odd.compression],
      [0, 0, false, undefined],
    );
  });
});

test('the time a migration may take grows with the guest, by started gigabytes', () => {
  const vmi = launcherVmi({ spec: { domain: { devices: {}, memory: { guest: '2Gi' } } } });
  assert.equal(memoryBytes(vmi), 2 ** 31);
  assert.equal(memoryBytes(launcherVmi()), 64 * 2 ** 20);
  assert.equal(acceptableMs(2 ** 31, settings()), 450_000);
  assert.equal(acceptableMs(0, settings()), 150_000);
  assert.equal(acceptableMs(2 ** 31, settings({ CompletionTimeoutPerGiB: 0 })), undefined);
});

test('only a job that leaves is one: what arrives, and what has ended, is none', () => {
  assert.equal(outgoingJob(job({ data_remaining: 5n }))?.remainingBytes, 5);
  assert.equal(outgoingJob({ type: 2, params: new Map([['operation', 4]]) }), undefined);
  assert.equal(outgoingJob({ type: 3, params: new Map([['operation', 5]]) }), undefined);
});

describe('an order', () => {
  const running = { state: 1, reason: 1 };
  test('of a paused guest begins when its user has paused it, and not when something else has', () => {
    const given = { recorded: null, runningUid: undefined };
    assert.equal(decideOrder('m', { ...given, state: { state: 3, reason: 1 } }), 'begin');
    assert.throws(() => decideOrder('m', { ...given, state: { state: 3, reason: 5 } }), /only a guest that runs/);
  });

  test('is known again as long as it is carried out', () => {
    assert.equal(decideOrder('m', { recorded: null, runningUid: 'm', state: running }), 'is-under-way');
  });
});

describe('a migration that is watched', () => {
  const sample = (processedBytes: number, remainingBytes = 100) => ({
    processedBytes,
    remainingBytes,
    memoryBytesPerSecond: 0,
  });
  const usually = { progressTimeoutMs: 10_000, allowsWorkloadDisruption: false, canPostCopy: false };
  const watched = (
    seen: readonly (readonly [atMs: number, processed: number])[],
    limitMs?: number,
    allowed = usually,
  ) => {
    let state: MonitorState = firstMonitorState(limitMs);
    const actions: string[] = [];
    for (const [atMs, processed] of seen) {
      const step = watchMigration(state, sample(processed), atMs, allowed);
      state = step.state;
      actions.push(step.action.kind === 'abort' ? step.action.reason : step.action.kind);
    }
    return { actions, state };
  };

  test('is left alone as long as bytes move, however long it takes', () => {
    assert.deepEqual(
      watched([
        [0, 0],
        [9_000, 1],
        [18_000, 2],
        [27_000, 3],
      ]).actions,
      ['none', 'none', 'none', 'none'],
    );
  });

  test('moves also while only empty pages are found', () => {
    const first = watchMigration(firstMonitorState(undefined), sample(0, 100), 0, usually);
    const next = watchMigration(first.state, sample(0, 50), 20_000, usually);
    assert.equal(next.action.kind, 'none');
  });

  test('is aborted when it has taken its time', () => {
    const late = watched(
      [
        [0, 0],
        [5_000, 1],
        [6_001, 2],
      ],
      6_000,
    );
    assert.equal(late.actions.at(-1), 'Live migration has been aborted: it has not ended within 6 s');
  });

  test('switches to post-copy in place of that where disruption is allowed, and is left alone from then on', () => {
    const allowed = { ...usually, allowsWorkloadDisruption: true, canPostCopy: true };
    const { actions, state } = watched(
      [
        [0, 0],
        [6_001, 1],
        [60_000, 1],
      ],
      6_000,
      allowed,
    );
    assert.deepEqual(actions, ['none', 'start-post-copy', 'none']);
    assert.equal(state.mode, 'PostCopy');
  });

  test('pauses the guest where there is no post-copy, and gets as much time once more', () => {
    const allowed = { ...usually, allowsWorkloadDisruption: true };
    const { actions } = watched(
      [
        [0, 0],
        [6_001, 1],
        [11_999, 2],
        [12_001, 3],
      ],
      6_000,
      allowed,
    );
    assert.deepEqual(actions.slice(0, 3), ['none', 'suspend', 'none']);
    assert.match(actions[3] ?? '', /not ended within 12 s/);
  });
});
