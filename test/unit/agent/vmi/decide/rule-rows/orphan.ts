import { domainOf, domainUnknown, launcherDead, observationOf, seen } from '../../../../../fixtures/agent/builders.ts';
import { elsewhere, ghost, memory, type Row } from './row.ts';

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
