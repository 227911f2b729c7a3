import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  controllerOf,
  keyOf,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VirtualMachinePool,
} from '../../../../src/api/index.ts';
import { decidePool, poolRules } from '../../../../src/controller/pool/decide.ts';
import { observePool, signatureOf } from '../../../../src/controller/pool/observe.ts';
import type { Template } from '../../../../src/controller/pool/revisions.ts';
import { statusOf } from '../../../../src/controller/pool/write.ts';
import { KubeError } from '../../../../src/kube/index.ts';
import { FakeClock } from '../../../fixtures/fake-clock.ts';
import { buildPool, template, vmiOf, vmOf } from './situations.ts';

type Vm = VirtualMachine;

interface State {
  readonly pool?: VirtualMachinePool | undefined;
  /** As caches show them. */
  readonly vms?: readonly Vm[];
  readonly vmis?: readonly VirtualMachineInstance[];
  /** As the API server has the VMs, where that is something else. */
  readonly live?: readonly Vm[] | 'no answer';
  readonly revisions?: Readonly<Record<string, Template>>;
  /** Revisions were looked through for these; those of the VMs unless given. */
  readonly pruned?: string;
}

const both = { 'web-1': template('32Mi'), 'web-2': template() };

async function observed({ pool, vms = [], vmis = [], live = vms, revisions = both, pruned }: State) {
  const named = (key: string) => vms.filter((vm) => `default/${controllerOf(vm)?.name}` === key);
  const inUse = new Set(
    [...vms, ...vmis].flatMap(({ metadata }) => metadata.labels?.['kubevirt.io/vm-pool-revision-name'] ?? []),
  );
  const deps = {
    client: {
      list: async () => {
        if (live === 'no answer') throw new KubeError('UNREACHABLE', 'no answer');
        return { items: [...live], resourceVersion: '1' } as never;
      },
    },
    pools: { get: () => pool } as never,
    vmis: { get: (key: string) => vmis.find((vmi) => keyOf(vmi) === key) },
    members: {
      of: () => named('default/web').filter((vm) => controllerOf(vm)?.uid === pool?.metadata.uid),
      ofName: named,
      orphans: () => vms.filter((vm) => controllerOf(vm) === undefined),
    },
    revisions: { of: async () => new Map(Object.entries(revisions)) },
    prunedFor: () => pruned ?? signatureOf(inUse),
    clock: new FakeClock(),
    random: () => 0.5,
  };
  return observePool('default/web', deps, new AbortController().signal);
}

const namesOf = (objects: readonly { readonly metadata: { readonly name: string } }[]) =>
  objects.map(({ metadata }) => metadata.name).join(' ');

async function decided(state: State): Promise<readonly string[]> {
  const { rule, steps } = decidePool(await observed(state));
  return [
    rule,
    ...steps.map((step) => {
      if ('vms' in step) return `${step.step} ${namesOf(step.vms)}`;
      if (step.step === 'createVms') return `createVms ${step.count}`;
      if (step.step === 'restartVmis') return `restartVmis ${namesOf(step.vmis)}`;
      return step.step === 'relabelVmis' ? `relabelVmis ${namesOf(step.vmis.map(({ vmi }) => vmi))}` : step.step;
    }),
  ];
}

const pool = buildPool();
const deletion = { deletionTimestamp: '2026-01-01T00:00:01Z' };
const vms = [vmOf(0), vmOf(1)];
const vmis = [vmiOf(0), vmiOf(1)];
const lame = { phase: 'Scheduled' } as const;
const scaleIn = (proactive: object) => ({ replicas: 1, scaleInStrategy: { proactive } });
const sorted = (sortPolicy: 'Newest' | 'Oldest' | 'AscendingOrder' | 'DescendingOrder') => ({
  selectionPolicy: { sortPolicy },
});
const oldGuests = [vmiOf(0, 1), vmiOf(1, 1)];
const eager = (more: object = {}) => buildPool({ updateStrategy: { proactive: sorted('AscendingOrder') }, ...more });
const disks = { dataVolumeTemplates: [{ metadata: { name: 'root' } }] };
const failing = (status: VirtualMachine['status']) => [vmOf(0), vmOf(1, 2, {}, status)];
const notReady = (lastTransitionTime: string): VirtualMachine['status'] => ({
  printableStatus: 'ErrorUnschedulable',
  conditions: [{ type: 'Ready', status: 'False', lastTransitionTime }],
});

