import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstanceMigration } from '../../../../src/api/index.ts';
import {
  backoffMs,
  newerOne,
  olderOnes,
  rivalOf,
  runningBeside,
} from '../../../../src/controller/migration/siblings.ts';
import { buildVmi } from '../builders.ts';
import { buildMigration, buildTarget, now, runningVmi } from './situations.ts';

type Phase = NonNullable<NonNullable<VirtualMachineInstanceMigration['status']>['phase']>;

const evacuation = { 'kubevirt.io/evacuationMigration': 'node1' };

/** The `number`th migration of a VMI, a second after the one before. */
function nth(number: number, phase: Phase, more: object = {}): VirtualMachineInstanceMigration {
  const migration = buildMigration(phase);
  const creationTimestamp = `2026-01-01T00:09:0${number}Z`;
  return {
    ...migration,
    metadata: { ...migration.metadata, name: `job-${number}`, uid: `uid-${number}`, creationTimestamp, ...more },
  };
}

const automatic = (number: number, phase: Phase) => nth(number, phase, { annotations: evacuation });

test('the back-off of an evacuation doubles with each failure directly before it, from the end of the last one', () => {
  const job = automatic(9, 'Pending');
  const after = (...phases: Phase[]) =>
    backoffMs(job, [job, ...phases.map((phase, index) => automatic(index + 1, phase))], now);
  // Each failed half a minute ago.
  assert.equal(after(), 0);
  assert.equal(after('Failed'), 0);
  assert.equal(after('Failed', 'Failed'), 10_000);
  assert.equal(after('Failed', 'Failed', 'Failed'), 50_000);
  assert.equal(after('Failed', 'Failed', 'Succeeded'), 0);
  assert.equal(after('Failed', 'Succeeded', 'Failed', 'Failed'), 10_000);
});

test('a clock that is ahead makes no back-off longer', () => {
  const failed = (number: number, phaseTransitionTimestamp: string, more: object) => {
    const migration = nth(number, 'Failed', more);
    return {
      ...migration,
      status: { ...migration.status, phaseTransitionTimestamps: [{ phase: 'Failed', phaseTransitionTimestamp }] },
    };
  };
  const ahead = '2026-01-01T01:00:00Z';
  const evacuations = [1, 2].map(
    (number) => failed(number, ahead, { annotations: evacuation }) as VirtualMachineInstanceMigration,
  );
  assert.equal(backoffMs(automatic(9, 'Pending'), evacuations, now), 40_000);
  const first = failed(3, ahead, {}) as VirtualMachineInstanceMigration;
  const again = nth(4, 'Pending', { annotations: { 'virt-controller.kubevirt.io/retry-of': 'job-3' } });
  assert.equal(backoffMs(again, [first, again], now), 20_000);
});

test('a person who asks waits for no back-off', () => {
  const job = nth(9, 'Pending');
  assert.equal(
    backoffMs(
      job,
      [1, 2, 3].map((number) => automatic(number, 'Failed')),
      now,
    ),
    0,
  );
});

test('what tries a failed migration again waits as the first of a back-off, and is no newer one to it', () => {
  const failed = nth(1, 'Failed');
  const stamps = [{ phase: 'Failed', phaseTransitionTimestamp: '2026-01-01T00:09:55Z' } as const];
  failed.status = { ...failed.status, phaseTransitionTimestamps: [...stamps] };
  const again = nth(2, 'Pending', { annotations: { 'virt-controller.kubevirt.io/retry-of': 'job-1' } });
  assert.equal(backoffMs(again, [failed, again], now), 15_000);
  const before = [0, 1, 2, 3].map((number) => automatic(number, 'Failed'));
  const between = nth(2, 'Failed', { name: 'job-1-between', annotations: evacuation });
  assert.equal(backoffMs(again, [...before, failed, between, again], now), 15_000);
  assert.equal(backoffMs(again, [...before, between, again], now), 0);
  assert.equal(newerOne(failed, [failed, again]), undefined);
  assert.equal(newerOne(failed, [failed, again, nth(3, 'Pending')]), 'job-3');
  assert.equal(newerOne(again, [failed, again]), undefined);
});

test('the rival of a migration is the one that the VMI speaks of, else the one that was there first; never itself or one that is over', () => {
  const [first, second] = [nth(1, 'Pending'), nth(2, 'Pending')];
  const state = (migrationUid: string) => runningVmi({ migrationUid });
  assert.deepEqual(rivalOf(second, runningVmi(), [first, second]), { name: 'job-1', hasState: false });
  assert.equal(rivalOf(first, runningVmi(), [first, second]), undefined);
  assert.deepEqual(rivalOf(first, state('uid-2'), [first, second]), { name: 'job-2', hasState: true });
  assert.equal(rivalOf(second, state('uid-1'), [nth(1, 'Failed'), second]), undefined);
});

test('under way are migrations with a phase or a pod beyond waiting, of all VMIs and of this node', () => {
  const others = [nth(1, 'Pending'), nth(2, 'Scheduling'), nth(3, 'Running'), nth(4, 'Succeeded'), nth(5, 'Pending')];
  const [, , elsewhere] = others;
  if (elsewhere) elsewhere.spec.vmiName = 'vm2';
  const pod = buildTarget();
  pod.metadata.labels = { 'kubevirt.io/migrationJobUID': 'uid-5' };
  const vmis = new Map([
    ['default/vm1', runningVmi()],
    ['default/vm2', buildVmi({}, { phase: 'Running', nodeName: 'node2' })],
  ]);
  const seen = { migrations: { list: () => others }, vmis, ownPods: { list: () => [pod] } };
  assert.deepEqual(runningBeside(buildMigration(), runningVmi(), seen), {
    cluster: 3,
    outbound: 2,
    ofVmi: 2,
  });
});

test('of migrations that are over all but the newest five go, each with the pod that it left and that has ended', () => {
  const over = [1, 2, 3, 4, 5, 6, 7].map((number) => nth(number, 'Failed'));
  const [newest] = over.slice(-1);
  assert.ok(newest);
  const ended = buildTarget({ ...buildTarget(), status: { phase: 'Failed' } });
  ended.metadata.labels = { 'kubevirt.io/migrationJobUID': 'uid-1' };
  const alive = buildTarget();
  alive.metadata.labels = { 'kubevirt.io/migrationJobUID': 'uid-2' };
  const found = olderOnes(newest, over, [ended, alive]);
  assert.deepEqual(
    found.map(({ migration, pod }) => [migration.metadata.name, pod?.metadata.labels]),
    [
      ['job-2', undefined],
      ['job-1', ended.metadata.labels],
    ],
  );
});
