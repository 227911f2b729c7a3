import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  isTriedAgain,
  type MigrationState,
  resources,
  retriedBy,
  retryNameOf,
  type VirtualMachineInstanceMigration,
} from '../../../../src/api/index.ts';
import { decideMigration } from '../../../../src/controller/migration/decide.ts';
import { executors } from '../../../../src/controller/migration/execute.ts';
import type { PresentMigration } from '../../../../src/controller/migration/observation.ts';
import { retryOf } from '../../../../src/controller/migration/retry.ts';
import type { ExecuteContext } from '../../../../src/controller/migration/steps.ts';
import { projectMigration } from '../../../../src/controller/migration/write.ts';
import { KubeError, type KubeErrorCode } from '../../../../src/kube/index.ts';
import { buildPod, buildRunningPod } from '../builders.ts';
import {
  buildAttachment,
  buildMigration,
  buildTarget,
  now,
  observed,
  runningVmi,
  there,
  toBeRetried,
  uid,
} from './situations.ts';

type Migration = VirtualMachineInstanceMigration;

const renderers = { target: () => buildTarget(), attachment: () => buildAttachment() };
const decide = (seen: PresentMigration) => decideMigration(seen, renderers);

const begun: MigrationState = {
  migrationUid: uid,
  sourceNode: 'node1',
  targetNode: 'node2',
  targetPod: 'target',
  targetNodeAddress: '10.0.0.2',
  startTimestamp: '2026-01-01T00:09:40Z',
  mode: 'PreCopy',
};
const reported: MigrationState = {
  ...begun,
  failed: true,
  completed: true,
  endTimestamp: '2026-01-01T00:09:50Z',
  failureReason: 'connection reset',
};
const ready = there(buildTarget());
const longAgo = { rule: 'target-end-awaited', since: new Date(now.getTime() - 60_000) };

/** As it fails: what is stored of it then. */
function failedOf(more: Partial<PresentMigration>): Migration {
  const seen = observed('Running', more);
  return projectMigration(seen, decide(seen).change);
}

const losses: readonly (readonly [cause: string, facts: Partial<PresentMigration>])[] = [
  ['an agent or its launcher reports a loss', { target: ready, vmi: runningVmi(reported) }],
  [
    'the target pod ended on the way',
    { target: there(buildTarget(buildPod({ phase: 'Failed' }))), vmi: runningVmi(begun), lastRule: longAgo },
  ],
  ['the target pod ended before the hand-over', { target: there(buildTarget(buildPod({ phase: 'Failed' }))) }],
  ['the target pod is gone', { vmi: runningVmi(begun), lastRule: longAgo }],
  [
    'the pod that brings plugged volumes ended',
    {
      target: ready,
      plugged: {
        claims: [],
        inMotion: [],
        left: [],
        attachments: [{ pod: buildAttachment({ phase: 'Failed' }), isOwn: true }],
      },
    },
  ],
];

for (const [cause, facts] of losses) {
  test(`a migration that failed is tried again: ${cause}`, () => {
    const failed = failedOf(facts);
    assert.deepEqual([failed.status?.phase, isTriedAgain(failed)], ['Failed', true]);
    const at = (ms: number) => new Date(now.getTime() + ms);
    const seen = observed('Failed', { migration: failed, vmi: runningVmi({ ...begun, ...reported }), now: at(3_000) });
    const early = decide({ ...seen, now: at(1_000) });
    assert.deepEqual([early.rule, early.requeueAfterMs], ['retry-settles', 2_000]);
    const { rule, steps, change } = decide(seen);
    assert.deepEqual([rule, steps], ['retry-due', [{ step: 'tryAgain' }]]);
    const after = projectMigration(seen, change);
    assert.equal(after.status?.conditions?.at(-1)?.message, 'tried again as job-retry-uid-job');
    const next = decide({ ...seen, migration: after });
    assert.ok(!next.steps.some(({ step }) => step === 'tryAgain'), 'once');
  });
}

const annotated = (annotations: Record<string, string>) => (migration: Migration) => {
  return { ...migration, metadata: { ...migration.metadata, annotations } };
};
const deleted = (migration: Migration) => {
  return { ...migration, metadata: { ...migration.metadata, deletionTimestamp: '2026-01-01T00:09:59Z' } };
};
const aimed = (more: object) => (migration: Migration) => ({ ...migration, spec: { ...migration.spec, ...more } });
const noted = (migration: Migration) => {
  const condition = { type: 'migrationAbortRequested', status: 'True' } as const;
  const conditions = [...(migration.status?.conditions ?? []), condition];
  return { ...migration, status: { ...migration.status, conditions } };
};
const paused = (reason: string) => [{ type: 'Paused', status: 'True', reason } as const];
const refusal = { type: 'LiveMigratable', status: 'False', reason: 'DisksNotLiveMigratable' } as const;

