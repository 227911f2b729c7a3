import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance, VirtualMachineInstanceReplicaSet } from '../../../../src/api/index.ts';
import { decideSet, inDeletionOrder, replicaSetRules } from '../../../../src/controller/replica-set/decide.ts';
import { membersOf, observeSet } from '../../../../src/controller/replica-set/observe.ts';
import { statusOf } from '../../../../src/controller/replica-set/write.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildSet, member, running } from './situations.ts';

interface State {
  readonly set?: VirtualMachineInstanceReplicaSet | undefined;
  /** As caches show them. */
  readonly vmis?: readonly VirtualMachineInstance[];
  /** As the API server has them, where that is something else. */
  readonly live?: readonly VirtualMachineInstance[] | 'no answer';
}

async function observed({ set, vmis = [], live = vmis }: State) {
  const deps = {
    client: {
      list: async () => {
        if (live === 'no answer') throw new KubeError('UNREACHABLE', 'no answer');
        return { items: [...live], resourceVersion: '1' } as never;
      },
    },
    sets: { get: () => set } as never,
    members: {
      of: () => vmis.filter(({ metadata }) => metadata.ownerReferences !== undefined),
      orphans: () => vmis.filter(({ metadata }) => metadata.ownerReferences === undefined),
    },
    clock: new FakeClock(),
  };
  return observeSet('default/web', deps, new AbortController().signal);
}

async function decided(state: State): Promise<readonly string[]> {
  const { rule, steps } = decideSet(await observed(state));
  return [
    rule,
    ...steps.map((step) => {
      if (step.step === 'createVmis') return `create ${step.count}`;
      if (step.step === 'noteVersions') return step.step;
      return `${step.step} ${step.vmis.map(({ metadata }) => metadata.name).join(' ')}`;
    }),
  ];
}

const set = buildSet();
const [a, b, c] = [member('a', running), member('b', running), member('c', running)];
const failed = member('failed', { phase: 'Failed' });
const deleted = { deletionTimestamp: '2026-01-01T00:00:01Z' };
const orphan = member('orphan', running, { ownerReferences: undefined as never });
const stray = member('stray', running, { labels: { app: 'other' } });
const losing = member('losing', {
  ...{ phase: 'Running', nodeName: 'node1' },
  conditions: [{ type: 'Ready', status: 'False', reason: 'PodTerminating' }],
});

const cases: Readonly<Record<string, readonly [state: State, expected: readonly string[]]>> = {
  'gone: there is no set': [{ set: undefined }, ['gone']],
  'deleted: nothing is made and nothing deleted': [{ set: buildSet({}, deleted), vmis: [a] }, ['deleted']],
  'versions-unnoted: before anything else is done': [
    { set: buildSet({}, { annotations: { 'kubevirt.io/latest-observed-api-version': 'v1alpha3' } }), vmis: [] },
    ['versions-unnoted', 'noteVersions'],
  ],
  'unusable: no template': [{ set: buildSet({ template: undefined as never }), vmis: [a] }, ['unusable']],
  'unusable: the selector does not fit the template': [
    { set: buildSet({ selector: { matchLabels: { app: 'db' } } }), vmis: [a] },
    ['unusable'],
  ],
  'unusable: a selector of everything': [{ set: buildSet({ selector: {} }), vmis: [a] }, ['unusable']],
  'strayed: let go before others are made': [{ set, vmis: [a, stray] }, ['strayed', 'releaseVmis stray']],
  'orphans: taken in before others are made': [{ set, vmis: [a, orphan] }, ['orphans', 'adoptVmis orphan']],
  'orphans: not one that is being deleted': [
    { set, vmis: [a, b, member('old', running, { ...deleted, ownerReferences: undefined as never })] },
    ['as-wanted'],
  ],
  'paused: too few': [{ set: buildSet({ paused: true }), vmis: [a] }, ['paused']],
  'paused: VMIs are taken in all the same': [
    { set: buildSet({ paused: true }), vmis: [orphan] },
    ['orphans', 'adoptVmis orphan'],
  ],
  'too-few: those that are missing': [{ set, vmis: [a] }, ['too-few', 'create 1']],
  'too-few: no number is one': [{ set: buildSet({ replicas: undefined as never }) }, ['too-few', 'create 1']],
  'too-few: in bursts': [{ set: buildSet({ replicas: 1000 }) }, ['too-few', 'create 250']],
  'too-few: an ended one is replaced and deleted': [
    { set, vmis: [a, failed] },
    ['too-few', 'create 1', 'deleteVmis failed'],
  ],
  'too-few: one whose launcher goes is replaced': [
    { set, vmis: [a, losing] },
    ['too-few', 'create 1', 'deleteVmis losing'],
  ],
  'too-few: one that is being deleted does not count': [
    { set, vmis: [a, member('b', running, deleted)] },
    ['too-few', 'create 1'],
  ],
  'too-many: the surplus': [{ set, vmis: [a, b, c] }, ['too-many', 'deleteVmis a']],
  'too-many: with ended ones': [{ set, vmis: [a, b, c, failed] }, ['too-many', 'deleteVmis a failed']],
  'ended: others are there already': [{ set, vmis: [a, b, failed] }, ['ended', 'deleteVmis failed']],
  'as-wanted: nothing to do': [{ set, vmis: [a, b] }, ['as-wanted']],
  'as-wanted: only the cache lacks one': [{ set, vmis: [a], live: [a, b] }, ['as-wanted']],
  'as-wanted: only the cache has one too many': [{ set, vmis: [a, b, c], live: [a, b] }, ['as-wanted']],
  'as-wanted: what others control is not seen': [
    {
      set,
      vmis: [
        a,
        b,
        member('x', running, {
          ownerReferences: [{ ...set.metadata, ...a.metadata.ownerReferences?.[0], uid: 'other' } as never],
        }),
      ],
    },
    ['as-wanted'],
  ],
  'api-without-answer: nothing is made on the word of the cache alone': [
    { set, vmis: [a], live: 'no answer' },
    ['api-without-answer'],
  ],
};

