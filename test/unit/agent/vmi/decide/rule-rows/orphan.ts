import type { VmiPhase } from '../../../../../../src/api/index.ts';
import {
  domainOf,
  domainUnknown,
  launcherDead,
  nowMs,
  observationOf,
  seen,
  vmiOf,
} from '../../../../../fixtures/agent/builders.ts';
import { asSource } from '../../../../../fixtures/agent/remembered.ts';
import { reported } from './leaving.ts';
import { elsewhere, ghost, memory, migrating, type Row } from './row.ts';

const broken = reported({ Mode: 'PostCopy' }, 'Paused', 'PostcopyFailed');
const arrived = { ...migrating, completed: true, endTimestamp: '2026-01-02T03:05:00Z' };

/** A guest that has moved in post-copy, and whose source was never told of the end. */
const moved = (state: object = {}, phase: VmiPhase = 'Running') => ({
  ...elsewhere,
  vmi: vmiOf(phase, {
    ...elsewhere.vmi,
    status: { phase, nodeName: 'node2', migrationState: { ...arrived, ...state } },
  }),
});
const since = (agoMs: number) => memory({ migration: { ...asSource({}), overSeenMs: nowMs - agoMs } });

/** Rules for VMIs of another node and what no VMI owns. */
export const orphanRows: readonly Row[] = [
  {
    rule: 'orphan-nothing-here',
    when: 'nothing of the VMI is left',
    given: { vmi: elsewhere, domain: { kind: 'absent' } },
    expect: { steps: [], route: 'orphaned-source' },
  },
  {
    rule: 'orphan-unknown',
    when: 'the launcher of a moved VMI cannot be asked',
    given: { vmi: elsewhere, domain: domainUnknown },
    expect: { steps: ['refreshDomain'] },
  },
  {
    rule: 'orphan-not-probed',
    when: 'a record of a moved VMI is left',
    given: { vmi: elsewhere, domain: { kind: 'absent' }, ghost },
    expect: { steps: ['ensureLauncherConnection'] },
  },
  {
    rule: 'orphan-alive',
    when: 'the domain of a moved VMI still runs',
    given: { vmi: elsewhere },
    expect: { steps: [] },
  },
  {
    rule: 'orphan-stopped',
    when: 'the domain migrated away',
    given: { vmi: elsewhere, domain: seen(domainOf('Shutoff', 'Migrated')) },
    expect: { steps: ['deleteDomain'] },
  },
  {
    rule: 'orphan-unclear',
    when: 'a socket may still come',
    given: { vmi: elsewhere, domain: { kind: 'absent' }, ghost, launcher: { kind: 'unclear', reason: '?' } },
    expect: { steps: [] },
  },
  {
    rule: 'orphan-clean-up',
    when: 'the launcher of a moved VMI is gone',
    given: { vmi: elsewhere, domain: launcherDead, ghost, launcher: { kind: 'dead', reason: 'ended' } },
    expect: { steps: ['cleanUp'] },
  },
  {
    rule: 'orphan-clean-up',
    when: 'nothing but streams is left of a moved VMI',
    given: {
      vmi: elsewhere,
      domain: launcherDead,
      launcher: { kind: 'dead', reason: 'ended' },
      migrationProxies: { ...observationOf().migrationProxies, hasSource: true },
      memory: memory({ cleaned: true }),
    },
    expect: { steps: ['cleanUp'], requeueAfterMs: 0 },
  },
  {
    rule: 'orphan-alive',
    when: 'the domain of a moved VMI still runs and its streams are open: they may still be in use',
    given: { vmi: elsewhere, migrationProxies: { ...observationOf().migrationProxies, hasSource: true } },
    expect: { steps: [] },
  },
  {
    rule: 'orphan-left-behind',
    when: 'it is met for the first time: libvirt may still hear from the target',
    given: { vmi: moved(), domain: broken },
    expect: { steps: [], requeueAfterMs: 30_000 },
  },
  {
    rule: 'orphan-left-behind',
    when: 'it waits since half a minute',
    given: { vmi: moved(), domain: broken, memory: since(30_000) },
    expect: { steps: ['killDomain'], requeueAfterMs: 30_000 },
  },
  ...(
    [
      ['the migration is not over yet', { vmi: moved({ completed: false }) }],
      ['the migration has failed', { vmi: moved({ failed: true }) }],
      ['it is the word of another migration', { vmi: moved({ migrationUid: 'm2' }) }],
      ['the guest came from another node', { vmi: moved({ sourceNode: 'node3' }) }],
      ['the guest has moved on since', { vmi: moved({ targetNode: 'node3' }) }],
      ['its VMI does not run', { vmi: moved({}, 'Failed') }],
      [
        'the domain here is as it was before the switch',
        { domain: reported({ Mode: 'PostCopy' }, 'Paused', 'Postcopy') },
      ],
      ['the launcher has no notes of it', { domain: seen(domainOf('Paused', 'PostcopyFailed')) }],
    ] as const
  ).map(([when, given]) => ({
    rule: 'orphan-alive',
    when: `a domain waits in post-copy, but ${when}`,
    given: { vmi: moved(), domain: broken, memory: since(60_000), ...given },
    expect: { steps: [] },
  })),
  {
    rule: 'nothing-to-do',
    when: 'a running VMI has a launcher that is not asked yet and cannot be',
    given: {
      domain: { kind: 'absent' },
      launcher: { kind: 'unclear', reason: '?' },
      memory: memory({ cleaned: true }),
    },
    expect: { steps: [] },
  },
];