const cases: Readonly<Record<string, readonly [state: State, expected: readonly string[]]>> = {
  'gone: there is no pool': [{ pool: undefined }, ['gone']],
  'outlived: a VM that is being deleted goes after its pool': [
    { pool: undefined, vms: [vmOf(0, 2, deletion), vmOf(1)] },
    ['outlived', 'releaseVms web-0'],
  ],
  'deleted: its VMs are let go, then the pool': [
    { pool: buildPool({}, deletion), vms },
    ['deleted', 'releaseVms web-0 web-1', 'removePoolFinalizer'],
  ],
  'leaving: nothing of a VM is kept': [{ pool, vms: [vmOf(0), vmOf(1, 2, deletion)] }, ['leaving', 'releaseVms web-1']],
  'leaving: its disks are kept first': [
    { pool: buildPool(scaleIn({ statePreservation: 'Offline' })), vms: [vmOf(0), vmOf(1, 2, deletion)] },
    ['leaving', 'keepStorage web-1', 'releaseVms web-1'],
  ],
  'leaving: also of a pool that does no work': [
    { pool: buildPool({ paused: true, selector: {} }), vms: [vmOf(0, 2, deletion)] },
    ['leaving', 'releaseVms web-0'],
  ],
  'detached: its owner reference was taken off': [
    { pool, vms: [vmOf(0), vmOf(1), vmOf(2, 2, { ownerReferences: [] })] },
    ['detached', 'releaseVms web-2'],
  ],
  'detached: a VM of an earlier pool of this name goes': [
    { pool: buildPool({}, { uid: 'another' }), vms: [vmOf(0, 2, deletion)] },
    ['detached', 'releaseVms web-0'],
  ],
  'unusable: no template': [{ pool: buildPool({ virtualMachineTemplate: {} as never }), vms }, ['unusable']],
  'unusable: the selector does not fit the template': [
    { pool: buildPool({ selector: { matchLabels: { pool: 'db' } } }) },
    ['unusable'],
  ],
  'unusable: two strategies': [
    { pool: buildPool({ updateStrategy: { opportunistic: {}, proactive: {} } }), vms },
    ['unusable'],
  ],
  'unusable: a share that is none': [{ pool: buildPool({ maxUnavailable: '0%' }), vms }, ['unusable']],
  'unusable: an order that nobody knows': [
    { pool: buildPool(scaleIn({ selectionPolicy: { sortPolicy: 'Biggest' } })), vms },
    ['unusable'],
  ],
  'without-finalizer: it gets one first': [
    { pool: buildPool({}, { finalizers: [] }), vms: [] },
    ['without-finalizer', 'addPoolFinalizer'],
  ],
  'strayed: let go before others are made': [
    { pool, vms: [vmOf(0), vmOf(1, 2, { labels: {} })] },
    ['strayed', 'releaseVms web-1'],
  ],
  'paused: too few': [{ pool: buildPool({ paused: true }) }, ['paused']],
  'failing: too many failed starts': [
    { pool: buildPool({ autohealing: {} }), vms: failing({ startFailure: { consecutiveFailCount: 3 } }), vmis },
    ['failing', 'deleteVms web-1'],
  ],
  'failing: for too long': [
    { pool: buildPool({ autohealing: {} }), vms: failing(notReady('2026-01-02T02:54:59Z')), vmis },
    ['failing', 'deleteVms web-1'],
  ],
  'too-few: those that are missing': [{ pool, vms: [vmOf(0)] }, ['too-few', 'keepRevision', 'createVms 1']],
  'too-few: in bursts': [{ pool: buildPool({ replicas: 600 }) }, ['too-few', 'keepRevision', 'createVms 250']],
  'memory-not-kept: none is deleted': [
    { pool: buildPool(scaleIn({ statePreservation: 'Online' })), vms, vmis },
    ['memory-not-kept'],
  ],
  'too-many: the newest': [
    { pool: buildPool(scaleIn(sorted('Newest'))), vms: [...vms, vmOf(2)] },
    ['too-many', 'deleteVms web-2 web-1'],
  ],
  'too-many: the oldest': [{ pool: buildPool(scaleIn(sorted('Oldest'))), vms }, ['too-many', 'deleteVms web-0']],
  'too-many: by number': [
    { pool: buildPool(scaleIn(sorted('DescendingOrder'))), vms: [vmOf(9), vmOf(10)] },
    ['too-many', 'deleteVms web-10'],
  ],
  'too-many: only those that the policy means': [
    {
      pool: buildPool({
        replicas: 0,
        scaleInStrategy: {
          proactive: { selectionPolicy: { selectors: { labelSelector: { matchLabels: { tier: 'spare' } } } } },
        },
      }),
      vms: [
        vmOf(0),
        { ...vmOf(1), spec: { template: { metadata: { labels: { tier: 'spare' } }, spec: { domain: {} } } } },
      ],
    },
    ['too-many', 'deleteVms web-1'],
  ],
  'too-many: of those that are really there': [
    { pool: buildPool(scaleIn(sorted('DescendingOrder'))), vms: [...vms, vmOf(2)], live: vms },
    ['too-many', 'deleteVms web-1'],
  ],
  'as-wanted: only the cache has one too many': [
    { pool: buildPool({ replicas: 1 }), vms, vmis, live: [vmOf(0)] },
    ['as-wanted'],
  ],
  'as-wanted: one that is being deleted is one too many no more': [
    { pool: buildPool({ replicas: 1 }), vms: [vmOf(0), vmOf(1, 2, { ...deletion, finalizers: ['other'] })], vmis },
    ['as-wanted'],
  ],
  'surplus-kept: others delete VMs': [
    { pool: buildPool({ replicas: 1, scaleInStrategy: { opportunistic: {} } }), vms, vmis },
    ['surplus-kept'],
  ],
  'surplus-kept: nobody manages the number': [
    { pool: buildPool({ replicas: 1, scaleInStrategy: { unmanaged: {} } }), vms, vmis },
    ['surplus-kept'],
  ],
  'outdated: another template': [
    { pool, vms: [vmOf(0, 1), vmOf(1)], vmis },
    ['outdated', 'keepRevision', 'updateVms web-0'],
  ],
  'outdated: its template is not known any more': [
    { pool, vms: [vmOf(0), vmOf(1, 7)], vmis },
    ['outdated', 'keepRevision', 'updateVms web-1'],
  ],
  'as-wanted: another revision with the same template': [
    { pool, vms, vmis, revisions: { 'web-2': template() } },
    ['as-wanted'],
  ],
  'as-wanted: what the present revision holds is the template, however it is written': [
    { pool, vms, vmis, revisions: { 'web-2': template('64Mi', { dataVolumeTemplates: [] }) } },
    ['as-wanted'],
  ],
  'as-wanted: updates are for others': [
    { pool: buildPool({ updateStrategy: { unmanaged: {} } }), vms: [vmOf(0, 1), vmOf(1, 1)], vmis: oldGuests },
    ['as-wanted'],
  ],
  'as-wanted: guests go on opportunistically': [
    { pool: buildPool({ updateStrategy: { opportunistic: {} } }), vms, vmis: oldGuests },
    ['as-wanted'],
  ],
  'guests-outdated: all at once, unless less may be unavailable': [
    { pool: eager(), vms, vmis: oldGuests },
    ['guests-outdated', 'restartVmis web-0 web-1'],
  ],
  'guests-outdated: as many as may be unavailable': [
    { pool: eager({ maxUnavailable: '50%' }), vms, vmis: oldGuests },
    ['guests-outdated', 'restartVmis web-0'],
  ],
  'guests-outdated: one that is not available loses nothing': [
    { pool: eager({ maxUnavailable: 1 }), vms, vmis: [vmiOf(0, 1), vmiOf(1, 1, lame)] },
    ['guests-outdated', 'restartVmis web-1'],
  ],
  'guests-outdated: it only does not say so': [
    { pool: eager(), vms, vmis: oldGuests, revisions: { 'web-1': template(), 'web-2': template() } },
    ['guests-outdated', 'relabelVmis web-0 web-1'],
  ],
  'guests-outdated: nobody knows what it was started from': [
    { pool: eager(), vms, vmis: oldGuests, revisions: { 'web-2': template() } },
    ['guests-outdated', 'restartVmis web-0 web-1'],
  ],
  'guests-outdated: other disks need another VM': [
    {
      ...{ pool: eager({ virtualMachineTemplate: template('64Mi', disks) }), vms, vmis: [vmiOf(0, 1), vmiOf(1)] },
      revisions: { 'web-1': template(), 'web-2': template('64Mi', disks) },
    },
    ['guests-outdated', 'deleteVms web-0'],
  ],
  'update-waits: until another one is available': [
    { pool: eager({ maxUnavailable: 1 }), vms, vmis: [vmiOf(0, 1), vmiOf(1, 2, lame)] },
    ['update-waits'],
  ],
  'update-waits: a VM without a guest is not available': [
    { pool: eager({ maxUnavailable: 1 }), vms, vmis: [vmiOf(0, 1)] },
    ['update-waits'],
  ],
  'old-revisions: after the last guest of a template': [
    { pool, vms, vmis, pruned: 'web-1 web-2' },
    ['old-revisions', 'pruneRevisions'],
  ],
  'as-wanted: nothing to do': [{ pool, vms, vmis }, ['as-wanted']],
  'api-without-answer: none is deleted on the word of the cache alone': [
    { pool: buildPool({ replicas: 1 }), vms, vmis, live: 'no answer' },
    ['api-without-answer'],
  ],
};