interface Obstacle {
  readonly facts?: Partial<PresentMigration>;
  readonly state?: MigrationState;
  readonly migration?: (migration: Migration) => Migration;
}

/** Each of them holds when the migration fails, and when it is to be tried again. */
const obstacles: Readonly<Record<string, Obstacle>> = {
  'it was cancelled': { migration: deleted },
  'an abort was asked for': { state: { abortRequested: true } },
  'an abort was noted': { migration: noted },
  'its launcher aborted it: too late, stuck, or not converging': { state: { abortStatus: 'Succeeded' } },
  'the guest is in post-copy': { state: { mode: 'PostCopy' } },
  'the guest was seen to run on its target': { state: { targetNodeDomainReadyTimestamp: '2026-01-01T00:09:49Z' } },
  'it tried another one again itself': { migration: annotated({ 'virt-controller.kubevirt.io/retry-of': 'job-0' }) },
  'it was made to empty a node': { migration: annotated({ 'kubevirt.io/evacuationMigration': 'node1' }) },
  'it was made to update the VM': { migration: annotated({ 'kubevirt.io/workloadUpdateMigration': '' }) },
  'it leads to another cluster': { migration: aimed({ sendTo: { migrationID: 'x' } }) },
  'another one was asked for since': { facts: { retry: { limit: 1, newer: 'job-2' } } },
  'nothing is tried again here': { facts: { retry: { limit: 0, newer: undefined } } },
  'the VMI is being deleted': {
    facts: {
      vmi: { ...runningVmi(), metadata: { ...runningVmi().metadata, deletionTimestamp: '2026-01-01T00:09:59Z' } },
    },
  },
  'the VMI stopped to be migratable': { facts: { vmi: runningVmi(undefined, { conditions: [refusal] }) } },
  'the guest stands still for its storage': {
    facts: { vmi: runningVmi(undefined, { conditions: paused('PausedIOError') }) },
  },
  'the guest is in another pod: it has moved, or the VMI was made anew': {
    facts: { sourcePod: buildTarget() },
  },
  'nobody knows where the guest is': { facts: { sourcePod: undefined } },
  'the pod of the guest ends': {
    facts: { sourcePod: buildPod({ phase: 'Running' }, { deletionTimestamp: '2026-01-01T00:09:59Z' }) },
  },
  'the pod of the guest has ended': { facts: { sourcePod: buildPod({ phase: 'Failed' }) } },
};

function withObstacle(base: PresentMigration, { facts = {}, state, migration }: Obstacle): PresentMigration {
  const vmi = facts.vmi ?? base.vmi;
  const migrationState = { ...base.vmi?.status?.migrationState, ...state };
  return {
    ...base,
    ...facts,
    ...(vmi && { vmi: { ...vmi, status: { ...vmi.status, migrationState } } }),
    migration: migration ? migration(base.migration) : base.migration,
  };
}

for (const [obstacle, given] of Object.entries(obstacles)) {
  test(`a loss is final when it comes while ${obstacle}`, () => {
    const base = observed('Running', { target: ready, vmi: runningVmi(reported) });
    assert.equal(isTriedAgain(projectMigration(base, decide(base).change)), true);
    const seen = withObstacle(base, given);
    const { rule, change } = decide(seen);
    assert.deepEqual([rule, change.kind], ['reported-failed', 'failed']);
    assert.equal(isTriedAgain(projectMigration(seen, change)), false);
  });

  test(`a retry that is due is not made: ${obstacle}`, () => {
    const base = observed('Failed', { migration: toBeRetried(), vmi: runningVmi(reported) });
    assert.equal(decide(base).rule, 'retry-due');
    const seen = withObstacle(base, given);
    const { rule, steps, change } = decide(seen);
    assert.deepEqual([rule, steps], ['retry-needless', []]);
    const after = projectMigration(seen, change);
    assert.equal(isTriedAgain(after), false);
    assert.match(
      after.status?.conditions?.find(({ type }) => type === 'migrationRetry')?.message ?? '',
      /^not tried again: ./,
    );
  });
}

test('a migration is tried again whoever its owner is, unless that one is its controller', () => {
  const rule = (controller?: boolean) => {
    const migration = toBeRetried();
    const owner = { apiVersion: 'example.com/v1', kind: 'Drain', name: 'd', uid: 'uid-d' };
    migration.metadata.ownerReferences = [{ ...owner, ...(controller !== undefined && { controller }) }];
    return decide(observed('Failed', { migration, vmi: runningVmi(reported) })).rule;
  };
  assert.deepEqual([rule(), rule(false), rule(true)], ['retry-due', 'retry-due', 'retry-needless']);
});

