import { memoryMissing } from '../../../../../../src/agent/vmi/decide/migration/target-rules.ts';
import type { Observation } from '../../../../../../src/agent/vmi/observe/index.ts';
import type {
  DomainReason,
  DomainStatus,
  MigrationMetadata,
  MigrationState,
  VirtualMachineInstance,
} from '../../../../../../src/api/index.ts';
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
} from '../../../../../fixtures/agent/builders.ts';
import { asTarget, remembered } from '../../../../../fixtures/agent/remembered.ts';
import { noMigration } from '../../../../../fixtures/no-migration.ts';
import { ghost, memory, predecessor, type Row, ready } from './row.ts';

const targetLabel = 'kubevirt.io/migrationTargetNodeName';
const begun = { startTimestamp: '2026-01-02T03:04:00Z' };
const ended = { ...begun, endTimestamp: '2026-01-02T03:05:00Z' };
const failed = { ...ended, failed: true, completed: true };
const ports = { '40000': 0, '40001': 49_152 } as const;
const published = { targetNodeAddress: '10.0.0.1', targetDirectMigrationNodePorts: ports };
const absent = { kind: 'absent' } as const;

type Change = (vmi: VirtualMachineInstance) => void;

/** A VMI of node2 that is to come here. */
export function coming(state: MigrationState = {}, change: Change = () => undefined): Observation['vmi'] {
  const vmi = vmiOf('Running', { status: { nodeName: 'node2' } });
  vmi.metadata.labels = { 'kubevirt.io/nodeName': 'node2', [targetLabel]: node };
  const migrationState = { migrationUid: 'm1', sourceNode: 'node2', targetNode: node, ...state };
  vmi.status = { ...vmi.status, migrationState };
  change(vmi);
  return presentVmi(vmi);
}

/** The same after the hand-over. */
export function here(state: MigrationState = ended, change: Change = () => undefined): Observation['vmi'] {
  return coming(state, (vmi) => {
    vmi.metadata.labels = { 'kubevirt.io/nodeName': node, [targetLabel]: node };
    vmi.status = { ...vmi.status, nodeName: node };
    change(vmi);
  });
}

const deletedVmi: Change = ({ metadata }) => {
  metadata.deletionTimestamp = '2026-01-02T03:04:00Z';
};
const finalVmi: Change = ({ status }) => Object.assign(status ?? {}, { phase: 'Failed' });

const notes = (more: Partial<MigrationMetadata> = {}) => ({
  Migration: { ...noMigration, UID: 'm1', StartTimestamp: '2026-01-02T03:04:00Z', ...more },
});
const over = notes({ EndTimestamp: '2026-01-02T03:05:00Z' });
const incomingDomain = (status: DomainStatus = 'Paused', reason: DomainReason = 'Migration', metadata = notes()) =>
  seen(domainOf(status, reason, metadata));

const own = (more: Parameters<typeof asTarget>[0] = {}) => remembered({ migration: asTarget(more) });
const open = { ...observationOf().migrationProxies, targetPorts: ports };
const closed = observationOf().migrationProxies;
const refusing = { ...closed, unavailable: 'virt-handler is leaving' };
const done = { preparedMs: nowMs - 1_000, firstTryMs: nowMs - 1_000, lastTryMs: nowMs - 1_000 };

const switched = {
  ...published,
  ...begun,
  mode: 'PostCopy',
  targetNodeDomainDetected: true,
  targetNodeDomainReadyTimestamp: begun.startTimestamp,
};
const inPostCopy = {
  vmi: coming(switched),
  domain: incomingDomain('Running', 'Unknown', notes({ Mode: 'PostCopy' })),
  memory: own(done),
};

/** Something was prepared here for the VMI. */
const kept = { ghost, domain: domainNone, memory: own(done) };

