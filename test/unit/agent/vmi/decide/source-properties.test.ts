import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Decision, decide } from '../../../../../src/agent/vmi/decide/index.ts';
import type { Observation, ProxiesView } from '../../../../../src/agent/vmi/observe/index.ts';
import { isOfMigration } from '../../../../../src/agent/vmi/observe/index.ts';
import type {
  MigrationMetadata,
  MigrationState,
  VirtualMachineInstance,
  VmiPhase,
} from '../../../../../src/api/index.ts';
import { domainOf, node, seen, vmiOf } from '../../../../fixtures/agent/builders.ts';
import { asSource, remembered } from '../../../../fixtures/agent/remembered.ts';
import { noMigration } from '../../../../fixtures/no-migration.ts';
import { observation, observed, time } from './arbitrary.ts';

const runs = { numRuns: 2_000 };

function seldom<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> {
  return fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
}

const published = { targetNodeAddress: '10.0.0.2', targetDirectMigrationNodePorts: { '40000': 0, '40001': 49_152 } };

const state: fc.Arbitrary<MigrationState> = fc
  .record(
    {
      abortRequested: fc.boolean(),
      abortStatus: fc.constantFrom('Aborting', 'Succeeded', 'Failed'),
      mode: fc.constantFrom('PreCopy', 'PostCopy', 'Paused'),
      ports: fc.constant(published),
    },
    { requiredKeys: [] },
  )
  .map(({ ports, ...more }) => ({
    ...{ migrationUid: 'm1', sourceNode: node, targetNode: 'node2' },
    ...more,
    ...ports,
  }));

const reported: fc.Arbitrary<MigrationMetadata | null> = fc.option(
  fc
    .record({
      UID: fc.constantFrom('m0', 'm1', 'm1', 'm1'),
      StartTimestamp: time,
      EndTimestamp: seldom(time).map((end) => end ?? null),
      Failed: fc.boolean(),
      AbortStatus: fc.constantFrom<MigrationMetadata['AbortStatus']>('', '', 'Aborting', 'Failed'),
      Mode: fc.constantFrom<MigrationMetadata['Mode']>('PreCopy', 'PostCopy', 'Paused'),
      Resumable: fc.boolean(),
    })
    .map((given) => ({ ...noMigration, ...given })),
  { nil: null, freq: 3 },
);

const domainStates = [
  ['Running', 'Unknown'],
  ['Running', 'Unknown'],
  ['Running', 'Unknown'],
  ['Paused', 'Postcopy'],
  ['Paused', 'Migration'],
  ['Shutoff', 'Migrated'],
  ['Shutoff', 'Shutdown'],
] as const;

/** A VMI that is to leave this node, in the middle of all that may be known of it. */
const leaving = fc
  .record({
    given: observation,
    state,
    reported,
    domain: fc.option(fc.constantFrom(...domainStates), { nil: undefined }),
    phase: fc.oneof({ weight: 9, arbitrary: fc.constant<VmiPhase>('Running') }, fc.constant<VmiPhase>('Failed')),
    deletionTimestamp: fc.option(time, { nil: undefined, freq: 3 }),
    startTimestamp: seldom(time),
    endTimestamp: seldom(time),
    isQuiet: fc.boolean(),
    migrationProxies: fc.constantFrom<Partial<ProxiesView>>(
      { unavailable: undefined, hasSource: false },
      { hasSource: true },
      {},
    ),
  })
  .map(({ given, isQuiet, ...more }): Observation => {
    const { startTimestamp, endTimestamp } = more;
    const vmi = vmiOf(more.phase, {
      status: {
        migrationState: {
          ...more.state,
          ...(startTimestamp && { startTimestamp }),
          ...(endTimestamp && { endTimestamp }),
        },
      },
    });
    if (more.deletionTimestamp) vmi.metadata.deletionTimestamp = more.deletionTimestamp;
    const [status, reason] = more.domain ?? [];
    const domain = status ? seen(domainOf(status, reason, { Migration: more.reported })) : given.domain;
    const memory = isQuiet ? remembered({ migration: asSource() }) : given.memory;
    return {
      ...given,
      vmi: observed(vmi),
      domain,
      memory,
      migrationProxies: { ...given.migrationProxies, ...more.migrationProxies },
    };
  });

const sourceCases = fc
  .oneof({ weight: 4, arbitrary: leaving }, { weight: 1, arbitrary: observation })
  .map((given) => ({ given, decision: decide(given) }));

interface SourceCase {
  readonly given: Observation;
  readonly decision: Decision;
  readonly vmi: VirtualMachineInstance;
  readonly state: MigrationState;
  readonly reported: MigrationMetadata | null | undefined;
}