test('a failure that a clock ahead has stamped settles no longer than another one', () => {
  const seen = observed('Failed', { migration: toBeRetried(), vmi: runningVmi(reported) });
  const { rule, requeueAfterMs } = decide({ ...seen, now: new Date('2026-01-01T00:00:00Z') });
  assert.deepEqual([rule, requeueAfterMs], ['retry-settles', 3_000]);
});

test('what a failed migration left goes before it is tried again, and the retry waits for no agent that tidies up', () => {
  const seen = observed('Failed', { migration: toBeRetried(), vmi: runningVmi(reported), target: ready });
  assert.equal(decide(seen).rule, 'target-left');
  const plugged = { claims: [], inMotion: [], attachments: [], left: [buildAttachment()] };
  const gone = { ...seen, target: { kind: 'none' } as const };
  assert.equal(decide({ ...gone, plugged }).rule, 'attachments-left');
  assert.equal(decide({ ...gone, leftovers: [buildTarget()] }).rule, 'unrecorded-left');
  assert.equal(decide(gone).rule, 'retry-due');
  const vmi = runningVmi(reported);
  const labels = { ...vmi.metadata.labels, 'kubevirt.io/migrationTargetNodeName': 'node2' };
  const tidying = { ...seen, vmi: { ...vmi, metadata: { ...vmi.metadata, labels } } };
  assert.equal(decide({ ...tidying, plugged }).rule, 'retry-due');
  assert.equal(decide({ ...tidying, migration: buildMigration('Failed'), plugged }).rule, 'target-tidies-up');
  const early = { ...tidying, migration: buildMigration('Failed'), now: new Date('2026-01-01T00:00:00Z') };
  assert.equal(decide(early).requeueAfterMs, 60_000);
  const later = { ...tidying, now: new Date('2026-01-01T00:10:51Z') };
  assert.equal(decide(later).rule, 'target-left');
});

test('a guest that its user has paused is tried again, and comes late no more than ten minutes', () => {
  const seen = observed('Failed', {
    migration: toBeRetried(),
    vmi: runningVmi(reported, { conditions: paused('PausedByUser') }),
  });
  assert.equal(decide(seen).rule, 'retry-due');
  const after = (ms: number) => decide({ ...seen, now: new Date(Date.parse('2026-01-01T00:09:30Z') + ms) }).rule;
  assert.deepEqual([after(599_000), after(600_000)], ['retry-due', 'retry-needless']);
});

test('what an agent refuses is no loss; what it said of another migration is no word about this one', () => {
  const refused = (of: string) => {
    const vmi = runningVmi(reported);
    const annotations = { 'virt-handler.kubevirt.io/migration-refused': of };
    return failedOf({ target: ready, vmi: { ...vmi, metadata: { ...vmi.metadata, annotations } } });
  };
  assert.equal(isTriedAgain(refused(uid)), false);
  assert.equal(isTriedAgain(refused('uid-other')), true);
});

test('what failed for a reason that stays, and all that failed before there were retries, is left alone', () => {
  const seen = [
    observed('Pending', {
      migration: buildMigration('Pending', {
        spec: { vmiName: 'vm1', addedNodeSelector: { 'kubernetes.io/hostname': 'node1' } },
      }),
    }),
    observed('Scheduling', { target: there(buildTarget(buildPod(), 'node1')) }),
    observed('Scheduling', {
      target: there(buildTarget(buildPod({ phase: 'Pending' }))),
      now: new Date('2026-01-01T01:10:00Z'),
    }),
    observed('PreparingTarget', { target: ready, vmi: runningVmi() }),
    observed('Running', { target: ready, vmi: runningVmi({ ...begun, migrationUid: 'uid-other' }) }),
    observed('Running', { target: ready, vmi: runningVmi(reported, { phase: 'Failed' }) }),
    observed('', { rival: { name: 'other', hasState: true } }),
  ];
  const reasons = seen.map((each) => {
    const { change } = decide(each);
    assert.equal(isTriedAgain(projectMigration(each, change)), false);
    return change.kind === 'failed' ? change.reason : change.kind;
  });
  assert.deepEqual(reasons, [
    'TargetIsSource',
    'TargetOnSourceNode',
    'PendingTooLong',
    'StateCleared',
    'StateTakenOver',
    'VmiEnded',
    'InFlightMigration',
  ]);
  assert.equal(decide(observed('Failed', { vmi: runningVmi(reported) })).rule, 'over');
});

