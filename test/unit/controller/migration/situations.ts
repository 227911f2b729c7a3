import {
  type ConditionState,
  type MigrationState,
  migrationPhases,
  type Pod,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
  type VmiPhase,
} from '../../../../src/api/index.ts';
import type { PluggedVolumes, PresentMigration, Target } from '../../../../src/controller/migration/observation.ts';
import { retryDue } from '../../../../src/controller/migration/plan.ts';
import { buildConfig, buildPod, buildRunningPod, buildVmi } from '../builders.ts';

type Migration = VirtualMachineInstanceMigration;
type Phase = NonNullable<NonNullable<Migration['status']>['phase']>;

export const now = new Date('2026-01-01T00:10:00Z');
export const uid = 'uid-job';
export const phases = migrationPhases;

export function buildMigration(phase: Phase = 'Pending', more: Partial<Migration> = {}): Migration {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstanceMigration',
    metadata: {
      name: 'job',
      namespace: 'default',
      uid,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:09:00Z',
      labels: { 'kubevirt.io/vmi-name': 'vm1' },
    },
    spec: { vmiName: 'vm1' },
    ...(phase !== '' && {
      status: {
        phase,
        phaseTransitionTimestamps: [{ phase, phaseTransitionTimestamp: '2026-01-01T00:09:30Z' }],
        migrationState: { sourcePod: 'virt-launcher-vm1-abcde' },
      },
    }),
    ...more,
  };
}

const job = { labels: { 'kubevirt.io/migrationJobUID': uid }, name: 'target', uid: 'uid-target' };

export function buildTarget(pod: Pod = buildRunningPod(), node: string | undefined = 'node2'): Pod {
  const { nodeName: _node, ...spec } = pod.spec;
  const creationTimestamp = '2026-01-01T00:09:10Z';
  return {
    ...pod,
    metadata: { ...pod.metadata, ...job, creationTimestamp },
    spec: { ...spec, ...(node !== undefined && { nodeName: node }) },
  };
}

export const unscheduled = buildTarget(
  buildPod({
    phase: 'Pending',
    conditions: [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/2 nodes are available' },
    ],
  }),
  '',
);

export const there = (pod: Pod): Target => ({ kind: 'pod', pod, isRecorded: true });

export function runningVmi(state?: MigrationState, more: Partial<VirtualMachineInstance['status']> = {}) {
  const conditions = [{ type: 'LiveMigratable', status: 'True' } as const];
  const migrationState = state && { migrationState: state };
  return buildVmi({}, { phase: 'Running', nodeName: 'node1', runtimeUser: 0, conditions, ...migrationState, ...more });
}

/** It brings the volume `a` to the target. */
export function buildAttachment(status: Pod['status'] = { phase: 'Pending' }): Pod {
  const metadata = { name: 'hp-volume-a', uid: 'uid-attachment', creationTimestamp: '2026-01-01T00:09:20Z' };
  const pod = buildPod(status, metadata);
  return { ...pod, spec: { ...pod.spec, volumes: [{ name: 'a', persistentVolumeClaim: { claimName: 'claim' } }] } };
}

const none: PluggedVolumes = { claims: [], inMotion: [], attachments: [], left: [] };

/** What a decision is taken on; nothing stands in the way of the migration unless said. */
export function observed(phase: Phase, more: Partial<PresentMigration> = {}): PresentMigration {
  return {
    kind: 'present',
    key: 'default/job',
    uid,
    now,
    migration: buildMigration(phase),
    vmi: runningVmi(),
    sourcePod: buildRunningPod(),
    nodeLabels: { 'kubernetes.io/hostname': 'node1' },
    claims: new Map(),
    keptState: { sources: [], target: undefined },
    target: { kind: 'none' },
    leftovers: [],
    rival: undefined,
    activePods: 1,
    plugged: none,
    running: { cluster: 0, outbound: 0 },
    isTurn: true,
    backoffMs: 0,
    superseded: [],
    retry: { limit: 1, newer: undefined },
    config: buildConfig(),
    ...more,
  };
}

