import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Decision, decide } from '../../../../../src/agent/vmi/decide/index.ts';
import { type Observation, withMore } from '../../../../../src/agent/vmi/observe/index.ts';
import { semanticEqual } from '../../../../../src/agent/vmi/status/semantic-equal.ts';
import { applyPatch } from '../../../../../src/agent/vmi/status/vmi-patch.ts';
import { domainUnknown, node } from '../../../../fixtures/agent/builders.ts';
import { observation, observed } from './arbitrary.ts';

const runs = { numRuns: 4_000 };

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
    fc.property(observation, (given) => {
      const decision = decide(given);
      if (decision.route !== 'migration-target') return;
      assert.equal(decision.phase, undefined);
      assert.ok(!('phase' in statusPatch(decision)));
    }),
    runs,
  );
});

test('a target neither kills nor shuts down nor starts a guest', () => {
  const forbidden = new Set(['killDomain', 'shutdownDomain', 'syncVirtualMachine', 'migrateVirtualMachine']);
  fc.assert(
    fc.property(observation, (given) => {
      const decision = decide(given);
      if (decision.route !== 'migration-target') return;
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
    fc.property(observation, (given) => {
      const decision = decide(given);
      const label = decision.patch?.labels?.['kubevirt.io/nodeName'];
      const name = statusPatch(decision).nodeName;
      assert.equal(label, name);
      if (label === undefined) return;
      assert.equal(label, node);
      assert.equal(decision.route, 'migration-target');
      const { domain } = given;
      assert.ok(domain.kind === 'present' && domain.domain.Spec.Metadata.KubeVirt.Migration?.EndTimestamp);
      assert.ok(!isLost(given));
    }),
    runs,
  );
});

test('an orphan whose domain lives here is left alone', () => {
  fc.assert(
    fc.property(observation, (given) => {
      const decision = decide(given);
      if (decision.route !== 'orphaned-source' || !livesHere(given)) return;
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
      if (decision.route !== 'orphaned-source') return;
      assert.equal(decision.phase, undefined);
      assert.equal(decision.patch, undefined);
    }),
    runs,
  );
});

test('a target fails no migration whose guest lives here or could: only lost ones, and on proof', () => {
  fc.assert(
    fc.property(observation, fc.boolean(), (any, makeUnknown) => {
      const given: Observation = makeUnknown
        ? { ...any, domain: domainUnknown, launcher: { kind: 'ready', connected: true } }
        : any;
      const decision = decide(given);
      if (decision.route !== 'migration-target' || statePatch(decision)?.failed !== true) return;
      const notes = given.domain.kind === 'present' ? given.domain.domain.Spec.Metadata.KubeVirt.Migration : null;
      assert.ok(!livesHere(given) || isLost(given) || notes?.Failed, decision.rule);
      assert.ok(given.domain.kind !== 'unknown' || given.launcher.kind === 'dead', decision.rule);
    }),
    runs,
  );
});

test('a target gives its label up only when the migration has an outcome', () => {
  fc.assert(
    fc.property(observation, (given) => {
      const decision = decide(given);
      if (decision.patch?.labels?.['kubevirt.io/migrationTargetNodeName'] !== null) return;
      const state = given.vmi.kind === 'present' ? given.vmi.vmi.status?.migrationState : undefined;
      assert.ok(state?.completed === true || state?.failed === true);
    }),
    runs,
  );
});

test('nothing is prepared for a VMI that is final, deleted, or whose migration is over', () => {
  const preparing = new Set(['prepareMigrationTarget', 'openTargetProxies']);
  fc.assert(
    fc.property(observation, (given) => {
      const decision = decide(given);
      if (!stepsOf(decision).some((step) => preparing.has(step))) return;
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
    runs,
  );
});