test('the retry has all that a person asks for, says what it tries again, and nothing that tools keep track by', () => {
  const failed = toBeRetried();
  failed.spec = { vmiName: 'vm1', priority: 'user-triggered', addedNodeSelector: { zone: 'a' } };
  const pendingLimit = 'kubevirt.io/migrationPendingPodTimeoutSeconds';
  failed.metadata.annotations = { [pendingLimit]: '60', 'example.com/of-a-tool': 'x' };
  failed.metadata.labels = { ...failed.metadata.labels, 'app.kubernetes.io/instance': 'x' };
  const { metadata, spec, status } = retryOf(failed);
  assert.deepEqual(metadata, {
    name: 'job-retry-uid-job',
    namespace: 'default',
    labels: { 'kubevirt.io/vmi-name': 'vm1' },
    annotations: {
      'kubevirt.io/latest-observed-api-version': 'v1',
      'kubevirt.io/storage-observed-api-version': 'v1',
      [pendingLimit]: '60',
      'virt-controller.kubevirt.io/retry-of': 'job',
    },
    finalizers: ['kubevirt.io/migrationJobFinalize'],
  });
  assert.deepEqual([spec, status], [failed.spec, undefined]);
});

test('the name of a retry follows from name and UID, and is a name however long the first one is', () => {
  const named = (name: string) => retryNameOf({ metadata: { name, uid: '12345678-9abc' } });
  assert.equal(named('job'), 'job-retry-12345678');
  const long = named(`${'a'.repeat(237)}.${'b'.repeat(15)}`);
  assert.equal(long, `${'a'.repeat(237)}-retry-12345678`);
  assert.equal(named('a'.repeat(253)).length, 253);
});

interface Asked {
  readonly create: KubeErrorCode | undefined;
  readonly found?: (wanted: Migration) => Migration;
}

async function tried({ create, found }: Asked) {
  const [made, notes]: [Migration[], string[]] = [[], []];
  const observation = observed('Failed', { migration: toBeRetried() });
  const context = {
    client: {
      create: async (_: unknown, wanted: Migration) => {
        if (create) throw new KubeError(create, 'no');
        return wanted;
      },
      get: async () => found?.(retryOf(observation.migration)),
    },
    migrations: { created: (_: string, migration: Migration) => made.push(migration) },
    observation,
    noteOnVmi: (_: unknown, { reason }: { reason: string }) => notes.push(reason),
    signal: new AbortController().signal,
  };
  const outcome = await executors.tryAgain({ step: 'tryAgain' }, context as unknown as ExecuteContext);
  return { outcome, made: made.map(retriedBy), notes };
}

test('the retry is made, known at once, and told on the migration and its VMI', async () => {
  const { outcome, made, notes } = await tried({ create: undefined });
  assert.deepEqual([outcome.kind, made, notes], ['done', ['job'], ['MigrationRetried']]);
  assert.deepEqual('events' in outcome && outcome.events?.map(({ reason }) => reason), ['MigrationRetried']);
});

test('a retry that is there from a try without an answer is the one; a stranger of its name is not', async () => {
  const own = await tried({ create: 'ALREADY_EXISTS', found: (wanted) => wanted });
  assert.deepEqual([own.outcome.kind, own.made], ['done', ['job']]);
  const stranger = (wanted: Migration) => ({ ...wanted, metadata: { ...wanted.metadata, annotations: {} } });
  const other = await tried({ create: 'ALREADY_EXISTS', found: stranger });
  assert.deepEqual([other.outcome.kind, other.made, other.notes], ['failed', [], []]);
  assert.equal(other.outcome.kind === 'failed' && other.outcome.error.code, 'RETRY_REFUSED');
});

for (const [code, expected] of [
  ['UNREACHABLE', 'CREATE_FAILED'],
  ['TIMEOUT', 'CREATE_FAILED'],
  ['SERVER_ERROR', 'CREATE_FAILED'],
  ['TOO_MANY_REQUESTS', 'CREATE_FAILED'],
  ['FORBIDDEN', 'RETRY_REFUSED'],
  ['INVALID', 'RETRY_REFUSED'],
  ['CONFLICT', 'RETRY_REFUSED'],
  ['NOT_FOUND', 'RETRY_REFUSED'],
] as const) {
  test(`a retry that the API server answers with ${code} is ${expected === 'CREATE_FAILED' ? 'asked for again' : 'given up'}`, async () => {
    const { outcome, made } = await tried({ create: code });
    assert.equal(outcome.kind === 'failed' && outcome.error.code, expected);
    assert.deepEqual(made, []);
  });
}

test('retries are objects of the kind that evacuations make, too', () => {
  assert.deepEqual(
    [retryOf(toBeRetried()).kind, retryOf(toBeRetried()).apiVersion],
    [resources.migrations.kind, 'kubevirt.io/v1'],
  );
  assert.equal(buildRunningPod().metadata.name, toBeRetried().status?.migrationState?.sourcePod);
});