const own = (more: MigrationState = {}): MigrationState => ({
  migrationUid: uid,
  sourceNode: 'node1',
  targetNode: 'node2',
  targetPod: 'target',
  ...more,
});
const prepared = { targetNodeAddress: '10.0.0.2' };
const begun = { ...prepared, startTimestamp: '2026-01-01T00:09:40Z' };
const ended = { ...begun, completed: true, endTimestamp: '2026-01-01T00:09:50Z' };
const ready = there(buildTarget());
const labelled = (state: MigrationState): VirtualMachineInstance => {
  const vmi = runningVmi(state);
  return { ...vmi, metadata: { ...vmi.metadata, labels: { 'kubevirt.io/migrationTargetNodeName': 'node2' } } };
};

/** Where the pod and the agents are. */
export const stages: readonly (readonly [name: string, facts: Partial<PresentMigration>])[] = [
  ['no pod', {}],
  ['pod not shown yet', { target: { kind: 'unseen' } }],
  ['pod not recorded', { target: { kind: 'pod', pod: buildTarget(), isRecorded: false } }],
  ['pod without a node', { target: there(unscheduled) }],
  ['pod starts', { target: there(buildTarget(buildPod({ phase: 'Pending' }))) }],
  ['pod on the node of the guest', { target: there(buildTarget(buildPod(), 'node1')) }],
  ['pod ready', { target: ready }],
  ['pod ended', { target: there(buildTarget(buildPod({ phase: 'Failed', message: 'evicted' }))) }],
  ['handed over', { target: ready, vmi: runningVmi(own()) }],
  ['target ready', { target: ready, vmi: runningVmi(own(prepared)) }],
  ['on its way', { target: ready, vmi: runningVmi(own(begun)) }],
  ['pod gone on its way', { vmi: runningVmi(own(begun)) }],
  ['failed by an agent', { target: ready, vmi: runningVmi(own({ ...ended, failed: true, failureReason: 'cut' })) }],
  ['failed, agent tidies up', { target: ready, vmi: labelled(own({ ...ended, failed: true })) }],
  ['failed in post-copy', { target: ready, vmi: runningVmi(own({ ...ended, failed: true, mode: 'PostCopy' })) }],
  ['arrived', { target: ready, sourcePod: buildTarget(), vmi: runningVmi(own(ended), { nodeName: 'node2' }) }],
  ['taken over', { target: ready, vmi: runningVmi({ ...own(), migrationUid: 'uid-other' }) }],
];

const deleted = (phase: Phase) => {
  const migration = buildMigration(phase);
  return { ...migration, metadata: { ...migration.metadata, deletionTimestamp: '2026-01-01T00:09:59Z' } };
};
const spec = (phase: Phase, fields: object): Partial<PresentMigration> => ({
  migration: buildMigration(phase, { spec: { vmiName: 'vm1', ...fields } }),
});
const vmiWith = (vmi: VirtualMachineInstance, facts: Partial<PresentMigration>): Partial<PresentMigration> => {
  const state = facts.vmi?.status?.migrationState;
  return { vmi: { ...vmi, status: { ...vmi.status, ...(state && { migrationState: state }) } } };
};
/** One half of a migration between two VMI objects, where the cluster has them. */
const halves = {
  source: { sendTo: { migrationID: 'move', connectURL: '10.0.0.9:9185' } },
  target: { receive: { migrationID: 'move' } },
};
export const ends = Object.keys(halves) as readonly (keyof typeof halves)[];

export function halfOf(end: keyof typeof halves, phase: Phase, more: Partial<PresentMigration> = {}): PresentMigration {
  const config = buildConfig({ developerConfiguration: { featureGates: ['DecentralizedLiveMigration'] } });
  const isTarget = end === 'target';
  const there = isTarget ? { vmi: receiver(), sourcePod: undefined, activePods: 0 } : {};
  return observed(phase, { config, ...there, ...spec(phase, halves[end]), ...more });
}

