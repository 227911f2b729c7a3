import { domainOf, launcherDead, nowMs } from '../../../../../fixtures/agent/builders.ts';
import { asSource } from '../../../../../fixtures/agent/remembered.ts';
import { deleting, launcherEnded, leaving, migration, over, published, reported, started } from './leaving.ts';
import { memory, type Row } from './row.ts';

const missing = { mode: 'PostCopy', failureReason: 'the guest waits for its memory' };
const halfWay = { ...launcherDead, lastDomain: domainOf('Paused', 'PostcopyFailed') };

/** The guest has left, or may have. */
export const handOverRows: readonly Row[] = [
  {
    rule: 'hand-over-awaited',
    when: 'the guest has left',
    given: { vmi: leaving(started), domain: reported(over, 'Shutoff', 'Migrated') },
    expect: { steps: [], requeueAfterMs: 90_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the user is told while it lasts',
    given: {
      vmi: leaving(started),
      domain: reported(over, 'Shutoff', 'Migrated'),
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
    given: { vmi: leaving(started), domain: reported({}, 'Shutoff', 'Unknown') },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 10_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the API server was away until a moment ago',
    given: {
      vmi: leaving(started),
      domain: reported(over, 'Shutoff', 'Migrated'),
      memory: memory({ migration: asSource({ overSeenMs: nowMs - 600_000 }), writeFailedMs: nowMs - 1_000 }),
    },
    expect: { steps: [], requeueAfterMs: 89_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the launcher ended in post-copy, and the target says that memory is missing there: it may have arrived this moment',
    given: { vmi: leaving({ ...started, ...missing }), ...launcherEnded, domain: halfWay },
    expect: { steps: [], requeueAfterMs: 15_000 },
  },
  {
    rule: 'hand-over-never-came',
    when: 'the launcher ended in post-copy, and memory is missing at the target still',
    given: {
      vmi: leaving({ ...started, ...missing }),
      ...launcherEnded,
      domain: halfWay,
      memory: migration({ overSeenMs: nowMs - 30_000 }),
    },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the launcher ended in post-copy, and the target does not say that memory is missing',
    given: {
      vmi: leaving({ ...started, mode: 'PostCopy' }),
      ...launcherEnded,
      domain: halfWay,
      memory: migration({ overSeenMs: nowMs - 30_000 }),
    },
    expect: { steps: [], requeueAfterMs: 60_000 },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the launcher ended after its guest had left, and the target’s word that memory is missing is old',
    given: {
      vmi: leaving({ ...started, ...missing }),
      ...launcherEnded,
      domain: { ...launcherDead, lastDomain: domainOf('Shutoff', 'Migrated') },
      memory: migration({ overSeenMs: nowMs - 30_000 }),
    },
    expect: { steps: [], requeueAfterMs: 60_000 },
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
    given: { vmi: deleting(started), domain: reported(over, 'Shutoff', 'Migrated') },
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
      memory: memory({
        migration: asSource(),
        shutdown: { firstMs: nowMs - 2_000, deadlineMs: nowMs + 28_000, lastSignalMs: nowMs - 2_000 },
      }),
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
      domain: reported(over, 'Shutoff', 'Migrated'),
      memory: migration({ overSeenMs: nowMs - 200_000 }),
    },
    expect: { steps: [], requeueAfterMs: 400_000 },
  },
  {
    rule: 'hand-over-never-came',
    when: 'the target node was silent for ten minutes',
    given: {
      vmi: leaving(started),
      domain: reported(over, 'Shutoff', 'Migrated'),
      memory: migration({ overSeenMs: nowMs - 600_000 }),
    },
    expect: { steps: [], phase: 'Failed', requeueAfterMs: 0 },
  },
  {
    rule: 'hand-over-never-came',
    when: 'the VMI is deleted and the target node was silent for three minutes',
    given: {
      vmi: deleting(started),
      domain: reported(over, 'Shutoff', 'Migrated'),
      memory: migration({ overSeenMs: nowMs - 180_000 }),
    },
    expect: { steps: [], phase: 'Failed', requeueAfterMs: 0 },
  },
];