for (const [what, [state, expected]] of Object.entries(cases)) {
  test(`a pool: ${what}`, async () => assert.deepEqual(await decided(state), expected));
}

test('each rule has a case', () => {
  const named = new Set(Object.keys(cases).map((title) => title.split(':')[0]));
  assert.deepEqual(
    poolRules.filter(({ name }) => !named.has(name)).map(({ name }) => name),
    [],
  );
});

test('a VM that is not ready yet is looked at again when healing is due', async () => {
  const state = { pool: buildPool({ autohealing: {} }), vms: failing(notReady('2026-01-02T02:59:00Z')), vmis };
  const { rule, requeueAfterMs } = decidePool(await observed(state));
  assert.deepEqual([rule, requeueAfterMs], ['as-wanted', 240_000]);
});

test('the status counts VMs, and says in words what is not done', async () => {
  const state = { pool: buildPool(scaleIn({ statePreservation: 'Online' })), vms, vmis };
  const observation = await observed(state);
  const counted = [vmOf(0, 2, {}, { conditions: [{ type: 'Ready', status: 'True' }] }), vmOf(1)];
  const status = statusOf(observation as never, { decision: decidePool(observation), failure: undefined }, counted);
  assert.deepEqual([status.replicas, status.readyReplicas, status.labelSelector], [2, 1, 'pool=web']);
  const [condition] = status.conditions ?? [];
  assert.deepEqual([condition?.type, condition?.reason], ['ReplicaFailure', 'NotSupported']);
});