const takingBack: readonly Row[] = [
  {
    rule: 'target-deleted-on-arrival',
    when: 'the VMI is deleted while the guest runs here and its last pages still come',
    given: { vmi: coming(begun, deletedVmi), domain: incomingDomain('Running', 'Unknown'), migrationProxies: open },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'target-streams-over',
    when: 'the migration failed and its streams are open',
    given: { ...kept, vmi: coming(failed), migrationProxies: open },
    expect: { steps: ['closeTargetProxies'], requeueAfterMs: 0 },
  },
  {
    rule: 'target-streams-over',
    when: 'the VMI is deleted in pre-copy, while its guest still runs on the source',
    given: { vmi: coming(begun, deletedVmi), domain: incomingDomain(), migrationProxies: open, memory: own(done) },
    expect: { steps: ['closeTargetProxies'] },
  },
  {
    rule: 'target-post-copy-failed',
    when: 'the guest was lost half-way and its owner has not seen it yet',
    given: { vmi: coming(failed), domain: incomingDomain('Paused', 'PostcopyFailed', over), memory: own(done) },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'target-end-launcher-awaited',
    when: 'the migration was refused before the launcher had a socket: its pod must be told to go',
    given: {
      vmi: coming(failed),
      domain: absent,
      launcher: { kind: 'not-ready', forMs: 60_000 },
      memory: own({ endedSeenMs: nowMs - 60_000 }),
    },
    expect: { steps: [], requeueAfterMs: 1_000 },
  },
  {
    rule: 'target-end-not-probed',
    when: 'the agent was started again after the migration failed',
    given: { vmi: coming(failed), domain: absent, launcher: ready, ghost, memory: remembered() },
    expect: { steps: ['ensureLauncherConnection'] },
  },
  {
    rule: 'target-end-unknown',
    when: 'the launcher gives no answer after the failure',
    given: { vmi: coming(failed), domain: domainUnknown, ghost, memory: own(done) },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 5_000 },
  },
  {
    rule: 'target-end-unknown',
    when: 'the VMI is deleted and nobody can say whether its guest has just arrived: its streams stay open',
    given: { vmi: coming(begun, deletedVmi), domain: domainUnknown, memory: own(done), migrationProxies: open },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'target-pod-may-go',
    when: 'the migration failed and the launcher waits for a guest',
    given: { ...kept, vmi: coming(failed) },
    expect: { steps: ['signalTargetPodCleanup'] },
  },
  {
    rule: 'target-domain-still-there',
    when: 'the pod was told to go and its domain is still there',
    given: { vmi: coming(failed), domain: incomingDomain(), memory: own({ signalled: true }) },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'target-label-dropped',
    when: 'a domain stays for long: the rules for orphans go on waiting for its end',
    given: {
      vmi: coming(failed),
      domain: incomingDomain(),
      memory: own({ signalled: true, endedSeenMs: nowMs - 30_000 }),
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-cleaned-up',
    when: 'the pod was told to go',
    given: { ...kept, vmi: coming(failed), memory: own({ ...done, signalled: true }) },
    expect: { steps: ['cleanUp'] },
  },
  {
    rule: 'target-cleaned-up',
    when: 'the pod is gone already',
    given: {
      vmi: coming(failed),
      domain: launcherDead,
      launcher: { kind: 'dead', reason: 'gone' },
      ghost,
      memory: own(done),
    },
    expect: { steps: ['cleanUp'] },
  },
  {
    rule: 'target-label-dropped',
    when: 'nothing of the failed migration is left here',
    given: {
      vmi: coming(failed),
      domain: absent,
      memory: remembered({ migration: asTarget({ signalled: true }), cleaned: true }),
    },
    expect: { steps: [] },
  },
  {
    rule: 'target-nothing-left',
    when: 'a deleted VMI was never prepared for here',
    given: {
      vmi: coming({}, deletedVmi),
      domain: absent,
      launcher: { kind: 'not-ready', forMs: 1 },
      memory: remembered(),
    },
    expect: { steps: [] },
  },
  {
    rule: 'target-nothing-left',
    when: 'the label names this node and there is no migration',
    given: { vmi: coming({ migrationUid: '' }), domain: absent, memory: remembered() },
    expect: { steps: [] },
  },
  {
    rule: 'target-pod-may-go',
    when: 'the VMI is final and a domain of it lives here',
    given: { vmi: coming(begun, finalVmi), domain: incomingDomain('Running', 'Unknown'), memory: own(done) },
    expect: { steps: ['signalTargetPodCleanup'] },
  },
];