for (const [what, [state, expected]] of Object.entries(cases)) {
  test(`a replica set: ${what}`, async () => assert.deepEqual(await decided(state), expected));
}

test('each rule has a case', () => {
  const named = new Set(Object.keys(cases).map((title) => title.split(':')[0]));
  assert.deepEqual(
    replicaSetRules.filter(({ name }) => !named.has(name)).map(({ name }) => name),
    [],
  );
});

test('what has come the least far is deleted first, of equals the newest', () => {
  const later = { creationTimestamp: '2026-01-01T00:00:09Z' };
  const inOrder = [
    member('new', {}),
    member('scheduled', { phase: 'Scheduled', nodeName: 'node1' }),
    member('not-ready', { phase: 'Running', nodeName: 'node1' }),
    member('leaving', { ...running, evacuationNodeName: 'node1' }),
    member('moving', { ...running, migrationState: { startTimestamp: '2026-01-01T00:00:05Z' } as never }),
    member('young', running, later),
    member('old', running),
  ];
  const names = inDeletionOrder(inOrder.toReversed()).map(({ metadata }) => metadata.name);
  assert.deepEqual(names, ['new', 'scheduled', 'not-ready', 'leaving', 'moving', 'young', 'old']);
});

test('the status counts VMIs that live, and says why one could not be made until it could', async () => {
  const vmis = [a, member('b', { phase: 'Scheduled' }), failed, member('gone', running, deleted)];
  const observation = await observed({ set, vmis });
  assert.equal(observation.kind, 'present');
  const decision = decideSet(observation);
  const failure = { severity: 'retry', code: 'CREATE_FAILED', message: 'exceeded quota: 1' } as const;
  const status = statusOf(observation as never, { decision, failure }, vmis);
  assert.deepEqual([status.replicas, status.readyReplicas, status.labelSelector], [2, 1, 'app=web']);
  const [condition] = status.conditions ?? [];
  assert.deepEqual([condition?.type, condition?.reason], ['ReplicaFailure', 'FailedCreate']);
  const told = { ...observation, set: { ...set, status } };
  const again = { ...failure, message: 'exceeded quota: 2' };
  assert.deepEqual(statusOf(told as never, { decision, failure: again }, vmis), status);
  assert.equal(statusOf(told as never, { decision, failure: undefined }, vmis).conditions, undefined);
});

test('VMIs of wrong shapes are counted as what can be read of them', () => {
  const odd = { ...member('odd'), status: { conditions: 'none', phase: 7 } };
  assert.equal(membersOf(set, [odd as never]).active.length, 1);
});
