import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { graceOf } from '../../../../src/agent/decide/grace.ts';
import { decide } from '../../../../src/agent/decide/index.ts';
import type { DomainView, LauncherState } from '../../../../src/agent/index.ts';
import type { KeyMemory, Observation } from '../../../../src/agent/observe/index.ts';
import type { DomainReason, DomainStatus, VmiPhase } from '../../../../src/api/index.ts';
import {
  domainNone,
  domainOf,
  domainUnknown,
  launcherDead,
  node,
  nowMs,
  observationOf,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../fixtures/agent/builders.ts';

const phases: VmiPhase[] = [
  '',
  'Pending',
  'Scheduling',
  'Scheduled',
  'Running',
  'Succeeded',
  'Failed',
  'WaitingForSync',
  'Unknown',
];
const statuses: DomainStatus[] = [
  '',
  'NoState',
  'Running',
  'Blocked',
  'Paused',
  'ShuttingDown',
  'Shutoff',
  'Crashed',
  'PMSuspended',
  'Unknown',
];
const reasons: DomainReason[] = [
  '',
  'NonExistent',
  'Unknown',
  'User',
  'Migration',
  'IOError',
  'StartingUp',
  'Postcopy',
  'PostcopyFailed',
  'Shutdown',
  'Destroyed',
  'Migrated',
  'Saved',
  'Failed',
  'Crashed',
  'Panicked',
  'FromSnapshot',
];

const ago = fc.integer({ min: 0, max: 100_000 }).map((ms) => nowMs - ms);
const timestamp = fc.option(
  fc
    .integer({ min: -100, max: 100 })
    .map((seconds) => new Date(Date.parse('2026-01-02T03:04:05Z') + seconds * 1000).toISOString()),
  { nil: null },
);

const domainView: fc.Arbitrary<DomainView> = fc.oneof(
  fc.constantFrom<DomainView>(domainNone, launcherDead, domainUnknown, { kind: 'absent' }),
  fc
    .record({
      status: fc.constantFrom(...statuses),
      reason: fc.constantFrom(...reasons),
      grace: fc.option(
        fc.record({
          DeletionGracePeriodSeconds: fc.nat(60),
          DeletionTimestamp: timestamp,
          MarkedForGracefulShutdown: fc.option(fc.boolean(), { nil: null }),
        }),
        { nil: null },
      ),
    })
    .map(({ status, reason, grace }) => seen(domainOf(status, reason, { GracePeriod: grace }))),
);

const launcherState: fc.Arbitrary<LauncherState> = fc.oneof(
  fc.constantFrom<LauncherState>(
    { kind: 'ready', connected: true },
    { kind: 'ready', connected: false },
    { kind: 'dead', reason: 'gone' },
    { kind: 'unclear', reason: '?' },
  ),
  fc.nat(400_000).map((forMs) => ({ kind: 'not-ready', forMs }) as const),
);

const memory: fc.Arbitrary<KeyMemory> = fc
  .record(
    {
      synced: fc.record({ fingerprint: fc.constantFrom('same', 'other'), atMs: ago }),
      shutdown: fc.record({
        firstMs: ago,
        deadlineMs: fc.integer({ min: nowMs - 50_000, max: nowMs + 50_000 }),
        lastSignalMs: ago,
      }),
      killedMs: ago,
      deletedMs: ago,
      cleaned: fc.boolean(),
      askedAgainMs: ago,
      ioRetry: fc.record({ lastMs: ago, waitMs: fc.nat(180_000) }),
    },
    { requiredKeys: [] },
  )
  .map((given) => ({ uid, ...given }));

const vmiView: fc.Arbitrary<Observation['vmi']> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.constantFrom<Observation['vmi']>(
      { kind: 'deleted' },
      { kind: 'unclear', reason: 'away' },
      {
        kind: 'elsewhere',
        vmi: vmiOf('Running', {
          metadata: { name: 'vm1', namespace: 'default', uid, labels: { 'kubevirt.io/nodeName': 'node2' } },
          status: { nodeName: 'node2' },
        }),
      },
    ),
  },
  {
    weight: 4,
    arbitrary: fc
      .record({
        phase: fc.constantFrom(...phases),
        deleted: fc.boolean(),
        grace: fc.option(fc.nat(60), { nil: undefined }),
      })
      .map(({ phase, deleted, grace }) => {
        const vmi = vmiOf(phase);
        if (deleted) vmi.metadata.deletionTimestamp = '2026-01-02T03:04:00Z';
        if (grace === undefined) delete vmi.spec.terminationGracePeriodSeconds;
        else vmi.spec.terminationGracePeriodSeconds = grace;
        return presentVmi(vmi);
      }),
  },
);

const observation = fc
  .record({ vmi: vmiView, domain: domainView, launcher: launcherState, memory })
  .map((given) => observationOf(given));

const destructive = new Set(['shutdownDomain', 'killDomain', 'deleteDomain', 'cleanUp']);
const stepsOf = (given: Observation) => decide(given).steps.map(({ step }) => step);
const phaseOf = ({ vmi }: Observation) => (vmi.kind === 'present' ? (vmi.vmi.status?.phase ?? '') : undefined);
const runs = { numRuns: 3_000 };

test('decide never throws, and always decides by a named rule', () => {
  fc.assert(
    fc.property(observation, (given) => decide(given).rule.length > 0),
    runs,
  );
});

