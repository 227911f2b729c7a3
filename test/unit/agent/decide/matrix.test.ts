import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { decide } from '../../../../src/agent/decide/index.ts';
import type { DomainView, LauncherState } from '../../../../src/agent/index.ts';
import type { VmiPhase } from '../../../../src/api/index.ts';
import {
  domainNone,
  domainOf,
  domainUnknown,
  launcherDead,
  observationOf,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../fixtures/agent/builders.ts';

/** The whole behaviour at a glance: a change of it is a diff of this file. `UPDATE_GOLDEN=1` writes it anew. */
const golden = 'test/unit/agent/decide/matrix.golden.txt';

const phases: VmiPhase[] = ['Scheduling', 'Scheduled', 'Running', 'Succeeded', 'Failed', 'WaitingForSync'];
const ready: LauncherState = { kind: 'ready', connected: true };

const domains: readonly (readonly [name: string, domain: DomainView, launcher: LauncherState])[] = [
  ['running', seen(domainOf('Running')), ready],
  ['paused by user', seen(domainOf('Paused', 'User')), ready],
  ['starting up', seen(domainOf('Paused', 'StartingUp')), ready],
  ['shutting down', seen(domainOf('ShuttingDown', 'User')), ready],
  ['shutoff unknown', seen(domainOf('Shutoff')), ready],
  ['shutoff shutdown', seen(domainOf('Shutoff', 'Shutdown')), ready],
  ['shutoff destroyed', seen(domainOf('Shutoff', 'Destroyed')), ready],
  ['shutoff failed', seen(domainOf('Shutoff', 'Failed')), ready],
  ['shutoff migrated', seen(domainOf('Shutoff', 'Migrated')), ready],
  ['crashed panicked', seen(domainOf('Crashed', 'Panicked')), ready],
  ['none', domainNone, ready],
  ['launcher dead', launcherDead, { kind: 'dead', reason: 'ended' }],
  ['unknown', domainUnknown, ready],
  ['absent, ready', { kind: 'absent' }, ready],
  ['absent, no socket', { kind: 'absent' }, { kind: 'not-ready', forMs: 10 }],
  ['absent, unclear', { kind: 'absent' }, { kind: 'unclear', reason: '?' }],
];

function row(phase: VmiPhase, deleted: boolean, [name, domain, launcher]: (typeof domains)[number]): string {
  const vmi = vmiOf(phase);
  if (deleted) vmi.metadata.deletionTimestamp = '2026-01-02T03:04:00Z';
  const decision = decide(observationOf({ vmi: presentVmi(vmi), domain, launcher, memory: { uid } }));
  const steps = decision.steps.map(({ step }) => step).join(', ') || '-';
  const state = `${phase}${deleted ? ' deleted' : ''}`;
  return `${state.padEnd(23)}| ${name.padEnd(18)}| ${decision.rule.padEnd(30)}| ${(decision.phase ?? '').padEnd(10)}| ${steps}`;
}

test('the decision matrix of phase and domain is the committed one', () => {
  const rows = phases.flatMap((phase) =>
    [false, true].flatMap((deleted) => domains.map((domain) => row(phase, deleted, domain))),
  );
  const text = `${rows.map((line) => line.trimEnd()).join('\n')}\n`;
  if (process.env.UPDATE_GOLDEN) writeFileSync(golden, text);
  assert.equal(text, readFileSync(golden, 'utf8'));
});
