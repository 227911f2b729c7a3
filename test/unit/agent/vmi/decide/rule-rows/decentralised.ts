import type { Observation } from '../../../../../../src/agent/vmi/observe/index.ts';
import type { DomainReason, DomainStatus, MigrationMetadata, MigrationState } from '../../../../../../src/api/index.ts';
import {
  domainNone,
  domainOf,
  nowMs,
  observationOf,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../../../fixtures/agent/builders.ts';
import { asTarget, remembered } from '../../../../../fixtures/agent/remembered.ts';
import { noMigration } from '../../../../../fixtures/no-migration.ts';
import { leaving, migration, open as openSource, over, published, reported, started } from './leaving.ts';
import { migrating, type Row } from './row.ts';
import { here } from './target.ts';

const ended = { endTimestamp: '2026-01-02T03:05:00Z' };
const begun = { startTimestamp: '2026-01-02T03:04:00Z' };

/** The other side's controller has told of the target's node. */
export const toElsewhere = {
  sourceState: { migrationUID: 'm1' },
  targetState: { syncAddress: '10.9.9.9:9185', nodeAddress: '10.0.0.2', migrationUID: 't1' },
};
export const fromElsewhere = {
  sourceState: { syncAddress: '10.9.9.9:9185', migrationUID: 's1', virtualMachineInstanceUID: 'uid-of-the-other' },
  targetState: { migrationUID: 'm1' },
};

/** A VMI of this node that a guest of another one is to become; its source has a node of this name, too. */
export function receiving(state: MigrationState, transport = 'Unix'): Observation['vmi'] {
  return here({ ...state, sourceNode: 'node1' }, (vmi) => {
    vmi.metadata.annotations = { 'kubevirt.io/create-migration-target': 'true' };
    vmi.status = { ...vmi.status, phase: 'Scheduled', ...(transport && { migrationTransport: transport }) };
  });
}

const gone = reported(over, 'Shutoff', 'Migrated');
const ports = { '40000': 0, '40001': 49_152 } as const;
const open = { ...observationOf().migrationProxies, targetPorts: ports, targetMigration: 'm1' };
const done = { preparedMs: nowMs - 1_000, firstTryMs: nowMs - 1_000, lastTryMs: nowMs - 1_000 };
const prepared = remembered({ migration: asTarget(done) });
/** As the launcher here notes it: with the UID of the source's migration object. */
const incoming = (status: DomainStatus, reason: DomainReason, more: Partial<MigrationMetadata> = {}) =>
  seen(
    domainOf(status, reason, {
      Migration: { ...noMigration, UID: 's1', ...begun, StartTimestamp: begun.startTimestamp, ...more },
    }),
  );
const arrived = incoming('Running', 'Unknown', { EndTimestamp: ended.endTimestamp });
const waits = { domain: domainNone, memory: prepared };

/** As its user has marked it, whose guest runs here and leaves for a node of its own cluster. */
const marked = (more: object) => {
  const vmi = vmiOf('Running', { status: { migrationState: { ...migrating, ...more } } });
  vmi.metadata.annotations = { 'kubevirt.io/create-migration-target': 'true' };
  return presentVmi(vmi);
};

const leavingRows: readonly Row[] = [
  {
    rule: 'migration-start-due',
    when: 'its user has marked a VMI as a receiver whose guest runs, and it moves within its cluster',
    given: { vmi: marked(published) },
    expect: { steps: ['openSourceProxies', 'migrateVirtualMachine'], route: 'migration-source' },
  },
  {
    rule: 'migration-unheard',
    when: 'its user has marked it while its guest moves: the streams stay open',
    given: { vmi: marked({ ...published, ...started }), migrationProxies: { ...openSource, sourceMigration: 'm1' } },
    expect: { route: 'migration-source' },
  },
  {
    rule: 'migration-start-due',
    when: 'the guest is to become that of a VMI elsewhere, which is ready',
    given: { vmi: leaving({ ...published, ...toElsewhere }) },
    expect: { steps: ['openSourceProxies', 'migrateVirtualMachine'], route: 'migration-source' },
  },
  {
    rule: 'migration-start-due',
    when: 'the synchronization controller here has started anew, and written its own address, too',
    given: {
      vmi: leaving({
        ...published,
        ...toElsewhere,
        sourceState: { ...toElsewhere.sourceState, syncAddress: '10.8.8.8:9185', virtualMachineInstanceUID: uid },
      }),
    },
    expect: { steps: ['openSourceProxies', 'migrateVirtualMachine'], route: 'migration-source' },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the guest has left, and the target elsewhere has told when it arrived, but not that all is done',
    given: { vmi: leaving({ ...published, ...started, ...toElsewhere, ...ended }), domain: gone },
    expect: { steps: [], route: 'migration-source' },
  },
  {
    rule: 'hand-over-awaited',
    when: 'the guest has left to elsewhere, and no word came for an hour: a VM would start it a second time',
    given: {
      vmi: leaving({ ...published, ...started, ...toElsewhere }),
      domain: gone,
      memory: migration({ overSeenMs: nowMs - 3_600_000 }),
    },
    expect: { steps: [], requeueAfterMs: 600_000 },
  },
  {
    rule: 'migrated-without-hand-over',
    when: 'the guest has left, and the target elsewhere says that it does not run there',
    given: { vmi: leaving({ ...published, ...started, ...toElsewhere, ...ended, failed: true }), domain: gone },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'sent-away',
    when: 'the guest runs elsewhere, and its migration is completed there',
    given: { vmi: leaving({ ...published, ...started, ...toElsewhere, ...ended, completed: true }), domain: gone },
    expect: { steps: [], phase: 'Succeeded', route: 'migration-source' },
  },
  {
    rule: 'sent-away',
    when: 'its launcher has ended meanwhile',
    given: {
      vmi: leaving({ ...published, ...started, ...toElsewhere, ...ended, completed: true }),
      domain: domainNone,
    },
    expect: { phase: 'Succeeded' },
  },
  {
    rule: 'sent-away-still-here',
    when: 'the guest runs elsewhere by the word from there, and here, too',
    given: { vmi: leaving({ ...published, ...started, ...toElsewhere, ...ended, completed: true }) },
    expect: { steps: [] },
  },
  {
    rule: 'source-proxies-left',
    when: 'the target elsewhere has failed the migration',
    given: {
      vmi: leaving({ ...published, ...started, ...toElsewhere, ...ended, completed: true, failed: true }),
      migrationProxies: openSource,
    },
    expect: { steps: ['closeSourceProxies'] },
  },
];

const comingRows: readonly Row[] = [
  {
    rule: 'target-source-unknown',
    when: 'the other side has not told where the guest comes from',
    given: { vmi: receiving({}), ...waits },
    expect: { steps: [], requeueAfterMs: 5_000, route: 'migration-target' },
  },
  {
    rule: 'target-source-unknown',
    when: 'the way of the streams is not known',
    given: { vmi: receiving(fromElsewhere, ''), ...waits },
    expect: { steps: [] },
  },
  {
    rule: 'target-streams-due',
    when: 'the launcher is ready for a guest of another VMI, although this one belongs to this node already',
    given: { vmi: receiving(fromElsewhere), ...waits },
    expect: { steps: ['openTargetProxies'], route: 'migration-target' },
  },
  {
    rule: 'target-streams-due',
    when: 'the synchronization controller here has started anew, and written its own address, too',
    given: {
      vmi: receiving({
        ...fromElsewhere,
        targetState: { ...fromElsewhere.targetState, syncAddress: '10.8.8.8:9185', virtualMachineInstanceUID: uid },
      }),
      ...waits,
    },
    expect: { steps: ['openTargetProxies'], route: 'migration-target' },
  },
  {
    rule: 'target-start-of-before',
    when: 'an earlier migration from elsewhere has left its begin',
    given: {
      vmi: here({ ...fromElsewhere, ...begun }, (vmi) => {
        vmi.metadata.annotations = { 'kubevirt.io/create-migration-target': 'true' };
        vmi.status = { ...vmi.status, phase: 'WaitingForSync', migrationTransport: 'Unix' };
      }),
      ...waits,
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-under-way',
    when: 'the guest of another VMI comes',
    given: {
      vmi: receiving({ ...fromElsewhere, ...begun, targetNodeDomainDetected: true }),
      domain: incoming('Paused', 'Migration'),
      memory: prepared,
      migrationProxies: open,
    },
    expect: { steps: [], route: 'migration-target' },
  },
  {
    rule: 'target-aborted-before-start',
    when: 'the migration is cancelled before its source has begun',
    given: { vmi: receiving({ ...fromElsewhere, abortRequested: true }), ...waits, migrationProxies: open },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-abort-awaited',
    when: 'the migration is cancelled and its source has begun: the streams stay until that has ended it',
    given: { vmi: receiving({ ...fromElsewhere, ...begun, abortRequested: true }), ...waits, migrationProxies: open },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'target-arrival-failed',
    when: 'of an end at the source only its time comes over',
    given: { vmi: receiving({ ...fromElsewhere, ...ended }), ...waits, migrationProxies: open },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-arrival-failed',
    when: 'the launcher says with the UID of the source’s migration that it has failed',
    given: {
      vmi: receiving({ ...fromElsewhere, ...begun }),
      domain: incoming('Shutoff', 'Failed', { EndTimestamp: ended.endTimestamp, Failed: true }),
      memory: prepared,
      migrationProxies: open,
    },
    expect: { steps: [] },
  },
  {
    rule: 'target-streams-over',
    when: 'the VMI is deleted before the guest has come',
    given: {
      vmi: deletedVmi(receiving(fromElsewhere)),
      ...waits,
      migrationProxies: open,
    },
    expect: { steps: ['closeTargetProxies'], route: 'migration-target' },
  },
  {
    rule: 'deleted-without-domain',
    when: 'the VMI is deleted, and nothing of a migration is open any more',
    given: { vmi: deletedVmi(receiving(fromElsewhere)), ...waits },
    expect: { route: 'migration-arrived' },
  },
  {
    rule: 'target-hand-over',
    when: 'the guest of another VMI has arrived',
    given: {
      vmi: receiving({ ...fromElsewhere, ...begun }),
      domain: arrived,
      memory: prepared,
      migrationProxies: open,
    },
    expect: { steps: [], route: 'migration-target' },
  },
  {
    rule: 'arrived-finalize',
    when: 'its arrival is written',
    given: {
      vmi: receiving({ ...fromElsewhere, ...begun, ...ended }),
      domain: arrived,
      memory: prepared,
      migrationProxies: open,
    },
    expect: { steps: ['finalizeMigration'], route: 'migration-arrived' },
  },
  {
    rule: 'arrived-label-dropped',
    when: 'its migration is completed: the VMI waits for none any more',
    given: { vmi: receiving({ ...fromElsewhere, ...begun, ...ended, completed: true }), domain: arrived },
    expect: { steps: [], route: 'migration-arrived' },
  },
];

function deletedVmi(view: Observation['vmi']): Observation['vmi'] {
  if (view.kind === 'present') view.vmi.metadata.deletionTimestamp = begun.startTimestamp;
  return view;
}

/** Rules of a migration between two VMI objects. */
export const decentralisedRows: readonly Row[] = [...leavingRows, ...comingRows];
