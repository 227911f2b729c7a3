import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { silentLogger } from '../../../../src/base/index.ts';
import { LauncherLife } from '../../../../src/launcher/lifecycle/life.ts';
import {
  graceExpired,
  isTerminating,
  type LauncherPhase,
  noDomainInTime,
  qemuEnded,
  qemuStarted,
  reported,
  serving,
  type Transition,
  terminationRequested,
} from '../../../../src/launcher/lifecycle/phase.ts';

const phases = {
  'setting up': { kind: 'setting-up' },
  waiting: { kind: 'waiting' },
  running: { kind: 'running' },
  'shutting down': { kind: 'shutting-down' },
  forcing: { kind: 'forcing', tries: 1 },
  reporting: { kind: 'reporting', isTerminating: false },
  'reporting, terminating': { kind: 'reporting', isTerminating: true },
  left: { kind: 'left', reason: 'deletion-reported' },
} as const satisfies Readonly<Record<string, LauncherPhase>>;

type Name = keyof typeof phases;

/** From which phase to which; every other phase stays what it is. */
const table: readonly (readonly [string, Transition, Partial<Record<Name, LauncherPhase>>])[] = [
  ['serving', serving, { 'setting up': phases.waiting }],
  ['QEMU started', qemuStarted, { 'setting up': phases.running, waiting: phases.running }],
  [
    'termination requested',
    terminationRequested,
    {
      'setting up': { kind: 'left', reason: 'terminated-before-start' },
      waiting: { kind: 'left', reason: 'terminated-before-start' },
      running: phases['shutting down'],
      reporting: phases['reporting, terminating'],
    },
  ],
  ['grace expired', graceExpired, { 'shutting down': phases.forcing, forcing: { kind: 'forcing', tries: 2 } }],
  [
    'QEMU ended',
    qemuEnded,
    {
      'setting up': phases.reporting,
      waiting: phases.reporting,
      running: phases.reporting,
      'shutting down': phases['reporting, terminating'],
      forcing: phases['reporting, terminating'],
    },
  ],
  [
    'no domain in time',
    noDomainInTime,
    {
      'setting up': { kind: 'left', reason: 'no-domain-in-time' },
      waiting: { kind: 'left', reason: 'no-domain-in-time' },
    },
  ],
  [
    'reported',
    reported('report-timed-out'),
    {
      reporting: { kind: 'left', reason: 'report-timed-out' },
      'reporting, terminating': { kind: 'left', reason: 'report-timed-out' },
    },
  ],
];

describe('the phase of a launcher', () => {
  for (const [what, transition, changes] of table) {
    for (const name of Object.keys(phases) as Name[]) {
      const after = changes[name];
      test(`${what}, ${name}: ${after ? `becomes ${after.kind}` : 'stays as it is'}`, () => {
        const next = transition(phases[name]);
        assert.deepEqual(next, after ?? phases[name]);
        assert.equal(next === phases[name], after === undefined, 'the very same object says that nothing changed');
      });
    }
  }

  test('a VMI that ends by itself, one whose pod is deleted, one that never came', () => {
    const run = (...steps: Transition[]) =>
      steps.reduce<LauncherPhase>((phase, step) => step(phase), phases['setting up']);
    assert.deepEqual(run(serving, qemuStarted, qemuEnded, reported('deletion-reported')), phases.left);
    const forced = run(serving, qemuStarted, terminationRequested, graceExpired, graceExpired, qemuEnded);
    assert.equal(isTerminating(forced), true);
    assert.deepEqual(run(serving, noDomainInTime, qemuStarted), { kind: 'left', reason: 'no-domain-in-time' });
  });
});

describe('the holder of the phase', () => {
  test('calls its listeners for a change, not for a transition that the phase does not have', () => {
    const life = new LauncherLife({ log: silentLogger });
    const seen: string[] = [];
    const stop = life.onChange(({ kind }) => seen.push(kind));
    life.move(graceExpired);
    life.move(serving);
    life.move(serving);
    life.move(qemuStarted);
    stop();
    life.move(qemuEnded);
    assert.deepEqual(seen, ['waiting', 'running']);
  });

  test('is over when QEMU has ended or the launcher leaves, also when that was before the question', async () => {
    const life = new LauncherLife({ log: silentLogger });
    const asked = life.over();
    life.move(serving);
    life.move(terminationRequested);
    const left = { kind: 'left', reason: 'terminated-before-start' };
    assert.deepEqual([await asked, await life.over()], [left, left]);
    life.move(qemuStarted);
    assert.deepEqual(life.phase, left);
  });
});
