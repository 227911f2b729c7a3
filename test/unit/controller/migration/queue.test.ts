import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { MigrationPriority, VirtualMachineInstanceMigration } from '../../../../src/api/index.ts';
import { nextInLine, type QueueDeps, underWay } from '../../../../src/controller/migration/queue.ts';
import { buildVmi } from '../builders.ts';
import { buildMigration, buildTarget, now } from './situations.ts';

type Migration = VirtualMachineInstanceMigration;
type Priority = MigrationPriority | undefined;

interface Job {
  readonly priority?: Priority;
  readonly phase?: 'Pending' | 'Running' | 'Succeeded';
  readonly node?: number;
  /** Of the last decision, and how long it has been taken. */
  readonly rule?: string;
  readonly ruleMs?: number;
}

const limits = { perCluster: 5, perNode: 2 };

function jobOf({ priority, phase = 'Pending' }: Job, number: number): Migration {
  const migration = buildMigration(phase);
  const creationTimestamp = new Date(now.getTime() - 600_000 + number * 1_000).toISOString();
  return {
    ...migration,
    metadata: { ...migration.metadata, name: `job-${number}`, uid: `uid-${number}`, creationTimestamp },
    spec: { vmiName: `vm${number}`, ...(priority && { priority }) },
  };
}

/** Jobs, the oldest first; each moves a VMI of its own. */
function queueOf(jobs: readonly Job[]) {
  const all = jobs.map(jobOf);
  const deps: QueueDeps = {
    migrations: { list: () => all },
    vmis: {
      get: (key) => {
        const number = Number(key.replace('default/vm', ''));
        return buildVmi({}, { phase: 'Running', nodeName: `node${jobs[number]?.node ?? number}` });
      },
    },
    ownPods: { list: () => [] },
    lastRuleOf: (_, uid) => {
      const { rule, ruleMs = 0 } = jobs[Number(uid.replace('uid-', ''))] ?? {};
      return rule === undefined ? undefined : { rule, since: new Date(now.getTime() - ruleMs) };
    },
  };
  return { all, deps };
}

function numbersOf(jobs: readonly Job[], asking?: number): number[] {
  const { all, deps } = queueOf(jobs);
  const next = nextInLine(deps, limits, now, asking === undefined ? undefined : all[asking]);
  return next.map(({ metadata }) => Number(metadata.name.replace('job-', '')));
}

const critical = { priority: 'system-critical' } as const;
const user = { priority: 'user-triggered' } as const;
const maintenance = { priority: 'system-maintenance' } as const;

test('room goes to the most urgent migrations, then to the oldest', () => {
  assert.deepEqual(numbersOf([{}, maintenance, user, critical, {}, critical, user]), [3, 5, 2, 6, 1]);
});

test('what is under way takes room, in the cluster and of its node', () => {
  const running = { phase: 'Running', node: 1 } as const;
  assert.deepEqual(numbersOf([running, running, { node: 1 }, {}, {}, {}, {}]), [3, 4, 5]);
  assert.deepEqual(numbersOf([{ ...running, node: 9 }, running, { node: 1 }, { node: 1 }]), [2]);
});

test('one that waits for something else than room holds nobody up, and one that was not looked at yet comes first', () => {
  const held = ['vmi-not-running', 'in-back-off', 'utility-volumes', 'another-has-begun'];
  assert.deepEqual(numbersOf([...held.map((rule) => ({ ...critical, rule })), {}]), [4]);
  const full = Array.from({ length: 4 }, () => ({ phase: 'Running' }) as const);
  assert.deepEqual(numbersOf([...full, {}, critical]), [5]);
});

test('one whose pod cannot be made for seconds, by a quota for example, is passed by others and goes on trying', () => {
  const full = Array.from({ length: 4 }, () => ({ phase: 'Running' }) as const);
  const stuck = { ...critical, rule: 'no-target-yet' };
  assert.deepEqual(numbersOf([...full, { ...stuck, ruleMs: 2_000 }, {}], 5), [4]);
  assert.deepEqual(numbersOf([...full, { ...stuck, ruleMs: 20_000 }, {}], 5), [5]);
  assert.deepEqual(numbersOf([...full, { ...stuck, ruleMs: 20_000 }, {}], 4), [4]);
});

test('one whose target pod was made by a controller that could not record it begins anew', () => {
  const { all, deps } = queueOf([{}]);
  const pod = buildTarget();
  pod.metadata.labels = { 'kubevirt.io/migrationJobUID': 'uid-0' };
  const next = nextInLine({ ...deps, ownPods: { list: () => [pod] } }, limits, now, all[0]);
  assert.deepEqual(next, all);
});

test('whatever waits: limits are kept, no more urgent one is passed by, and no room is left unused', () => {
  const job = fc.record({
    priority: fc.constantFrom<Priority>(undefined, 'system-critical', 'user-triggered', 'system-maintenance'),
    phase: fc.constantFrom('Pending' as const, 'Pending' as const, 'Running' as const, 'Succeeded' as const),
    node: fc.integer({ min: 1, max: 4 }),
  });
  fc.assert(
    fc.property(fc.array(job, { maxLength: 15 }), (jobs) => {
      const { deps, all } = queueOf(jobs);
      const next = numbersOf(jobs);
      const busy = underWay(deps);
      const nodes = [...busy.map(({ metadata }) => Number(metadata.name.replace('job-', ''))), ...next].map(
        (number) => jobs[number]?.node,
      );
      const onNode = (node: number | undefined) => nodes.filter((each) => each === node).length;
      assert.ok(next.length === 0 || nodes.length <= limits.perCluster);
      for (const number of next) assert.ok(onNode(jobs[number]?.node) <= Math.max(limits.perNode, 1));
      const passed = all.flatMap((_, number) =>
        jobs[number]?.phase === 'Pending' && !next.includes(number) ? [number] : [],
      );
      for (const number of passed) {
        const isFull = nodes.length >= limits.perCluster || onNode(jobs[number]?.node) >= limits.perNode;
        assert.ok(isFull, `${number} could begin beside ${next}`);
      }
    }),
  );
});
