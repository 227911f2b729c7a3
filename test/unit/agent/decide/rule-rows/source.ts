import type { Observation } from '../../../../../src/agent/observe/index.ts';
import type { DomainReason, DomainStatus, MigrationMetadata } from '../../../../../src/api/index.ts';
import {
  domainOf,
  launcherDead,
  node,
  nowMs,
  observationOf,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';
import { noMigration } from '../../../../fixtures/no-migration.ts';
import { deleted, memory, migrating, type Row } from './row.ts';

const ports = { '40000': 0, '40001': 49_152 };
const published = { targetNodeAddress: '10.0.0.2', targetDirectMigrationNodePorts: ports };
const started = { startTimestamp: '2026-01-02T03:04:00Z', mode: 'PreCopy' };

const leaving = (more: object = {}, status: object = {}) =>
  presentVmi(vmiOf('Running', { status: { migrationState: { ...migrating, ...more }, ...status } }));
const deleting = (more: object = {}) =>
  presentVmi(vmiOf('Running', { ...deleted, status: { migrationState: { ...migrating, ...more } } }));

/** What the launcher tells of migration m1; the domain runs unless it is told otherwise. */
const told = (
  more: Partial<MigrationMetadata> = {},
  status: DomainStatus = 'Running',
  reason: DomainReason = 'Unknown',
  seenMs = nowMs,
) =>
  seen(
    domainOf(status, reason, {
      Migration: { ...noMigration, UID: 'm1', StartTimestamp: '2026-01-02T03:04:00Z', Mode: 'PreCopy', ...more },
    }),
    uid,
    seenMs,
  );
const over = { EndTimestamp: '2026-01-02T03:05:00Z' };
const launcherEnded = { domain: launcherDead, launcher: { kind: 'dead', reason: 'ended' } } as const;
const migration = (more: object = {}) => memory({ migration: { migrationUid: 'm1', ...more } });
const { relays } = observationOf();
const open: Observation['relays'] = { ...relays, hasSource: true };

/** Rules of a VMI that is to leave this node. */
export const sourceRows: readonly Row[] = [
  {
    rule: 'source-relays-left',
    when: 'the migration is over in the API server',
    given: { vmi: leaving({ endTimestamp: '2026-01-02T03:05:00Z', failed: true }), relays: open, memory: migration() },
    expect: { steps: ['closeSourceRelays'], requeueAfterMs: 0, route: 'migration-source' },
  },
  {
    rule: 'source-relays-left',
    when: 'they were opened for an earlier migration',
    given: {
      vmi: leaving(published),
      relays: open,
      memory: memory({ migration: { migrationUid: 'm0', sentMs: nowMs } }),
    },
    expect: { steps: ['closeSourceRelays'] },
  },
  {
    rule: 'source-relays-left',
    when: 'the VMI is deleted while its guest is copied',
    given: { vmi: deleting({ ...published, ...started }), domain: told(), relays: open, memory: migration() },
    expect: { steps: ['closeSourceRelays'] },
  },
  {
    rule: 'shutdown-signal-due',
    when: 'the VMI is deleted in post-copy: its streams stay, half of the guest is on the other side',
    given: {
      vmi: deleting({ ...published, ...started }),
      domain: told({ Mode: 'PostCopy' }, 'Paused', 'Postcopy'),
      relays: open,
      memory: migration(),
    },
    expect: { route: 'migration-source' },
  },
  {
    rule: 'source-relays-left',
    when: 'the launcher says that it is over',
    given: { vmi: leaving(started), domain: told(over, 'Shutoff', 'Migrated'), relays: open, memory: migration() },
    expect: { steps: ['closeSourceRelays'] },
  },
  {
    rule: 'migration-decentralised',
    when: 'the guest is to go to another cluster',
    given: { vmi: leaving({ sourceState: { syncAddress: '1.2.3.4:9185' }, targetState: { node: 'x' } }) },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'steady',
    when: 'the user was told that the guest cannot go to another cluster',
    given: {
      vmi: leaving({ ...published, sourceState: {}, targetState: { syncAddress: '1.2.3.4:9185' } }),
      memory: memory({ toldMigrationUid: 'm1' }),
    },
    expect: { route: 'migration-source' },
  },
  {
    rule: 'migration-failed',
    when: 'the launcher gave up',
    given: { vmi: leaving(started), domain: told({ ...over, Failed: true, FailureReason: 'no route' }) },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'migration-progress',
    when: 'the launcher has begun',
    given: { vmi: leaving(published), domain: told() },
    expect: { steps: [] },
  },
  {
    rule: 'migration-progress',
    when: 'the guest has left before anybody wrote that it began',
    given: { vmi: leaving(published), domain: told(over, 'Shutoff', 'Migrated') },
    expect: { steps: [] },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the guest has left',
    given: { vmi: leaving(started), domain: told(over, 'Shutoff', 'Migrated') },
    expect: { steps: [], requeueAfterMs: 90_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the user is told while it lasts',
    given: {
      vmi: leaving(started),
      domain: told(over, 'Shutoff', 'Migrated'),
      memory: migration({ overSeenMs: nowMs - 90_000 }),
    },
    expect: { steps: [], requeueAfterMs: 510_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the launcher ended in the middle of the migration',
    given: { vmi: leaving(started), ...launcherEnded },
    expect: { steps: [], requeueAfterMs: 90_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the domain is shut off in the middle of the migration, and says no reason',
    given: { vmi: leaving(started), domain: told({}, 'Shutoff', 'Unknown') },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 10_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the API server was away until a moment ago',
    given: {
      vmi: leaving(started),
      domain: told(over, 'Shutoff', 'Migrated'),
      memory: { ...migration({ overSeenMs: nowMs - 600_000 }), writeFailedMs: nowMs - 1_000 },
    },
    expect: { steps: [], requeueAfterMs: 89_000 },
  },
  {
    rule: 'domain-lost',
    when: 'the guest crashed in the middle of the migration, and then its launcher ended',
    given: {
      vmi: leaving(started),
      ...launcherEnded,
      domain: { ...launcherDead, lastDomain: domainOf('Crashed', 'Panicked') },
    },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the guest has left and the VMI is deleted',
    given: { vmi: deleting(started), domain: told(over, 'Shutoff', 'Migrated') },
    expect: { steps: [] },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the guest has left, its launcher ended and the VMI is deleted',
    given: {
      vmi: deleting(started),
      ...launcherEnded,
      domain: { ...launcherDead, lastDomain: domainOf('Shutoff', 'Migrated') },
    },
    expect: { steps: [], requeueAfterMs: 90_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the launcher ended on the way and the VMI is deleted: the guest may have arrived',
    given: { vmi: deleting(started), ...launcherEnded },
    expect: { steps: [], requeueAfterMs: 15_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the launcher ended after the guest was asked to shut down: it may have left before it could',
    given: {
      vmi: deleting(started),
      ...launcherEnded,
      memory: {
        ...migration(),
        shutdown: { firstMs: nowMs - 2_000, deadlineMs: nowMs + 28_000, lastSignalMs: nowMs - 2_000 },
      },
    },
    expect: { steps: [], requeueAfterMs: 15_000 },
  },
  {
    rule: 'domain-lost',
    when: 'the launcher ended on the way, the VMI is deleted and no target tells of the guest',
    given: {
      vmi: deleting(started),
      ...launcherEnded,
      memory: migration({ overSeenMs: nowMs - 30_000 }),
    },
    expect: { phase: 'Failed', route: 'migration-source' },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the launcher ended while it was told to migrate: the order may have come through',
    given: {
      vmi: leaving(published),
      ...launcherEnded,
      memory: migration({ firstTryMs: nowMs - 500 }),
    },
    expect: { steps: [], requeueAfterMs: 15_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'an agent that was started again finds the launcher dead and the guest seen on the target',
    given: {
      vmi: leaving({ ...published, targetNodeDomainDetected: true }),
      ...launcherEnded,
    },
    expect: { steps: [], requeueAfterMs: 90_000 },
  },
  {
    rule: 'domain-lost',
    when: 'the launcher ended after an order of which no target tells anything',
    given: {
      vmi: leaving(published),
      ...launcherEnded,
      memory: migration({ firstTryMs: nowMs - 31_000, overSeenMs: nowMs - 30_000 }),
    },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the VMI is deleted, the target node has seen the guest and is silent for long',
    given: {
      vmi: deleting({ ...started, targetNodeDomainDetected: true }),
      domain: told(over, 'Shutoff', 'Migrated'),
      memory: migration({ overSeenMs: nowMs - 200_000 }),
    },
    expect: { steps: [], requeueAfterMs: 400_000 },
  },
  {
    rule: 'hand-over-never-came',
    when: 'the target node was silent for ten minutes',
    given: {
      vmi: leaving(started),
      domain: told(over, 'Shutoff', 'Migrated'),
      memory: migration({ overSeenMs: nowMs - 600_000 }),
    },
    expect: { steps: [], phase: 'Failed', requeueAfterMs: 0 },
  },
  {
    rule: 'hand-over-never-came',
    when: 'the VMI is deleted and the target node was silent for three minutes',
    given: {
      vmi: deleting(started),
      domain: told(over, 'Shutoff', 'Migrated'),
      memory: migration({ overSeenMs: nowMs - 180_000 }),
    },
    expect: { steps: [], phase: 'Failed', requeueAfterMs: 0 },
  },
  {
    rule: 'migration-aborted-before-start',
    when: 'it is cancelled while the target prepares',
    given: { vmi: leaving({ abortRequested: true }) },
    expect: { steps: [] },
  },
  {
    rule: 'migration-refused-here',
    when: 'this build has no relays',
    given: { vmi: leaving(published), relays: { ...relays, supported: false, unavailable: 'there are none' } },
    expect: { steps: [] },
  },
  {
    rule: 'migration-running',
    when: 'the agent is leaving while the guest is copied',
    given: { vmi: leaving(started), domain: told(), relays: { ...open, unavailable: 'leaving' }, memory: migration() },
    expect: { steps: [] },
  },
  {
    rule: 'migration-refused-by-launcher',
    when: 'the launcher said no',
    given: { vmi: leaving(published), memory: migration({ refusal: 'not supported' }) },
    expect: { steps: [] },
  },
  {
    rule: 'migration-ports-unusable',
    when: 'a port is none',
    given: { vmi: leaving({ ...published, targetDirectMigrationNodePorts: { '70000': 0, '1': 49_152 } }) },
    expect: { steps: [] },
  },
  {
    rule: 'migration-start-given-up',
    when: 'every try failed for five minutes',
    given: { vmi: leaving(published), memory: migration({ firstTryMs: nowMs - 300_000 }) },
    expect: { steps: [] },
  },
  {
    rule: 'migration-start-due',
    when: 'the ports are published',
    given: { vmi: leaving(published) },
    expect: { steps: ['openSourceRelays', 'migrateVirtualMachine'] },
  },
  {
    rule: 'migration-start-due',
    when: 'the launcher still tells of an earlier migration that failed',
    given: { vmi: leaving(published), domain: told({ ...over, UID: 'm0', Failed: true }) },
    expect: { steps: ['openSourceRelays', 'migrateVirtualMachine'] },
  },
  {
    rule: 'migration-ports-awaited',
    when: 'the target prepares',
    given: { vmi: leaving() },
    expect: { steps: [], requeueAfterMs: 30_000, healthy: true },
  },
  {
    rule: 'vmi-changed',
    when: 'the target prepares and the VMI has changed meanwhile',
    given: { vmi: leaving(), syncFingerprint: 'other' },
    expect: { route: 'migration-source' },
  },
  {
    rule: 'migration-lost',
    when: 'the launcher was asked for a minute and knows of none',
    given: { vmi: leaving(started), memory: migration({ unheardSinceMs: nowMs - 60_000 }) },
    expect: { steps: [] },
  },
  {
    rule: 'migration-unheard',
    when: 'the launcher took the order this moment',
    given: { vmi: leaving(published), memory: migration({ sentMs: nowMs }) },
    expect: { steps: [], requeueAfterMs: 1_000 },
  },
  {
    rule: 'migration-unheard',
    when: 'it began under an earlier agent and the launcher does not tell of it',
    given: {
      vmi: leaving(started),
      domain: seen(domainOf(), uid, nowMs - 2_000),
      memory: migration({ unheardSinceMs: nowMs - 1_000 }),
    },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'migration-unheard',
    when: 'the launcher was asked this moment',
    given: { vmi: leaving(started), memory: migration({ unheardSinceMs: nowMs - 20_000 }) },
    expect: { steps: [], requeueAfterMs: 10_000 },
  },
  {
    rule: 'migration-unheard',
    when: 'the launcher tells of a domain with nothing inside for long: that says nothing',
    given: {
      vmi: leaving(started),
      domain: seen(domainOf('Running', 'Unknown', { UID: '' }), uid, nowMs - 10_000),
      memory: migration({ unheardSinceMs: nowMs - 600_000 }),
    },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'migration-running',
    when: 'its pod is to end: the guest has a better place to go to',
    given: {
      vmi: leaving({ ...published, ...started }),
      domain: seen(
        domainOf('Running', 'Unknown', {
          GracePeriod: { DeletionGracePeriodSeconds: 30, DeletionTimestamp: null, MarkedForGracefulShutdown: true },
          Migration: { ...noMigration, UID: 'm1', StartTimestamp: started.startTimestamp, Mode: 'PreCopy' },
        }),
      ),
      memory: migration({ sentMs: nowMs - 5_000 }),
      relays: open,
    },
    expect: { steps: [] },
  },
  {
    rule: 'migration-abort-due',
    when: 'the migration is cancelled',
    given: { vmi: leaving({ ...started, abortRequested: true }), domain: told() },
    expect: { steps: ['cancelMigration'] },
  },
  {
    rule: 'migration-abort-due',
    when: 'an abort failed and its time is over',
    given: {
      vmi: leaving({ ...started, abortRequested: true, abortStatus: 'Failed' }),
      domain: told({ AbortStatus: 'Failed' }),
      memory: migration({ cancelledMs: nowMs - 5_000 }),
    },
    expect: { steps: ['cancelMigration'] },
  },
  {
    rule: 'migration-abort-awaited',
    when: 'the abort was sent and nothing is told of it yet',
    given: {
      vmi: leaving({ ...started, abortRequested: true }),
      domain: told(),
      memory: migration({ cancelledMs: nowMs - 1_000 }),
    },
    expect: { steps: [], requeueAfterMs: 4_000 },
  },
  ...(['Aborting', 'Succeeded'] as const).flatMap((AbortStatus): Row[] => [
    {
      rule: 'migration-running',
      when: `the launcher says that the abort is ${AbortStatus}`,
      given: { vmi: leaving({ ...started, abortRequested: true }), domain: told({ AbortStatus }) },
      expect: { steps: [] },
    },
    {
      rule: 'migration-running',
      when: `the VMI says that the abort is ${AbortStatus}`,
      given: { vmi: leaving({ ...started, abortRequested: true, abortStatus: AbortStatus }), domain: told() },
      expect: { steps: [] },
    },
  ]),
  {
    rule: 'migration-running',
    when: 'the migration is cancelled in post-copy, which nothing can abort',
    given: {
      vmi: leaving({ ...started, mode: 'PostCopy', abortRequested: true }),
      domain: told({ Mode: 'PostCopy' }, 'Paused', 'Postcopy'),
    },
    expect: { steps: [] },
  },
  {
    rule: 'migration-running',
    when: 'the VMI has changed meanwhile: nothing is synced',
    given: { vmi: leaving(started), domain: told(), syncFingerprint: 'other' },
    expect: { steps: [] },
  },
  {
    rule: 'guest-stopped',
    when: 'a guest ends while it is copied',
    given: { vmi: leaving(started), domain: told({}, 'Shutoff', 'Shutdown') },
    expect: { phase: 'Succeeded', route: 'migration-source' },
  },
  {
    rule: 'domain-unknown',
    when: 'the launcher of a guest that is copied cannot be asked',
    given: {
      vmi: leaving(started),
      domain: { kind: 'unknown', uid, reason: 'no answer', sinceMs: nowMs, seenMs: nowMs },
      relays: open,
      memory: migration(),
    },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'migration-over-unexplained',
    when: 'the launcher says it is done and shows the guest running',
    given: { vmi: leaving(started), domain: told(over, 'Running', 'Unknown', nowMs - 10_000) },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'migration-over-unexplained',
    when: 'it was asked again this moment',
    given: { vmi: leaving(started), domain: told(over) },
    expect: { steps: [], requeueAfterMs: 10_000 },
  },
  {
    rule: 'migration-in-progress',
    when: 'another node is the source of the migration that the VMI shows',
    given: { vmi: leaving({ sourceNode: `${node}-not` }), domain: told() },
    expect: { route: 'default' },
  },
  {
    rule: 'migration-in-progress',
    when: 'the agent was started again, and nobody can tell yet whether the launcher of the guest lives',
    given: { vmi: leaving(started), domain: { kind: 'absent' }, launcher: { kind: 'not-ready', forMs: 100 } },
    expect: { steps: [], requeueAfterMs: 10_000 },
  },
];
