import {
  domainOf,
  domainUnknown,
  launcherDead,
  node,
  presentVmi,
  seen,
  uid,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';
import { elsewhere, ghost, memory, type Row } from './row.ts';

/** Rules for migrations, VMIs without an owner here and what no VMI owns. */
export const elsewhereRows: readonly Row[] = [
  {
    rule: 'migration-not-supported',
    when: 'this node is the target',
    given: {
      vmi: presentVmi(
        vmiOf('Running', {
          metadata: {
            name: 'vm1',
            namespace: 'default',
            uid,
            labels: { 'kubevirt.io/nodeName': 'node2', 'kubevirt.io/migrationTargetNodeName': node },
          },
          status: { nodeName: 'node2', migrationState: { migrationUid: 'm1' } },
        }),
      ),
    },
    expect: { steps: [], route: 'migration-target' },
  },
  {
    rule: 'migration-target-left-alone',
    when: 'the user was told',
    given: {
      vmi: presentVmi(
        vmiOf('Running', {
          metadata: {
            name: 'vm1',
            namespace: 'default',
            uid,
            labels: { 'kubevirt.io/nodeName': 'node2', 'kubevirt.io/migrationTargetNodeName': node },
          },
          status: { nodeName: 'node2', migrationState: { migrationUid: 'm1' } },
        }),
      ),
      memory: memory({ toldMigrationUid: 'm1' }),
    },
    expect: { steps: [], route: 'migration-target' },
  },
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
    when: 'the launcher of a moved VMI is gone (fault 12 of spec 10)',
    given: { vmi: elsewhere, domain: launcherDead, ghost },
    expect: { steps: ['cleanUp'] },
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