const receiver = (state?: MigrationState, phase: VmiPhase = 'WaitingForSync'): VirtualMachineInstance => {
  const { metadata, status, ...rest } = runningVmi(state, { phase });
  const { nodeName: _node, ...own } = status ?? {};
  return {
    ...rest,
    metadata: { ...metadata, annotations: { 'kubevirt.io/create-migration-target': 'true' } },
    status: own,
  };
};
const sourceFacts = { migrationUID: 'uid-source-job', syncAddress: '10.0.0.8:9185', node: 'node9', pod: 'there' };
const announcedTarget = { targetState: { migrationUID: uid } };
const announcedSource = {
  sourceState: { migrationUID: uid, virtualMachineInstanceUID: 'uid-vmi', domainNamespace: 'default' },
  targetState: { syncAddress: '10.0.0.9:9185' },
};
const joinedSource = {
  ...announcedSource,
  targetState: { ...announcedSource.targetState, migrationUID: 'uid-target-job' },
};
const describedSource = {
  ...joinedSource,
  ...{ migrationUid: uid, sourceNode: 'node1', sourcePod: 'virt-launcher-vm1-abcde' },
  sourceState: {
    ...joinedSource.sourceState,
    ...{ node: 'node1', pod: 'virt-launcher-vm1-abcde', nodeSelectors: { 'kubernetes.io/arch': 'amd64' } },
  },
};
const otherPod = { ...joinedSource.targetState, pod: 'target', node: 'node8' };
const otherReady = { ...otherPod, nodeAddress: '10.0.0.2' };
const pastSource = { ...describedSource, targetNode: 'node8', targetPod: 'target', targetState: otherPod };
const readySource = { ...pastSource, targetNodeAddress: '10.0.0.2', targetState: otherReady };
const started = { startTimestamp: '2026-01-01T00:09:40Z' };
const trouble = {
  conditions: [
    {
      type: 'DecentralizedLiveMigrationFailure',
      status: 'True',
      reason: 'DecentralizedNotLiveMigratable',
      message: 'refused',
    },
  ],
} as const;
const gone = { startTimestamp: '2026-01-01T00:09:40Z', endTimestamp: '2026-01-01T00:09:50Z', completed: true };
const over = { phase: 'Succeeded' } as const;

/** How far both halves are, by the end that is looked at. */
export const halfStages: Readonly<
  Record<keyof typeof halves, readonly (readonly [name: string, facts: Partial<PresentMigration>])[]>
