import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { graceOf } from '../../../../../src/agent/vmi/decide/grace.ts';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import { type Observation, withMore } from '../../../../../src/agent/vmi/observe/index.ts';
import type { DomainReason, DomainStatus, LauncherState, VmiPhase } from '../../../../../src/api/index.ts';
import { domainOf, domainUnknown, nowMs, observationOf, seen } from '../../../../fixtures/agent/builders.ts';
import { remembered } from '../../../../fixtures/agent/remembered.ts';
import { observation, timestamp } from './arbitrary.ts';

const destructive = new Set(['shutdownDomain', 'killDomain', 'deleteDomain', 'cleanUp', 'signalTargetPodCleanup']);
const stepsOf = (given: Observation) => decide(given).steps.map(({ step }) => step);
const phaseOf = ({ vmi }: Observation) => (vmi.kind === 'present' ? (vmi.vmi.status?.phase ?? '') : undefined);
const runs = { numRuns: 3_000 };

test('decide never throws, and always decides by a named rule', () => {
  fc.assert(
    fc.property(observation, (given) => decide(given).rule.length > 0),
    runs,
  );
});

test('a final VMI is never synced, nor does its phase change', () => {
  fc.assert(
    fc.property(observation, (given) => {
      fc.pre(phaseOf(given) === 'Succeeded' || phaseOf(given) === 'Failed');
      assert.ok(!stepsOf(given).includes('syncVirtualMachine'));
      assert.equal(decide(given).phase, undefined);
    }),
    runs,
  );
});

test('nothing destructive and no final phase on an unknown domain', () => {
  fc.assert(
    fc.property(observation, fc.constantFrom('ready', 'unclear', 'not-ready'), (given, kind) => {
      const launcher = { kind, connected: true, forMs: 0, reason: '' } as LauncherState;
      const unknown = { ...given, domain: domainUnknown, launcher };
      assert.deepEqual(
        stepsOf(unknown).filter((step) => destructive.has(step)),
        [],
      );
      assert.equal(decide(unknown).phase, undefined);
    }),
    runs,
  );
});

test('a plan has one destructive step at most, and nothing after it', () => {
  fc.assert(
    fc.property(observation, (given) => {
      const steps = stepsOf(given);
      const at = steps.findIndex((step) => destructive.has(step));
      assert.ok(at === -1 || at === steps.length - 1, steps.join());
    }),
    runs,
  );
});

test('a domain never heard of ends no running VMI, unless its launcher is proven dead', () => {
  fc.assert(
    fc.property(observation, (given) => {
      fc.pre(given.launcher.kind !== 'dead' && phaseOf(given) === 'Running');
      assert.equal(decide({ ...given, domain: { kind: 'absent' } }).phase, undefined);
    }),
    runs,
  );
});

test('without an answer from the API server nothing is done', () => {
  fc.assert(
    fc.property(observation, (given) =>
      assert.deepEqual(stepsOf({ ...given, vmi: { kind: 'unclear', reason: '' } }), []),
    ),
    runs,
  );
});

/** A guest that is down, or nearly, in the middle of all that may be known of it. */
const ending = fc
  .record({
    given: observation,
    domain: fc.constantFrom<readonly [DomainStatus, DomainReason]>(
      ['Shutoff', 'Shutdown'],
      ['Shutoff', 'Destroyed'],
      ['Shutoff', 'Crashed'],
      ['Crashed', 'Panicked'],
      ['Running', 'Unknown'],
    ),
    isQuiet: fc.boolean(),
  })
  .map(({ given, domain: [status, reason], isQuiet }): Observation => {
    const known: Observation = { ...given, domain: seen(domainOf(status, reason)) };
    return isQuiet ? { ...known, launcher: { kind: 'ready', connected: true }, memory: remembered() } : known;
  });