function everySource(check: (each: SourceCase) => void): void {
  fc.assert(
    fc.property(sourceCases, ({ given, decision }) => {
      fc.pre(given.vmi.kind === 'present' && decision.route === 'migration-source');
      assert.ok(given.vmi.kind === 'present');
      const { vmi } = given.vmi;
      const { domain } = given;
      const notes = domain.kind === 'present' ? domain.domain.Spec.Metadata.KubeVirt.Migration : undefined;
      check({ given, decision, vmi, state: vmi.status?.migrationState ?? {}, reported: notes });
    }),
    runs,
  );
}

const stepsOf = ({ steps }: Decision) => steps.map(({ step }) => step);
const statePatch = ({ patch }: Decision) => patch?.status?.migrationState as Record<string, unknown> | undefined;
const isFinal = ({ status }: VirtualMachineInstance) => status?.phase === 'Succeeded' || status?.phase === 'Failed';

test('a guest is told to migrate once, to where its streams lead, and only while nothing speaks against it', () => {
  everySource(({ given, decision, vmi, state, reported }) => {
    if (!stepsOf(decision).includes('migrateVirtualMachine')) return;
    assert.deepEqual(stepsOf(decision), ['openSourceProxies', 'migrateVirtualMachine']);
    assert.notEqual(reported?.UID, state.migrationUid, 'the launcher has it already');
    const { migration } = given.memory;
    const isSent = migration.role === 'source' && migration.order.kind === 'sent';
    assert.ok(!isSent || migration.migrationUid !== state.migrationUid, 'it was told already');
    assert.deepEqual([state.startTimestamp, state.endTimestamp, state.sourceNode], [undefined, undefined, node]);
    assert.notEqual(state.abortRequested, true);
    assert.deepEqual([isFinal(vmi), vmi.metadata.deletionTimestamp], [false, undefined]);
    assert.equal(given.migrationProxies.unavailable, undefined);
    assert.ok(state.targetNodeAddress && state.targetDirectMigrationNodePorts);
  });
});

test('a source never takes or gives ownership, and writes an end only together with a failure', () => {
  everySource(({ decision, state }) => {
    const patch = statePatch(decision);
    const refused = { 'virt-handler.kubevirt.io/migration-refused': state.migrationUid };
    const { labels, annotations = refused } = decision.patch ?? {};
    assert.deepEqual([labels, annotations], [undefined, refused]);
    assert.ok(decision.patch?.annotations === undefined || patch?.failed === true);
    assert.ok(!('nodeName' in (decision.patch?.status ?? {})));
    assert.equal(patch !== undefined && 'endTimestamp' in patch, patch?.failed === true);
    assert.equal(patch?.completed === true, patch?.failed === true);
  });
});

test('while the launcher tells that the guest moves, nothing is done with it but to abort, to ask, or to end it', () => {
  const allowed = ['cancelMigration', 'closeSourceProxies', 'refreshDomain', 'killDomain', 'shutdownDomain', 'cleanUp'];
  everySource(({ given, decision, state, reported }) => {
    const moves = reported?.UID === state.migrationUid && reported?.StartTimestamp && !reported.EndTimestamp;
    const isAlive = given.domain.kind === 'present' && given.domain.domain.Status.Status === 'Running';
    if (!moves || !isAlive || state.endTimestamp || state.sourceNode !== node) return;
    assert.deepEqual(
      stepsOf(decision).filter((step) => !allowed.includes(step)),
      [],
    );
  });
});

test('a guest that may have moved half is not cut off from its other half, unless nothing comes from there', () => {
  everySource(({ given, decision, state, reported }) => {
    const isOwn = reported?.UID === state.migrationUid && !reported?.EndTimestamp && !state.endTimestamp;
    const isSame = isOfMigration(given.memory, state.migrationUid ?? '');
    if (!isOwn || !isSame || reported?.Mode !== 'PostCopy' || state.sourceNode !== node) return;
    if (state.sourceState !== undefined || state.targetState !== undefined) return;
    const { sourceStalledSeconds = 0, resumeMs = 0, stallMs = Number.POSITIVE_INFINITY } = given.migrationProxies;
    const { migration } = given.memory;
    const sinceMs = (migration.role === 'source' && migration.postCopySinceMs) || given.nowMs;
    const isStalled = sourceStalledSeconds > 0 && given.nowMs - sinceMs >= stallMs;
    const { Status, Reason } = given.domain.kind === 'present' ? given.domain.domain.Status : {};
    const isSwitched = Status === 'Paused' && Reason === 'Postcopy';
    const isAllowed = isStalled && isSwitched && reported.Resumable === true && resumeMs > 0;
    assert.ok(isAllowed || !stepsOf(decision).includes('closeSourceProxies'));
    assert.ok(!stepsOf(decision).includes('cancelMigration'));
  });
});

test('"again at once" comes with something done or written or remembered, so that no source spins', () => {
  everySource(({ decision }) => {
    if (decision.requeueAfterMs !== 0) return;
    const { steps, patch, phase, remember } = decision;
    assert.ok(steps.length > 0 || patch || phase || remember, decision.rule);
  });
});
