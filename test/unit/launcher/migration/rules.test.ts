import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type JobSample, outgoingJob } from '../../../../src/launcher/migration/job.ts';
import {
  type Allowed,
  firstDowntimeMs,
  firstMonitorState,
  type Look,
  type MonitorState,
  watchMigration,
} from '../../../../src/launcher/migration/monitor-rules.ts';
import { decideOrder } from '../../../../src/launcher/migration/record.ts';
import { acceptableMs, memoryBytes, migrationSettings } from '../../../../src/launcher/migration/settings.ts';
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
  const look = (seen: JobSample, elapsedMs: number, isPass = false): Look => ({ sample: seen, elapsedMs, isPass });
  const usually: Allowed = {
    progressTimeoutMs: 10_000,
    allowsWorkloadDisruption: false,
    maxDowntimeMs: 100,
    canPostCopy: false,
  };
  const watched = (
    seen: readonly (readonly [atMs: number, processed: number])[],
    limitMs?: number,
    allowed = usually,
  ) => {
    let state: MonitorState = firstMonitorState(limitMs);
    const actions: string[] = [];
    for (const [atMs, processed] of seen) {
      const step = watchMigration(state, look(sample(processed), atMs), allowed);
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
    const first = watchMigration(firstMonitorState(undefined), look(sample(0, 100), 0), usually);
    const next = watchMigration(first.state, look(sample(0, 50), 20_000), usually);
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

  const stall = settings({
    StallDetectorOptions: {
      StallMargin: 0.1,
      StallProgressTimeout: 10,
      SwitchoverTimeout: 5,
      EwmaAlpha: 0.5,
      PrecopyPossibleFactor: 2,
      PatienceWindowDecayFactor: 0.5,
      SearchLocalMinima: true,
      CompletionTimeoutFactor: 2,
    },
  }).stall;
  const detecting: Allowed = { ...usually, progressTimeoutMs: 0, ...(stall && { stall }) };
  /** Passes each 5 s, at 1 MB/s; what remains at each, in bytes. */
  const passes = (remaining: readonly number[], allowed: Allowed, limitMs?: number) => {
    let state: MonitorState = firstMonitorState(limitMs);
    const actions: string[] = [];
    for (const [index, remainingBytes] of remaining.entries()) {
      const seen = { processedBytes: index, remainingBytes, memoryBytesPerSecond: 1e6 };
      state = watchMigration(state, look(seen, index * 5_000), allowed).state;
      const step = watchMigration(state, look(seen, index * 5_000, true), allowed);
      state = step.state;
      const { action } = step;
      actions.push(action.kind === 'allow-downtime' ? `${action.kind} ${action.milliseconds}` : action.kind);
    }
    return { actions, state };
  };

  test('with a stall detector goes on while each pass has less to move than those before', () => {
    const { actions } = passes([9e6, 8e6, 7e6, 6e6, 5e6, 4e6, 3e6], detecting);
    assert.deepEqual([...new Set(actions)], ['none']);
  });

  test('that stalls with a small rest is switched within the pause that is allowed, or twice of it', () => {
    assert.equal(passes([9e6, 90e3, 90e3, 90e3], detecting).actions.at(-1), 'allow-downtime 100');
    assert.equal(passes([9e6, 190e3, 190e3, 190e3], detecting).actions.at(-1), 'allow-downtime 100');
  });

  test('that stalls with a large rest is aborted, or disrupted where that is allowed', () => {
    const remaining = [9e6, 5e6, 5e6, 5e6];
    assert.equal(passes(remaining, detecting).actions.at(-1), 'abort');
    const allowed = { ...detecting, allowsWorkloadDisruption: true };
    assert.equal(passes(remaining, allowed).actions.at(-1), 'allow-downtime 2000000');
    assert.equal(passes(remaining, { ...allowed, canPostCopy: true }).actions.at(-1), 'start-post-copy');
  });

  test('that stalls waits for a pass as good as the best, and takes a lesser one after a while', () => {
    const allowed = { ...detecting, allowsWorkloadDisruption: true };
    const { actions } = passes([9e6, 5e6, 8e6, 8e6, 8e6, 5.2e6], allowed);
    assert.deepEqual(actions, ['none', 'none', 'none', 'none', 'none', 'allow-downtime 2000000']);
    const waited = passes([9e6, 5e6, 8e6, 8e6, 8e6, 8e6, 8e6], allowed);
    assert.deepEqual(waited.actions.slice(3), ['none', 'none', 'allow-downtime 2000000', 'none']);
  });

  test('that was told to switch and does not is aborted after its time', () => {
    const { actions } = passes([9e6, 90e3, 90e3, 90e3, 90e3, 90e3], detecting);
    assert.deepEqual(actions.slice(3), ['allow-downtime 100', 'none', 'abort']);
  });

  test('whose rest could not be moved in time is not stopped for it', () => {
    const allowed = { ...detecting, allowsWorkloadDisruption: true };
    assert.equal(passes([90e6, 50e6, 50e6, 50e6], allowed, 20_000).actions.at(-1), 'none');
  });

  test('with a stall detector begins with the usual pause, however long a one is allowed', () => {
    assert.equal(firstDowntimeMs(settings({ MaxDowntimeMs: 5_000 })), 5_000);
    assert.equal(firstDowntimeMs(settings({ MaxDowntimeMs: 5_000, StallDetectorOptions: {} })), 300);
    assert.equal(firstDowntimeMs(settings({ MaxDowntimeMs: 0 })), undefined);
  });
});
