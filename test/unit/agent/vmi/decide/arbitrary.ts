import fc from 'fast-check';
import type { KeyMemory, Observation, ProxiesView } from '../../../../../src/agent/vmi/observe/index.ts';
import { readableVmi } from '../../../../../src/agent/vmi/observe/index.ts';
import type {
  DomainReason,
  DomainStatus,
  DomainView,
  LauncherState,
  MigrationMetadata,
  VirtualMachineInstance,
} from '../../../../../src/api/index.ts';
import {
  domainNone,
  domainOf,
  domainUnknown,
  launcherDead,
  node,
  nowMs,
  observationOf,
  seen,
  uid,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';
import { asSource, asTarget, remembered } from '../../../../fixtures/agent/remembered.ts';
import { noMigration } from '../../../../fixtures/no-migration.ts';
import { phases } from './situations.ts';

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

const ago = fc.integer({ min: 0, max: 400_000 }).map((ms) => nowMs - ms);
const baseTime = Date.parse('2026-01-02T03:04:05Z');
export const time = fc
  .integer({ min: -100, max: 100 })
  .map((seconds) => `${new Date(baseTime + seconds * 1000).toISOString().slice(0, 19)}Z`);
export const timestamp = fc.option(time, { nil: null });
const migrationUid = fc.constantFrom('m1', 'm2');
const ports = fc.constantFrom({ '40000': 0, '40001': 49_152 } as const, { '50000': 0, '50001': 49_152 } as const);

const notes: fc.Arbitrary<MigrationMetadata | null> = fc.option(
  fc
    .record({
      UID: fc.constantFrom('m1', 'm2', ''),
      StartTimestamp: timestamp,
      EndTimestamp: fc.option(fc.oneof(time, fc.constant('garbage')), { nil: null }),
      Failed: fc.boolean(),
      AbortStatus: fc.constantFrom<MigrationMetadata['AbortStatus']>('', 'Aborting', 'Succeeded', 'Failed'),
      Mode: fc.constantFrom<MigrationMetadata['Mode']>('', 'PreCopy', 'PostCopy', 'Paused'),
    })
    .map((given) => ({ ...noMigration, ...given })),
  { nil: null },
);

const domainView: fc.Arbitrary<DomainView> = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom<DomainView>(domainNone, launcherDead, domainUnknown, { kind: 'absent' }) },
  {
    weight: 3,
    arbitrary: fc
      .record({
        status: fc.constantFrom(...statuses),
        reason: fc.constantFrom(...reasons),
        migration: notes,
        grace: fc.option(
          fc.record({
            DeletionGracePeriodSeconds: fc.nat(60),
            DeletionTimestamp: timestamp,
            MarkedForGracefulShutdown: fc.option(fc.boolean(), { nil: null }),
          }),
          { nil: null },
        ),
      })
      .map(({ status, reason, grace, migration }) =>
        seen(domainOf(status, reason, { GracePeriod: grace, Migration: migration })),
      ),
  },
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

const tries = { firstTryMs: ago, lastTryMs: ago };

const asTheTarget = fc
  .tuple(
    fc.record(
      {
        ...{ preparedMs: ago, ...tries, refusal: fc.constant('no'), endedSeenMs: ago, signalled: fc.boolean() },
        finalized: fc.constant({}),
      },
      { requiredKeys: [] },
    ),
    migrationUid,
  )
  .map(([flat, ofMigration]) => asTarget(flat, ofMigration));

const asTheSource = fc
  .tuple(
    fc.record(
      {
        ...{ firstTryMs: ago, sentMs: ago, refusal: fc.constant('no') },
        ...{ unheardSinceMs: ago, cancelledMs: ago, overSeenMs: ago },
        ...{ postCopySinceMs: ago, resumedMs: ago, spentMs: fc.nat(120_000) },
      },
      { requiredKeys: [] },
    ),
    migrationUid,
  )
  .map(([flat, ofMigration]) => asSource(flat, ofMigration));

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
      missingSinceMs: ago,
      askedAgainMs: ago,
      ioRetry: fc.record({ lastMs: ago, waitMs: fc.nat(180_000) }),
      migration: fc.oneof(asTheTarget, asTheSource),
    },
    { requiredKeys: [] },
  )
  .map(remembered);

const migrationProxies: fc.Arbitrary<ProxiesView> = fc.record(
  {
    supported: fc.constant(true),
    unavailable: fc.option(fc.constant('virt-handler is leaving'), { nil: undefined }),
    address: fc.constant('10.0.0.1'),
    targetPorts: ports,
    hasSource: fc.boolean(),
    sourceEnded: fc.record({ migrationUid, reason: fc.constant('stream frozen') }),
    sourceStalledSeconds: fc.nat(60),
    ...{ resumeMs: fc.nat(120_000), stallMs: fc.nat(30_000) },
  },
  { requiredKeys: ['supported', 'unavailable', 'address', 'hasSource'] },
);