> = {
  source: [
    ['nothing said', {}],
    ['announced', { vmi: runningVmi(announcedSource) }],
    [
      'announced, not reached',
      { vmi: runningVmi(announcedSource, { ...trouble, conditions: [...trouble.conditions] }) },
    ],
    ['other half known', { vmi: runningVmi(joinedSource) }],
    ['other half has failed', { vmi: runningVmi({ ...joinedSource, failed: true, completed: true }) }],
    ['described', { vmi: runningVmi(describedSource) }],
    ['other pod known', { vmi: runningVmi(pastSource) }],
    ['other node ready', { vmi: runningVmi(readySource) }],
    ['on its way', { vmi: runningVmi({ ...readySource, ...started }) }],
    [
      'on its way, other side lost',
      { vmi: runningVmi({ ...readySource, ...started }, { ...trouble, conditions: [...trouble.conditions] }) },
    ],
    ['on its way, VMI over', { vmi: runningVmi({ ...readySource, ...started }, over) }],
    ['has left', { vmi: runningVmi({ ...readySource, ...gone }, over) }],
    ['did not get away', { vmi: runningVmi({ ...readySource, ...gone, failed: true }) }],
    [
      'did not get away, volumes listed',
      { vmi: runningVmi({ ...readySource, ...gone, failed: true }, { migratedVolumes: [{ volumeName: 'disk' }] }) },
    ],
    ['VMI is a receiver', { vmi: receiver() }],
    ['guest not running', { vmi: runningVmi(joinedSource, { phase: 'Scheduled' }) }],
  ],
  target: [
    ['nothing said', {}],
    ['announced', { vmi: receiver(announcedTarget) }],
    ['source known', { vmi: receiver({ ...announcedTarget, sourceState: { ...sourceFacts, node: '' } }) }],
    ['source described', { vmi: receiver({ ...announcedTarget, sourceState: sourceFacts }) }],
    [
      'other half has failed',
      { vmi: receiver({ ...announcedTarget, sourceState: sourceFacts, failed: true, completed: true }) },
    ],
    [
      'pod starts',
      {
        vmi: receiver({ ...announcedTarget, sourceState: sourceFacts }, 'Scheduling'),
        target: there(buildTarget(buildPod())),
      },
    ],
    [
      'pod ready',
      { vmi: { ...receiver({ ...announcedTarget, sourceState: sourceFacts }, 'Scheduled') }, target: ready },
    ],
    [
      'handed over',
      { vmi: receiver({ ...own(), ...announcedTarget, sourceState: sourceFacts }, 'Scheduled'), target: ready },
    ],
    [
      'node ready',
      { vmi: receiver({ ...own(prepared), ...announcedTarget, sourceState: sourceFacts }, 'Scheduled'), target: ready },
    ],
    [
      'abort asked for',
      {
        vmi: receiver(
          { ...own({ ...prepared, abortRequested: true }), ...announcedTarget, sourceState: sourceFacts },
          'Scheduled',
        ),
        target: ready,
      },
    ],
    [
      'on its way',
      { vmi: receiver({ ...own(begun), ...announcedTarget, sourceState: sourceFacts }, 'Scheduled'), target: ready },
    ],
    ['arrived', { vmi: runningVmi({ ...own(ended), ...announcedTarget, sourceState: sourceFacts }), target: ready }],
    [
      'failed',
      {
        vmi: receiver({ ...own({ ...ended, failed: true }), ...announcedTarget, sourceState: sourceFacts }),
        target: ready,
      },
    ],
    [
      'pod ended',
      {
        vmi: receiver({ ...own(), ...announcedTarget, sourceState: sourceFacts }),
        target: there(buildTarget(buildPod({ phase: 'Failed' }))),
      },
    ],
    ['VMI is no receiver', { vmi: runningVmi() }],
  ],
};

export const halfCircumstances: readonly (readonly [
  name: string,
  change: (seen: PresentMigration) => Partial<PresentMigration>,
])[] = [
  ['nothing else', () => ({})],
  [
    'deleted',
    ({ migration }) => ({
      migration: { ...migration, metadata: { ...migration.metadata, deletionTimestamp: '2026-01-01T00:09:59Z' } },
    }),
  ],
  [
    'deleted minutes ago',
    ({ migration }) => ({
      migration: { ...migration, metadata: { ...migration.metadata, deletionTimestamp: '2026-01-01T00:05:00Z' } },
    }),
  ],
  [
    'a moment old',
    ({ migration: { status, ...rest } }) => ({
      migration: { ...rest, status: { ...status, phaseTransitionTimestamps: [] } },
    }),
  ],
  ['gate off', () => ({ config: buildConfig() })],
  ['cluster full', () => ({ running: { cluster: 5, outbound: 0 } })],
  ['no VMI', () => ({ vmi: undefined, sourcePod: undefined })],
];

const refusal = {
  type: 'LiveMigratable',
  status: 'False',
  reason: 'DisksNotLiveMigratable',
  message: 'disk0',
} as const;
const bare = (phase: Phase) => {
  const migration = buildMigration(phase);
  return { ...migration, metadata: { ...migration.metadata, labels: {} } };
};