test('a domain is only deleted when its end is written, its VMI is gone or deleted, or it belongs to another node', () => {
  fc.assert(
    fc.property(ending, (given) => {
      fc.pre(stepsOf(given).includes('deleteDomain'));
      const { vmi } = given;
      const isOver = vmi.kind !== 'present' || ['Succeeded', 'Failed'].includes(phaseOf(given) ?? '');
      const isOurs = decide(given).route !== 'migration-target' && decide(given).route !== 'orphaned-source';
      assert.ok(isOver || !isOurs || vmi.vmi.metadata.deletionTimestamp);
    }),
    { numRuns: 600 },
  );
});

test('a living domain is never deleted', () => {
  fc.assert(
    fc.property(
      observation,
      fc.constantFrom<DomainStatus>('Running', 'Blocked', 'PMSuspended', 'ShuttingDown'),
      (given, status) => {
        const alive = { ...given, domain: seen(domainOf(status)) };
        assert.ok(!stepsOf(alive).includes('deleteDomain'));
        assert.ok(!stepsOf(alive).includes('cleanUp'));
      },
    ),
    runs,
  );
});

/** Every change of phase this agent makes. A final phase is the last one. */
const legal: Readonly<Record<string, readonly VmiPhase[]>> = {
  '': ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  Pending: ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  Scheduling: ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  WaitingForSync: ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  Unknown: ['Scheduled', 'Running', 'Succeeded', 'Failed'],
  Scheduled: ['Running', 'Succeeded', 'Failed', 'WaitingForSync'],
  Running: ['Succeeded', 'Failed', 'WaitingForSync'],
  Succeeded: [],
  Failed: [],
};

test('phases change only along the legal table', () => {
  fc.assert(
    fc.property(fc.oneof(observation, ending), (given) => {
      const { phase } = decide(given);
      fc.pre(phase !== undefined);
      assert.ok(legal[phaseOf(given) ?? '']?.includes(phase), `${phaseOf(given)} → ${phase}`);
      const waits = given.vmi.kind === 'present' && given.vmi.vmi.metadata.annotations !== undefined;
      assert.ok(phase !== 'WaitingForSync' || waits, 'only a VMI made to receive a guest waits for one');
    }),
    { numRuns: 600 },
  );
});

test('the end of a grace period never moves away, whatever the wall clock and the VMI say', () => {
  const change = fc.record({
    passMs: fc.nat(20_000),
    wallJumpMs: fc.integer({ min: -1e7, max: 1e7 }),
    seconds: fc.nat(90),
    timestamp,
  });
  fc.assert(
    fc.property(fc.nat(60), fc.array(change, { maxLength: 8 }), (first, changes) => {
      let at = observationOf({ memory: remembered() });
      let grace = graceOf(at, first, undefined);
      for (const { passMs, wallJumpMs, seconds, timestamp: began } of changes) {
        const { deadlineMs } = grace;
        at = {
          ...at,
          nowMs: at.nowMs + passMs,
          now: new Date(at.now.getTime() + passMs + wallJumpMs),
          memory: remembered({ shutdown: { firstMs: nowMs, deadlineMs, lastSignalMs: at.nowMs } }),
        };
        const domain = domainOf('Running', 'Unknown', {
          GracePeriod: { DeletionGracePeriodSeconds: 30, DeletionTimestamp: began, MarkedForGracefulShutdown: null },
        });
        grace = graceOf(at, seconds, domain);
        assert.ok(grace.deadlineMs <= deadlineMs);
      }
    }),
    runs,
  );
});

test('every wait for a domain that is to end has a timer', () => {
  fc.assert(
    fc.property(
      observation,
      fc.constantFrom<DomainStatus>('Running', 'Blocked', 'ShuttingDown', 'NoState'),
      (given, status) => {
        fc.pre(
          given.vmi.kind === 'deleted' ||
            (given.vmi.kind === 'present' && Boolean(given.vmi.vmi.metadata.deletionTimestamp)),
        );
        const decision = decide({
          ...given,
          domain: seen(domainOf(status)),
          memory: withMore(given.memory, { ending: { cleaned: false } }),
        });
        assert.ok(decision.requeueAfterMs !== undefined, decision.rule);
      },
    ),
    runs,
  );
});