test('a final VMI is never synced, nor does its phase change', () => {
  fc.assert(
    fc.property(observation, (given) => {
      fc.pre(phaseOf(given) === 'Succeeded' || phaseOf(given) === 'Failed');
      assert.ok(!stepsOf(given).includes('syncVirtualMachine'));
      assert.equal(decide(given).phase, undefined);
    }),
    runs,
  );
});

test('nothing destructive and no final phase on an unknown domain', () => {
  fc.assert(
    fc.property(observation, fc.constantFrom('ready', 'unclear', 'not-ready'), (given, kind) => {
      const launcher = { kind, connected: true, forMs: 0, reason: '' } as LauncherState;
      const unknown = { ...given, domain: domainUnknown, launcher };
      assert.deepEqual(
        stepsOf(unknown).filter((step) => destructive.has(step)),
        [],
      );
      assert.equal(decide(unknown).phase, undefined);
    }),
    runs,
  );
});

test('a domain never heard of ends no running VMI, unless its launcher is proven dead', () => {
  fc.assert(
    fc.property(observation, (given) => {
      fc.pre(given.launcher.kind !== 'dead' && phaseOf(given) === 'Running');
      assert.equal(decide({ ...given, domain: { kind: 'absent' } }).phase, undefined);
    }),
    runs,
  );
});

test('without an answer from the API server nothing is done', () => {
  fc.assert(
    fc.property(observation, (given) =>
      assert.deepEqual(stepsOf({ ...given, vmi: { kind: 'unclear', reason: '' } }), []),
    ),
    runs,
  );
});

test('a domain is only deleted when its end is written, its VMI is gone or deleted, or it belongs to another node', () => {
  fc.assert(
    fc.property(observation, (given) => {
      if (!stepsOf(given).includes('deleteDomain')) return;
      const { vmi } = given;
      const isOver = vmi.kind !== 'present' || ['Succeeded', 'Failed'].includes(phaseOf(given) ?? '');
      assert.ok(isOver || vmi.vmi.metadata.deletionTimestamp);
    }),
    runs,
  );
});

test('a living domain is never deleted', () => {
  fc.assert(
    fc.property(
      observation,
      fc.constantFrom<DomainStatus>('Running', 'Blocked', 'PMSuspended', 'ShuttingDown'),
      (given, status) => {
        const alive = { ...given, domain: seen(domainOf(status)) };
        assert.ok(!stepsOf(alive).includes('deleteDomain'));
        assert.ok(!stepsOf(alive).includes('cleanUp'));
      },
    ),
    runs,
  );
});

const legal: Readonly<Record<string, readonly VmiPhase[]>> = {
  '': ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  Pending: ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  Scheduling: ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  WaitingForSync: ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  Unknown: ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  Scheduled: ['Running', 'Succeeded', 'Failed'],
  Running: ['Succeeded', 'Failed'],
  Succeeded: [],
  Failed: [],
};

test('phases change only along the legal table', () => {
  fc.assert(
    fc.property(observation, (given) => {
      const { phase } = decide(given);
      if (phase === undefined) return;
      assert.ok(legal[phaseOf(given) ?? '']?.includes(phase), `${phaseOf(given)} → ${phase}`);
    }),
    runs,
  );
});

test('the end of a grace period never moves away, whatever the wall clock and the VMI say', () => {
  const change = fc.record({
    passMs: fc.nat(20_000),
    wallJumpMs: fc.integer({ min: -1e7, max: 1e7 }),
    seconds: fc.nat(90),
    timestamp,
  });
  fc.assert(
    fc.property(fc.nat(60), fc.array(change, { maxLength: 8 }), (first, changes) => {
      let at = observationOf({ memory: { uid } });
      let grace = graceOf(at, first, undefined);
      for (const { passMs, wallJumpMs, seconds, timestamp: began } of changes) {
        const { deadlineMs } = grace;
        at = {
          ...at,
          nowMs: at.nowMs + passMs,
          now: new Date(at.now.getTime() + passMs + wallJumpMs),
          memory: { uid, shutdown: { firstMs: nowMs, deadlineMs, lastSignalMs: at.nowMs } },
        };
        const domain = domainOf('Running', 'Unknown', {
          GracePeriod: { DeletionGracePeriodSeconds: 30, DeletionTimestamp: began, MarkedForGracefulShutdown: null },
        });
        grace = graceOf(at, seconds, domain);
        assert.ok(grace.deadlineMs <= deadlineMs);
      }
    }),
    runs,
  );
});

test('every wait for a domain that is to end has a timer', () => {
  fc.assert(
    fc.property(
      observation,
      fc.constantFrom<DomainStatus>('Running', 'Blocked', 'ShuttingDown', 'NoState'),
      (given, status) => {
        fc.pre(
          given.vmi.kind === 'deleted' ||
            (given.vmi.kind === 'present' && Boolean(given.vmi.vmi.metadata.deletionTimestamp)),
        );
        const decision = decide({
          ...given,
          domain: seen(domainOf(status)),
          memory: { ...given.memory, cleaned: false },
        });
        assert.ok(decision.requeueAfterMs !== undefined, decision.rule);
      },
    ),
    runs,
  );
  assert.equal(node, 'node1');
});