const plugged: PluggedVolumes = {
  ...none,
  claims: [{ volume: 'a', claim: 'claim', isBlock: true, isMounted: false, claimUid: 'uid-claim' }],
};
const shown = { name: 'hotplug-disk', ready: true, restartCount: 0, image: '', imageID: '' };
const brought = (status: Pod['status']): Partial<PresentMigration> => ({
  plugged: { ...plugged, attachments: [{ pod: buildAttachment(status), isOwn: true }] },
});

/** A loss has ended it. */
export const toBeRetried = (phase: Phase = 'Failed', retry: ConditionState = retryDue) => {
  const migration = buildMigration(phase);
  const conditions = [{ type: 'migrationFailed', status: 'True', reason: 'TargetPodEnded' } as const, retry];
  return { ...migration, status: { ...migration.status, conditions } };
};

type Change = (phase: Phase, facts: Partial<PresentMigration>) => Partial<PresentMigration>;

/** What else is the matter. */
export const circumstances: readonly (readonly [name: string, change: Change])[] = [
  ['nothing else', () => ({})],
  ['deleted', (phase) => ({ migration: deleted(phase) })],
  ['no VMI', () => ({ vmi: undefined, sourcePod: undefined })],
  ['no VMI, deleted', (phase) => ({ vmi: undefined, sourcePod: undefined, migration: deleted(phase) })],
  ['guest ended', (_, facts) => vmiWith(runningVmi(undefined, { phase: 'Succeeded' }), facts)],
  ['guest not running', (_, facts) => vmiWith(runningVmi(undefined, { phase: 'Scheduled' }), facts)],
  ['not migratable', (_, facts) => vmiWith(runningVmi(undefined, { conditions: [refusal] }), facts)],
  ['older migration', () => ({ rival: { name: 'older', hasState: false } })],
  ['other migration under way', () => ({ rival: { name: 'other', hasState: true } })],
  [
    'asks for the node of the guest',
    (phase) => spec(phase, { addedNodeSelector: { 'kubernetes.io/hostname': 'node1' } }),
  ],
  ['between clusters', (phase) => spec(phase, { sendTo: { migrationID: 'x' } })],
  ['without label', (phase) => ({ migration: bare(phase) })],
  ['in back-off', () => ({ backoffMs: 20_000 })],
  ['old pods left', () => ({ activePods: 2 })],
  ['cluster full', () => ({ running: { cluster: 5, outbound: 0 } })],
  ['node full', () => ({ running: { cluster: 2, outbound: 2 } })],
  ['others first', () => ({ isTurn: false })],
  ['source pod unknown', () => ({ sourcePod: undefined })],
  ['after ten minutes more', () => ({ now: new Date('2026-01-01T00:20:00Z') })],
  ['after an hour more', () => ({ now: new Date('2026-01-01T01:10:00Z') })],
  ['other user', (_, facts) => vmiWith(runningVmi(undefined, { runtimeUser: 107 }), facts)],
  ['plugged volumes', () => ({ plugged })],
  ['plugged volumes, their pod starts', () => brought({ phase: 'Pending' })],
  ['plugged volumes, their pod is ready', () => brought({ phase: 'Running', containerStatuses: [shown] })],
  ['plugged volumes, their pod has ended', () => brought({ phase: 'Failed' })],
  ['volumes in motion', () => ({ plugged: { ...none, inMotion: ['a'] } })],
  ['to be tried again', (phase) => ({ migration: toBeRetried(phase) })],
  ['was tried again', (phase) => ({ migration: toBeRetried(phase, { ...retryDue, reason: 'Retried' }) })],
  [
    'to be tried again, another asked for since',
    (phase) => ({ migration: toBeRetried(phase), retry: { limit: 1, newer: 'job-2' } }),
  ],
  ['nothing is tried again', (phase) => ({ migration: toBeRetried(phase), retry: { limit: 0, newer: undefined } })],
  ['pods of plugged volumes left', () => ({ plugged: { ...none, left: [buildAttachment()] } })],
];
