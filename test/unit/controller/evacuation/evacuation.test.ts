import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod, VirtualMachineInstance, VirtualMachineInstanceMigration } from '../../../../src/api/index.ts';
import { decideEvacuation } from '../../../../src/controller/evacuation/decide.ts';
import { cordonNote, type DrainedNode, observeNode } from '../../../../src/controller/evacuation/observe.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildConfig, buildPod, buildVmi, cacheOf } from '../builders.ts';
import { buildMigration } from '../migration/situations.ts';

interface State {
  readonly spec?: DrainedNode['spec'];
  readonly vmi?: VirtualMachineInstance;
  readonly migrations?: readonly VirtualMachineInstanceMigration[];
  readonly pods?: readonly Pod[];
  readonly isNoted?: boolean;
  /** The end of its cordon was seen. */
  readonly isLifted?: boolean;
  readonly configuration?: Record<string, unknown>;
}

const drain = { taints: [{ key: 'kubevirt.io/drain', effect: 'NoSchedule' }] };
const migratable = { type: 'LiveMigratable', status: 'True' } as const;

function guest(status: VirtualMachineInstance['status'] = {}, evictionStrategy = 'LiveMigrate') {
  return buildVmi({ evictionStrategy }, { phase: 'Running', nodeName: 'node1', conditions: [migratable], ...status });
}

const marked = guest({ evacuationNodeName: 'node1' });
const evacuation = (phase: 'Pending' | 'Scheduling' | 'Running' | 'Failed') => {
  const migration = buildMigration(phase);
  const annotations = { 'kubevirt.io/evacuationMigration': 'node1' };
  return { ...migration, metadata: { ...migration.metadata, annotations } };
};

function decided({ spec = {}, vmi = guest(), migrations = [], pods = [], isNoted, isLifted, configuration }: State) {
  const note = isNoted === true && { annotations: { [cordonNote]: 'true' } };
  const metadata = { name: 'node1', uid: 'uid-node', ...note };
  const node: DrainedNode = { apiVersion: 'v1', kind: 'Node', metadata, spec };
  const deps = {
    nodes: { get: () => node },
    lifted: new Set(isLifted === true ? ['node1'] : []),
    vmis: cacheOf([vmi]),
    migrations: cacheOf(migrations),
    ownPods: cacheOf(pods),
    config: () => buildConfig(configuration),
    clock: new FakeClock(),
  };
  const { rule, steps } = decideEvacuation(observeNode('node1', deps));
  return [rule, ...steps.map(({ step }) => step)];
}

const migrate = ['to-empty', 'createMigrations'];
const nothing = ['nothing-to-move'];
const activePods = { 'uid-pod': 'node1', 'uid-old': 'node1' };

const cases: Readonly<Record<string, readonly [state: State, expected: readonly string[]]>> = {
  'the node is not to be emptied': [{}, nothing],
  'the guest is marked': [{ vmi: marked }, migrate],
  'the mark names another node': [{ vmi: guest({ evacuationNodeName: 'node2' }) }, nothing],
  'the node has the taint of a drain': [{ spec: drain }, migrate],
  'the taint has another effect': [{ spec: { taints: [{ key: 'kubevirt.io/drain', effect: 'NoExecute' }] } }, nothing],
  'the cluster has another taint': [
    { spec: drain, configuration: { migrations: { nodeDrainTaintKey: 'x' } } },
    nothing,
  ],
  'the guest is to be shut down instead': [{ spec: drain, vmi: guest({}, 'None') }, nothing],
  'another system moves it': [{ vmi: guest({ evacuationNodeName: 'node1' }, 'External') }, nothing],
  'it cannot migrate': [{ spec: drain, vmi: guest({ conditions: [] }) }, ['stuck']],
  'it cannot migrate and need not': [{ spec: drain, vmi: guest({ conditions: [] }, 'LiveMigrateIfPossible') }, nothing],
  'it has ended': [{ spec: drain, vmi: guest({ phase: 'Succeeded' }) }, nothing],
  'it is on its way': [{ vmi: marked, migrations: [evacuation('Running')] }, nothing],
  'the last try has failed': [{ vmi: marked, migrations: [evacuation('Failed')] }, migrate],
  'a pod of an earlier migration is left': [
    {
      vmi: guest({ evacuationNodeName: 'node1', activePods }),
      pods: [buildPod(), buildPod({ phase: 'Running' }, { name: 'old', uid: 'uid-old' })],
    },
    nothing,
  ],
  'an earlier pod has ended': [
    {
      vmi: guest({ evacuationNodeName: 'node1', activePods }),
      pods: [buildPod(), buildPod({ phase: 'Succeeded' }, { name: 'old', uid: 'uid-old' })],
    },
    migrate,
  ],
  'the cordon is lifted': [
    { vmi: marked, migrations: [evacuation('Pending')], isNoted: true },
    ['uncordoned', 'clearMarks', 'cancelWaiting', 'forgetCordon'],
  ],
  'the cordon is lifted while the target pod waits for a node': [
    { vmi: marked, migrations: [evacuation('Scheduling')], isNoted: true },
    ['uncordoned', 'clearMarks', 'cancelWaiting', 'forgetCordon'],
  ],
  'a short cordon, which left no note, was lifted': [
    { vmi: marked, migrations: [evacuation('Pending')], isLifted: true },
    ['uncordoned', 'clearMarks', 'cancelWaiting', 'forgetCordon'],
  ],
  'a cordon was lifted, and nothing is marked': [{ isLifted: true }, nothing],
  'it is cordoned again': [{ vmi: marked, spec: { unschedulable: true }, isNoted: true, isLifted: true }, migrate],
  'it is still cordoned': [{ vmi: marked, spec: { unschedulable: true }, isNoted: true }, migrate],
  'the cordon was lifted and nothing is marked': [
    { isNoted: true },
    ['uncordoned', 'clearMarks', 'cancelWaiting', 'forgetCordon'],
  ],
  'a cordon is new': [
    { vmi: marked, migrations: [evacuation('Pending')], spec: { unschedulable: true } },
    ['cordoned', 'noteCordon'],
  ],
  'a cordon is new, and the guest has no migration yet': [
    { vmi: marked, spec: { unschedulable: true } },
    ['to-empty', 'noteCordon', 'createMigrations'],
  ],
  'a cordon with nothing marked': [{ spec: { unschedulable: true } }, nothing],
  'the mark is gone before its migration began': [
    { migrations: [evacuation('Pending')] },
    ['needless', 'cancelWaiting'],
  ],
  'the mark is gone and it is on its way': [{ migrations: [evacuation('Running')] }, nothing],
  'the taint of a drain is gone before its migration began': [
    { migrations: [evacuation('Pending')], spec: { taints: [] } },
    ['needless', 'cancelWaiting'],
  ],
  'it waits to leave, as the taint says': [{ spec: drain, migrations: [evacuation('Pending')] }, nothing],
  'it has left by another migration': [
    { vmi: guest({ nodeName: 'node2' }), migrations: [evacuation('Pending')] },
    ['needless', 'cancelWaiting'],
  ],
};

for (const [what, [state, expected]] of Object.entries(cases)) {
  test(`a node with a guest: ${what}`, () => assert.deepEqual(decided(state), expected));
}