const aNode = fc.constantFrom(node, 'node2');

/** As the API server checks them, and, now and then, anything at all. */
const migrationState = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record(
      {
        migrationUid,
        sourceNode: aNode,
        targetNode: aNode,
        startTimestamp: time,
        endTimestamp: time,
        completed: fc.boolean(),
        failed: fc.boolean(),
        abortRequested: fc.boolean(),
        mode: fc.constantFrom('PreCopy', 'PostCopy', 'Paused'),
        targetNodeAddress: fc.constantFrom('10.0.0.1', '10.0.0.2'),
        targetDirectMigrationNodePorts: ports,
        targetNodeDomainDetected: fc.boolean(),
        targetNodeDomainReadyTimestamp: time,
        targetState: fc.constantFrom({}, { syncAddress: '10.1.1.1:9185' }),
        sourceState: fc.constantFrom({}, { syncAddress: '10.1.1.1:9185' }),
      },
      { requiredKeys: ['migrationUid', 'sourceNode'] },
    ),
  },
  {
    weight: 1,
    arbitrary: fc.dictionary(
      fc.constantFrom(
        'migrationUid',
        'startTimestamp',
        'endTimestamp',
        'failed',
        'completed',
        'targetState',
        'sourceState',
        'sourceNode',
        'targetDirectMigrationNodePorts',
        'targetNodeAddress',
        'migrationConfiguration',
      ),
      fc.jsonValue(),
    ),
  },
  { weight: 1, arbitrary: fc.jsonValue() },
);

const ownVmi: fc.Arbitrary<VirtualMachineInstance> = fc
  .record({
    phase: fc.constantFrom(...phases),
    deleted: fc.boolean(),
    grace: fc.option(fc.nat(60), { nil: undefined }),
    owner: fc.oneof({ weight: 3, arbitrary: fc.constant(node) }, { weight: 2, arbitrary: fc.constant('node2') }),
    target: fc.option(aNode, { nil: undefined }),
    state: fc.option(migrationState, { nil: undefined }),
    waits: fc.integer({ min: 0, max: 9 }).map((chance) => chance === 0),
    conditions: fc.subarray(['HotVCPUChange', 'HotMemoryChange', 'MigrationRequired', 'VolumesChange']),
  })
  .map(({ phase, deleted, grace, owner, target, state, waits, conditions }) => {
    const vmi = vmiOf(phase, { status: { nodeName: owner } });
    vmi.metadata.labels = { 'kubevirt.io/nodeName': owner };
    if (target) vmi.metadata.labels['kubevirt.io/migrationTargetNodeName'] = target;
    if (waits) vmi.metadata.annotations = { 'kubevirt.io/create-migration-target': 'true' };
    if (deleted) vmi.metadata.deletionTimestamp = '2026-01-02T03:04:00Z';
    if (grace === undefined) delete vmi.spec.terminationGracePeriodSeconds;
    else vmi.spec.terminationGracePeriodSeconds = grace;
    const list = conditions.map((type) => ({ type, status: 'True' as const }));
    vmi.status = { ...vmi.status, conditions: list };
    if (state !== undefined) Object.assign(vmi.status, { migrationState: state });
    return vmi;
  });

/** As `observe` does it. */
export function observed(stored: VirtualMachineInstance): Observation['vmi'] {
  return { kind: 'present', stored, ...readableVmi(stored) };
}

const elsewhere = vmiOf('Running', { status: { nodeName: 'node2' } });
elsewhere.metadata.labels = { 'kubevirt.io/nodeName': 'node2' };

const vmiView: fc.Arbitrary<Observation['vmi']> = fc.oneof(
  {
    weight: 1,
    arbitrary: fc.constantFrom<Observation['vmi']>(
      { kind: 'deleted' },
      { kind: 'unclear', reason: 'away' },
      { kind: 'elsewhere', vmi: elsewhere },
    ),
  },
  { weight: 6, arbitrary: ownVmi.map(observed) },
);

/** Anything that `observe` can deliver about one VMI, likely or not. */
export const observation: fc.Arbitrary<Observation> = fc
  .record(
    {
      vmi: vmiView,
      domain: domainView,
      launcher: launcherState,
      memory,
      migrationProxies,
      ghost: fc.constant({ name: 'vm1', namespace: 'default', uid, socketFile: '/pods/pod-1/sock' }),
    },
    { requiredKeys: ['vmi', 'domain', 'launcher', 'memory', 'migrationProxies'] },
  )
  .map((given) => observationOf(given));