const receiving: readonly Row[] = [
  {
    rule: 'predecessor-dead',
    when: 'an earlier VMI of the name left traces on the target node',
    given: { vmi: coming(), domain: absent, predecessor: predecessor(absent, { kind: 'dead', reason: 'gone' }) },
    expect: { steps: ['cleanUp'], route: 'migration-target' },
  },
  {
    rule: 'target-predecessor-in-the-way',
    when: 'an earlier VMI of the name still runs on the target node',
    given: { vmi: coming(), domain: absent, predecessor: predecessor(seen(domainOf(), 'old'), ready) },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'target-earlier-streams',
    when: 'streams of another migration are open',
    given: { ...kept, vmi: coming(), memory: memory({ migration: asTarget({}, 'm0') }), migrationProxies: open },
    expect: { steps: ['closeTargetProxies'], requeueAfterMs: 0 },
  },
  {
    rule: 'target-begun',
    when: 'an earlier agent opened the streams of this very migration: they stay, and what was prepared for it',
    given: { ...kept, vmi: coming(), memory: memory(), migrationProxies: { ...open, targetMigration: 'm1' } },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-earlier-domain',
    when: 'the guest migrated away from here once and comes back',
    given: { vmi: coming(), domain: incomingDomain('Shutoff', 'Migrated', notes({ UID: 'm0' })), memory: remembered() },
    expect: { steps: ['deleteDomain'] },
  },
  {
    rule: 'target-earlier-attempt',
    when: 'a record of an earlier migration is left',
    given: { ...kept, vmi: coming(), memory: memory({ migration: asTarget({}, 'm0') }) },
    expect: { steps: ['cleanUp'], requeueAfterMs: 0 },
  },
  {
    rule: 'target-begun',
    when: 'the VMI was just handed to this node',
    given: { vmi: coming(), domain: absent, memory: memory({ cleaned: true }) },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-not-probed',
    when: 'the launcher was never asked',
    given: { vmi: coming(), domain: absent, launcher: ready, memory: own() },
    expect: { steps: ['ensureLauncherConnection'], requeueAfterMs: 0 },
  },
  {
    rule: 'target-launcher-not-ready',
    when: 'the launcher has no socket yet',
    given: { vmi: coming(), domain: absent, launcher: { kind: 'not-ready', forMs: 10 }, memory: own() },
    expect: { steps: [], requeueAfterMs: 1_000 },
  },
  {
    rule: 'target-launcher-gone',
    when: 'the launcher died before the guest came',
    given: {
      vmi: coming(published),
      domain: launcherDead,
      launcher: { kind: 'dead', reason: 'ended' },
      memory: own(done),
      migrationProxies: open,
    },
    expect: { steps: ['closeTargetProxies'] },
  },
  {
    rule: 'target-launcher-awaited',
    when: 'two sockets claim the VMI',
    given: { vmi: coming(), domain: absent, launcher: { kind: 'unclear', reason: 'two' }, memory: own() },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'target-domain-unknown',
    when: 'the launcher gives no answer',
    given: { vmi: coming(), domain: domainUnknown, memory: own() },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 10_000 },
  },
  {
    rule: 'target-prepare',
    when: 'the launcher is there and has no guest',
    given: { vmi: coming(), domain: domainNone, memory: own() },
    expect: { steps: ['prepareMigrationTarget'], requeueAfterMs: 0 },
  },
  {
    rule: 'target-streams-due',
    when: 'the launcher is ready for the guest',
    given: { vmi: coming(), domain: domainNone, memory: own(done) },
    expect: { steps: ['openTargetProxies'], requeueAfterMs: 0 },
  },
  {
    rule: 'target-publish',
    when: 'the streams are open',
    given: { ...kept, vmi: coming(), migrationProxies: open },
    expect: { steps: [] },
  },
  {
    rule: 'target-publish',
    when: 'the address is known and the ports are those of an agent before this one',
    given: {
      ...kept,
      vmi: coming({ ...published, targetDirectMigrationNodePorts: { '30000': 0, '30001': 49_152 } }),
      migrationProxies: open,
    },
    expect: { steps: [] },
  },
  {
    rule: 'target-waits',
    when: 'all is told',
    given: { ...kept, vmi: coming(published), migrationProxies: open },
    expect: { steps: [] },
  },
  {
    rule: 'target-streams-lost',
    when: 'the guest runs here in post-copy, and what carried its memory has ended',
    given: { ...inPostCopy, migrationProxies: closed },
    expect: { steps: ['openTargetProxies'], requeueAfterMs: 0 },
  },
  {
    rule: 'target-publish-again',
    when: 'the streams of a guest in post-copy have other ports than before',
    given: { ...inPostCopy, migrationProxies: { ...open, targetPorts: { '40002': 0, '40003': 49_152 } } },
    expect: { steps: [] },
  },
  {
    rule: 'target-memory-missing',
    when: 'its streams broke: the source node learns what the end of its launcher would mean',
    given: {
      ...inPostCopy,
      domain: incomingDomain('Running', 'Unknown', notes({ Mode: 'PostCopy', FailureReason: 'post-copy broke' })),
      migrationProxies: open,
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-memory-missing',
    when: 'its streams broke, as libvirt before 8.5 shows it',
    given: {
      ...inPostCopy,
      domain: incomingDomain('Paused', 'PostcopyFailed', notes({ Mode: 'PostCopy' })),
      migrationProxies: open,
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-under-way',
    when: 'its streams broke, which is written',
    given: {
      ...inPostCopy,
      vmi: coming({ ...switched, failureReason: memoryMissing }),
      domain: incomingDomain('Running', 'Unknown', notes({ Mode: 'PostCopy', FailureReason: 'post-copy broke' })),
      migrationProxies: open,
    },
    expect: { steps: [] },
  },
  {
    rule: 'target-memory-comes',
    when: 'its memory comes again',
    given: {
      ...inPostCopy,
      vmi: coming({ ...switched, failureReason: memoryMissing }),
      migrationProxies: open,
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-under-way',
    when: 'the source has begun',
    given: { ...kept, vmi: coming({ ...published, ...begun }), migrationProxies: open },
    expect: { steps: [] },
  },
  {
    rule: 'target-under-way',
    when: 'the agent was started again meanwhile: its ports are closed and nothing can be told any more',
    given: { ...kept, vmi: coming({ ...published, ...begun }), memory: own() },
    expect: { steps: [] },
  },
  {
    rule: 'target-under-way',
    when: 'nothing was heard of the guest for a while: events may be lost, and the source waits for this node',
    given: {
      ...kept,
      vmi: coming({ ...published, ...begun }),
      migrationProxies: open,
      domain: { kind: 'gone', uid, proof: 'launcher-says-none', seenMs: -100_000 },
    },
    expect: { steps: ['refreshDomain'], requeueAfterMs: 15_000 },
  },
  {
    rule: 'target-started-unseen',
    when: 'the source has begun and the launcher here is not there to be asked',
    given: {
      vmi: coming(begun),
      domain: absent,
      launcher: { kind: 'unclear', reason: '?' },
      memory: own(),
    },
    expect: { steps: [], requeueAfterMs: 5_000 },
  },
  {
    rule: 'target-progress',
    when: 'the domain is there and waits for memory',
    given: { vmi: coming(begun), domain: incomingDomain(), memory: own(done), migrationProxies: open },
    expect: { steps: [] },
  },
  {
    rule: 'target-progress',
    when: 'the guest runs and the launcher has not called the migration over yet',
    given: {
      vmi: coming({ ...begun, targetNodeDomainDetected: true }),
      domain: incomingDomain('Running', 'Unknown'),
      memory: own(done),
      migrationProxies: open,
    },
    expect: { steps: [] },
  },
  {
    rule: 'target-hand-over',
    when: 'the guest runs here and the launcher calls the migration over',
    given: {
      vmi: coming(begun),
      domain: incomingDomain('Running', 'Unknown', over),
      memory: own(done),
      migrationProxies: open,
    },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-hand-over',
    when: 'the guest arrived paused by its user',
    given: { vmi: coming(begun), domain: incomingDomain('Paused', 'User', over), memory: remembered() },
    expect: { steps: [] },
  },
  {
    rule: 'target-hand-over',
    when: 'the VMI is being deleted: the guest is adopted, then shut down',
    given: { vmi: coming(begun, deletedVmi), domain: incomingDomain('Running', 'Unknown', over), memory: remembered() },
    expect: { steps: [] },
  },
  {
    rule: 'target-arrival-failed',
    when: 'the launcher calls the migration over and its domain was taken away',
    given: { vmi: coming(begun), domain: incomingDomain('Shutoff', 'Destroyed', over), memory: own(done) },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-arrival-failed',
    when: 'the VMI says that the migration is over, and there is no guest here',
    given: { vmi: coming(ended), domain: domainNone, memory: own(done) },
    expect: { steps: [] },
  },
];

const refusingRows: readonly Row[] = [
  {
    rule: 'target-refused',
    when: 'this agent is leaving and has prepared nothing',
    given: { vmi: coming(), domain: absent, memory: own(), migrationProxies: refusing },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-refused',
    when: 'this node carries no migrations',
    given: { vmi: coming(), domain: absent, memory: own(), migrationProxies: { ...refusing, supported: false } },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'target-not-probed',
    when: 'this agent is leaving, but one before it told the source where to send the guest: is it here?',
    given: { vmi: coming(published), domain: absent, launcher: ready, memory: own(), migrationProxies: refusing },
    expect: { steps: ['ensureLauncherConnection'] },
  },
  {
    rule: 'target-waits',
    when: 'this agent is leaving and has prepared: what is open goes on',
    given: { ...kept, vmi: coming(published), migrationProxies: { ...open, unavailable: 'leaving' } },
    expect: { steps: [] },
  },
  {
    rule: 'target-refusal-awaited',
    when: 'the launcher has just refused',
    given: {
      vmi: coming(),
      domain: domainNone,
      memory: own({ refusal: 'no', firstTryMs: nowMs - 6_000, lastTryMs: nowMs - 1_000 }),
    },
    expect: { steps: [], requeueAfterMs: 4_000 },
  },
  {
    rule: 'target-given-up',
    when: 'the launcher has refused for 20 seconds',
    given: {
      vmi: coming(),
      domain: domainNone,
      memory: own({ refusal: 'no', firstTryMs: nowMs - 20_000, lastTryMs: nowMs - 5_000 }),
    },
    expect: { steps: [] },
  },
  {
    rule: 'target-given-up',
    when: 'nothing has worked for three minutes',
    given: { vmi: coming(), domain: domainNone, memory: own({ firstTryMs: nowMs - 180_000, lastTryMs: nowMs }) },
    expect: { steps: [] },
  },
  {
    rule: 'target-abort-requested',
    when: 'the migration is cancelled before anything was prepared',
    given: { vmi: coming({ abortRequested: true }), domain: domainNone, memory: own() },
    expect: { steps: [] },
  },
];

const arriving: readonly Row[] = [
  {
    rule: 'arrived-finalize',
    when: 'the VMI is this node’s and its migration not completed',
    given: {
      vmi: here(),
      domain: incomingDomain('Running', 'Unknown', over),
      memory: own(done),
      migrationProxies: open,
    },
    expect: { steps: ['finalizeMigration'], route: 'migration-arrived', requeueAfterMs: 0 },
  },
  {
    rule: 'arrived-finalized',
    when: 'the launcher has finalized',
    given: { vmi: here(), domain: incomingDomain('Running', 'Unknown', over), memory: own({ finalized: {} }) },
    expect: { steps: [], healthy: true },
  },
  {
    rule: 'arrived-streams-over',
    when: 'the migration is completed and its streams are open',
    given: { vmi: here({ ...ended, completed: true }), memory: own(done), migrationProxies: open },
    expect: { steps: ['closeTargetProxies'] },
  },
  {
    rule: 'arrived-streams-over',
    when: 'the migration is completed, and the label went before this agent saw it: another agent of this node was there',
    given: {
      vmi: presentVmi(vmiOf('Running', { status: { migrationState: { ...ended, completed: true } } })),
      memory: own(done),
      migrationProxies: open,
    },
    expect: { steps: ['closeTargetProxies'] },
  },
  {
    rule: 'arrived-label-dropped',
    when: 'the migration is completed',
    given: { vmi: here({ ...ended, completed: true }), memory: own(done) },
    expect: { steps: [], requeueAfterMs: 0 },
  },
  {
    rule: 'guest-stopped',
    when: 'a guest that arrived is shut down before its migration is finalized',
    given: { vmi: here(), domain: incomingDomain('Shutoff', 'Shutdown', over), memory: own(done) },
    expect: { steps: [], phase: 'Succeeded', route: 'migration-arrived' },
  },
  {
    rule: 'post-copy-failed',
    when: 'a guest is lost after its VMI was handed over',
    given: { vmi: here(), domain: incomingDomain('Paused', 'PostcopyFailed', over), memory: own(done) },
    expect: { phase: 'Failed' },
  },
  {
    rule: 'shutdown-signal-due',
    when: 'a guest that arrived is deleted before its migration is finalized',
    given: { vmi: here(ended, deletedVmi), domain: incomingDomain('Running', 'Unknown', over), memory: own(done) },
    expect: { steps: ['shutdownDomain'], route: 'migration-arrived' },
  },
  {
    rule: 'migration-in-progress',
    when: 'a VMI waits for a guest from another cluster',
    given: { vmi: waiting('WaitingForSync'), domain: domainNone, memory: remembered() },
    expect: { steps: [] },
  },
  {
    rule: 'waiting-for-sync',
    when: 'it runs by its phase, and its launcher has no guest',
    given: { vmi: waiting('Running', { ...ended, completed: true }), domain: domainNone, memory: remembered() },
    expect: { steps: [], phase: 'WaitingForSync' },
  },
  {
    rule: 'waiting-for-sync-failed',
    when: 'the migration that it waited for has failed',
    given: { vmi: waiting('Running', failed), domain: domainNone, memory: remembered() },
    expect: { steps: [] },
  },
];

/** A VMI of this node that was made to receive a guest of another cluster. */
function waiting(phase: 'WaitingForSync' | 'Running', migrationState?: MigrationState): Observation['vmi'] {
  const vmi = vmiOf(phase);
  vmi.metadata.annotations = { 'kubevirt.io/create-migration-target': 'true' };
  if (migrationState) vmi.status = { ...vmi.status, migrationState };
  return presentVmi(vmi);
}

/** Rules for a node that is asked to receive a guest, and for the guest that came. */
export const targetRows: readonly Row[] = [...receiving, ...refusingRows, ...takingBack, ...arriving];
