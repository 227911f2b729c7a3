import type { Observation } from '../../../../../../src/agent/vmi/observe/index.ts';
import type { DomainReason, DomainStatus, MigrationMetadata } from '../../../../../../src/api/index.ts';
import {
  domainOf,
  launcherDead,
  nowMs,
  observationOf,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../../../fixtures/agent/builders.ts';
import { asSource } from '../../../../../fixtures/agent/remembered.ts';
import { noMigration } from '../../../../../fixtures/no-migration.ts';
import { deleted, memory, migrating } from './row.ts';

/** Parts of situations of a VMI that is to leave this node. */

const ports = { '40000': 0, '40001': 49_152 };
export const published = { targetNodeAddress: '10.0.0.2', targetDirectMigrationNodePorts: ports };
export const started = { startTimestamp: '2026-01-02T03:04:00Z', mode: 'PreCopy' };

export const leaving = (more: object = {}, status: object = {}) =>
  presentVmi(vmiOf('Running', { status: { migrationState: { ...migrating, ...more }, ...status } }));
export const deleting = (more: object = {}) =>
  presentVmi(vmiOf('Running', { ...deleted, status: { migrationState: { ...migrating, ...more } } }));

/** What the launcher tells of migration m1; the domain runs unless it is told otherwise. */
export const reported = (
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
export const over = { EndTimestamp: '2026-01-02T03:05:00Z' };
export const launcherEnded = { domain: launcherDead, launcher: { kind: 'dead', reason: 'ended' } } as const;
export const migration = (more: Parameters<typeof asSource>[0] = {}) => memory({ migration: asSource(more) });
export const { migrationProxies } = observationOf();
export const open: Observation['migrationProxies'] = { ...migrationProxies, hasSource: true };
