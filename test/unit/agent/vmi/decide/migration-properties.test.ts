import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Decision, decide } from '../../../../../src/agent/vmi/decide/index.ts';
import { type Observation, withMore } from '../../../../../src/agent/vmi/observe/index.ts';
import { semanticEqual } from '../../../../../src/agent/vmi/status/semantic-equal.ts';
import { applyPatch } from '../../../../../src/agent/vmi/status/vmi-patch.ts';
import type { MigrationMetadata, VmiPhase } from '../../../../../src/api/index.ts';
import {
  domainNone,
  domainOf,
  domainUnknown,
  node,
  nowMs,
  observationOf,
  seen,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';
import { asTarget, remembered } from '../../../../fixtures/agent/remembered.ts';
import { noMigration } from '../../../../fixtures/no-migration.ts';
import { observation, observed, time } from './arbitrary.ts';

/** Runs that reach the assertions: `fc.pre` turns the others away. */
const runs = { numRuns: 600 };

const ports = { '40000': 0, '40001': 49_152 } as const;
const done = asTarget({ preparedMs: nowMs - 1_000, firstTryMs: nowMs - 1_000, lastTryMs: nowMs - 1_000 });
const arrived: Partial<MigrationMetadata> = { EndTimestamp: '2026-01-02T03:05:00Z' };
const domains = [
  ['Paused', 'Migration', {}],
  ['Running', 'Unknown', {}],
  ['Running', 'Unknown', arrived],
  ['Paused', 'PostcopyFailed', arrived],
  ['Shutoff', 'Failed', { ...arrived, Failed: true }],
] as const;

const seldom = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

function domainHere(domain: (typeof domains)[number] | 'none'): Observation['domain'] {
  if (domain === 'none') return domainNone;
  const [status, reason, notes] = domain;
  const Migration = { ...noMigration, UID: 'm1', StartTimestamp: '2026-01-02T03:04:00Z', ...notes };
  return seen(domainOf(status, reason, { Migration }));
}

/** A VMI that is to come to this node, in the middle of all that may be known of it. */
const coming = fc
  .record({
    given: observation,
    state: fc.record(
      {
        startTimestamp: time,
        targetNodeAddress: fc.constant('10.0.0.1'),
        targetDirectMigrationNodePorts: fc.constant(ports),
      },
      { requiredKeys: [] },
    ),
    endTimestamp: seldom(time),
    failed: seldom(fc.boolean()),
    completed: seldom(fc.boolean()),
    phase: fc.oneof({ weight: 9, arbitrary: fc.constant<VmiPhase>('Running') }, fc.constant<VmiPhase>('Failed')),
    deletionTimestamp: seldom(time),
    domain: fc.constantFrom<(typeof domains)[number] | 'as given' | 'none'>('as given', 'none', 'none', ...domains),
    /** `waits`: nothing has begun; `over`: nothing of the migration is left here. */
    stage: fc.constantFrom<'waits' | 'moves' | 'over'>('waits', 'waits', 'moves', 'moves', 'moves', 'over'),
    /** What is noted once it is over; the seldom notes above stay for the other stages. */
    outcome: fc.constantFrom<'failed' | 'completed' | 'as given'>('failed', 'completed', 'as given'),
    isReady: fc.boolean(),
    memory: fc.constantFrom<'as given' | 'none' | 'prepared'>('as given', 'none', 'prepared'),
    targetPorts: fc.option(fc.constant(ports), { nil: undefined }),
  })
  .map(({ given, state, endTimestamp, failed, completed, outcome, targetPorts, ...more }): Observation => {
    const vmi = vmiOf(more.phase, { status: { nodeName: 'node2' } });
    vmi.metadata.labels = { 'kubevirt.io/nodeName': 'node2', 'kubevirt.io/migrationTargetNodeName': node };
    const begun = more.stage === 'waits' ? {} : state;
    const over = { ...(endTimestamp && { endTimestamp }), ...(failed && { failed }), ...(completed && { completed }) };
    const ended = more.stage === 'over' && outcome !== 'as given' ? { [outcome]: true } : {};
    const migrationState = { migrationUid: 'm1', sourceNode: 'node2', targetNode: node, ...begun, ...over, ...ended };
    vmi.status = { ...vmi.status, migrationState };
    if (more.deletionTimestamp) vmi.metadata.deletionTimestamp = more.deletionTimestamp;
    const memory = more.memory === 'none' ? remembered() : remembered({ migration: done });
    if (more.stage === 'over') {
      return { ...observationOf(), vmi: observed(vmi), domain: { kind: 'absent' }, memory: remembered() };
    }
    const isWaiting = more.stage === 'waits';
    const proxies = isWaiting ? observationOf().migrationProxies : given.migrationProxies;
    const known = more.domain === 'as given' ? given.domain : domainHere(more.domain);
    return {
      ...given,
      vmi: observed(vmi),
      domain: isWaiting ? domainNone : known,
      launcher: more.isReady ? { kind: 'ready', connected: true } : given.launcher,
      memory: more.memory === 'as given' && !isWaiting ? given.memory : memory,
      migrationProxies: { ...proxies, unavailable: undefined, ...(targetPorts && !isWaiting && { targetPorts }) },
    };
  });

const anyTarget = fc.oneof({ weight: 3, arbitrary: coming }, { weight: 1, arbitrary: observation });

const stepsOf = ({ steps }: Decision) => steps.map(({ step }) => step);
const statusPatch = ({ patch }: Decision): Record<string, unknown> => ({ ...patch?.status });
const statePatch = (decision: Decision) => statusPatch(decision).migrationState as Record<string, unknown> | undefined;

/** The guest's domain is here and lives, also half-lost. */
function livesHere({ domain }: Observation): boolean {
  if (domain.kind !== 'present' || domain.domain.ObjectMeta.deletionTimestamp) return false;
  const { Status, Reason } = domain.domain.Status;
  return (
    ['Running', 'Blocked', 'PMSuspended', 'Paused', 'NoState', 'ShuttingDown'].includes(Status) &&
    Reason !== 'NonExistent'
  );
}

const isLost = ({ domain }: Observation) =>
  domain.kind === 'present' &&
  domain.domain.Status.Status === 'Paused' &&
  domain.domain.Status.Reason === 'PostcopyFailed';

test('a target never writes a phase', () => {
  fc.assert(
    fc.property(anyTarget, (given) => {
      const decision = decide(given);
      fc.pre(decision.route === 'migration-target');
      assert.equal(decision.phase, undefined);
      assert.ok(!('phase' in statusPatch(decision)));
    }),
    runs,
  );
});

test('a target neither kills nor shuts down nor starts a guest', () => {
  const forbidden = new Set(['killDomain', 'shutdownDomain', 'syncVirtualMachine', 'migrateVirtualMachine']);
  fc.assert(
    fc.property(anyTarget, (given) => {
      const decision = decide(given);
      fc.pre(decision.route === 'migration-target');
      assert.deepEqual(
        stepsOf(decision).filter((step) => forbidden.has(step)),
        [],
      );
    }),
    runs,
  );
});

test('only a target takes ownership, for its own node, and only of a guest whose launcher says that it is here', () => {
  fc.assert(
    fc.property(anyTarget, (given) => {
      const decision = decide(given);
      const label = decision.patch?.labels?.['kubevirt.io/nodeName'];
      const name = statusPatch(decision).nodeName;
      assert.equal(label, name);
      fc.pre(label !== undefined);
      assert.equal(label, node);
      assert.equal(decision.route, 'migration-target');
      const { domain } = given;
      assert.ok(domain.kind === 'present' && domain.domain.Spec.Metadata.KubeVirt.Migration?.EndTimestamp);
      assert.ok(!isLost(given));
    }),
    runs,
  );
});

test('an orphan whose domain lives here is left alone, unless it is what a guest left behind in post-copy', () => {
  fc.assert(
    fc.property(observation, (given) => {
      const decision = decide(given);
      fc.pre(decision.route === 'orphaned-source' && livesHere(given) && !isLost(given));
      assert.deepEqual(stepsOf(decision), []);
      assert.equal(decision.patch, undefined);
    }),
    runs,
  );
});

test('an orphan is never written to', () => {
  fc.assert(
    fc.property(observation, (given) => {
      const decision = decide(given);
      fc.pre(decision.route === 'orphaned-source');
      assert.equal(decision.phase, undefined);
      assert.equal(decision.patch, undefined);
    }),
    runs,
  );
});

test('a target fails no migration whose guest lives here or could: only lost ones, and on proof', () => {
  fc.assert(
    fc.property(anyTarget, fc.boolean(), (any, makeUnknown) => {
      const given: Observation = makeUnknown
        ? { ...any, domain: domainUnknown, launcher: { kind: 'ready', connected: true } }
        : any;
      const decision = decide(given);
      fc.pre(decision.route === 'migration-target' && statePatch(decision)?.failed === true);
      const notes = given.domain.kind === 'present' ? given.domain.domain.Spec.Metadata.KubeVirt.Migration : null;
      assert.ok(!livesHere(given) || isLost(given) || notes?.Failed, decision.rule);
      assert.ok(given.domain.kind !== 'unknown' || given.launcher.kind === 'dead', decision.rule);
    }),
    runs,
  );
});

test('a target gives its label up only when the migration has an outcome', () => {
  fc.assert(
    fc.property(anyTarget, (given) => {
      const decision = decide(given);
      fc.pre(decision.patch?.labels?.['kubevirt.io/migrationTargetNodeName'] === null);
      const state = given.vmi.kind === 'present' ? given.vmi.vmi.status?.migrationState : undefined;
      assert.ok(state?.completed === true || state?.failed === true);
    }),
    { numRuns: 200 },
  );
});

test('nothing is prepared for a VMI that is final, deleted, or whose migration is over', () => {
  const preparing = new Set(['prepareMigrationTarget', 'openTargetProxies']);
  fc.assert(
    fc.property(anyTarget, (given) => {
      const decision = decide(given);
      fc.pre(stepsOf(decision).some((step) => preparing.has(step)));
      assert.ok(given.vmi.kind === 'present');
      const { metadata, status } = given.vmi.vmi;
      assert.ok(!metadata.deletionTimestamp && status?.phase !== 'Succeeded' && status?.phase !== 'Failed');
      assert.ok(status?.migrationState?.completed !== true && status?.migrationState?.failed !== true);
    }),
    runs,
  );
});

/** What a rule writes must not make the same rule write again: nothing but the clock would stop that. */
function settlesAfter(first: Observation): number {
  let given = first;
  for (let pass = 0; pass < 8; pass++) {
    const { patch, remember } = decide(given);
    if (!patch || given.vmi.kind !== 'present') return pass;
    const stored = structuredClone(given.vmi.stored);
    applyPatch(stored, patch, '2026-01-02T03:04:05Z');
    if (semanticEqual(stored, given.vmi.stored)) return pass;
    const memory = withMore(given.memory, remember ?? {});
    given = { ...given, vmi: observed(stored), memory, nowMs: given.nowMs + 1 };
  }
  return 8;
}

test('patches settle: written again and again, a VMI comes to rest in a few writes, in every role', () => {
  fc.assert(
    fc.property(observation, (given) => {
      const isReadable = given.vmi.kind !== 'present' || given.vmi.problems.length === 0;
      fc.pre(isReadable);
      assert.ok(settlesAfter(given) < 6, decide(given).rule);
    }),
    { numRuns: 4_000 },
  );
});
