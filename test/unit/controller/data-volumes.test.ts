import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Condition, DataVolume, PersistentVolumeClaim } from '../../../src/api/index.ts';
import { renderTemporaryPod } from '../../../src/controller/pod/index.ts';
import { reconcileVmi, salt } from '../../fixtures/controller/one-reconcile.ts';
import { buildConfig, buildPod, buildVmi } from './builders.ts';

const config = buildConfig();

function claimOf(dataVolumeUid: string | undefined): PersistentVolumeClaim {
  const owner = { apiVersion: 'cdi.kubevirt.io/v1beta1', kind: 'DataVolume', name: 'disk', controller: true };
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      ...{ name: 'disk', namespace: 'default', uid: 'uid-claim', resourceVersion: '7' },
      ...(dataVolumeUid !== undefined && { ownerReferences: [{ ...owner, uid: dataVolumeUid }] }),
    },
    spec: { accessModes: ['ReadWriteOnce'], volumeMode: 'Block' },
  };
}

function dataVolume(status: DataVolume['status']): DataVolume {
  return {
    apiVersion: 'cdi.kubevirt.io/v1beta1',
    kind: 'DataVolume',
    metadata: { name: 'disk', namespace: 'default', uid: 'uid-dv', resourceVersion: '8' },
    ...(status && { status }),
  };
}

const vmi = buildVmi(
  { volumes: [{ name: 'root', dataVolume: { name: 'disk' } }] },
  { phase: 'Pending', conditions: [] },
  { finalizers: ['kubevirt.io/virtualMachineControllerFinalizer', 'kubevirt.io/foregroundDeleteVirtualMachine'] },
);
const temporary = renderTemporaryPod(vmi, config, salt, new Map([['disk', claimOf('uid-dv')]]));

interface Outcome {
  readonly rule: unknown;
  readonly made: readonly string[];
  readonly phase: unknown;
  readonly ready: string | undefined;
  readonly events: readonly string[];
}

async function outcomeOf(more: Parameters<typeof reconcileVmi>[0]): Promise<Outcome> {
  const { decisions, writes, events } = await reconcileVmi(
    { vmis: [vmi], claims: [claimOf('uid-dv')], ...more },
    config,
  );
  const stored = writes.filter(({ target }) => target.startsWith('virtualmachineinstances/')).at(-1)?.body;
  const { phase, conditions = [] } = (stored as typeof vmi | undefined)?.status ?? {};
  const ready = conditions.find(({ type }: Condition) => type === 'DataVolumesReady');
  return {
    rule: decisions.at(-1)?.rule,
    made: writes.flatMap(({ method, target, body }) => (method === 'POST' ? [`${target} ${nameOf(body)}`] : [])),
    phase,
    ready: ready && `${ready.status} ${ready.reason}: ${ready.message}`,
    events,
  };
}

const nameOf = (body: unknown) => (body as { metadata: { name: string } }).metadata.name;

test('while a DataVolume fills the claim no pod is made, and the VMI says how far it is', async () => {
  const running = { type: 'Running', status: 'True' as const, message: '' };
  const status = { phase: 'ImportInProgress', progress: '12.50%', conditions: [running] };
  const { rule, made, phase, ready } = await outcomeOf({ dataVolumes: [dataVolume(status)] });
  assert.deepEqual([rule, made, phase], ['data-not-whole', [], 'Pending']);
  assert.equal(ready, 'False NotAllDVsReady: DataVolume disk: ImportInProgress, 12.50%');
});

test('a DataVolume without a status has not begun', async () => {
  const { rule, made } = await outcomeOf({ dataVolumes: [dataVolume(undefined)] });
  assert.deepEqual([rule, made], ['data-not-whole', []]);
});

for (const phase of ['Succeeded', 'PendingPopulation']) {
  test(`a DataVolume in phase ${phase} keeps nobody`, async () => {
    const { rule, made, ready } = await outcomeOf({ dataVolumes: [dataVolume({ phase })] });
    assert.equal(rule, 'no-pod-yet');
    assert.equal(made.length, 1);
    assert.match(ready ?? '', /^True AllDVsReady/);
  });
}

test('a claim that no DataVolume fills is used as it is, and DataVolumes are not asked for', async () => {
  const { made, ready } = await outcomeOf({ claims: [claimOf(undefined)], dataVolumes: [] });
  assert.deepEqual([made.length, ready], [1, undefined]);
});

test('one that failed fails the VMI with its reason; one of the same name that came later is another', async () => {
  const conditions = [{ type: 'Running', status: 'False' as const, reason: 'Error', message: '404 Not Found' }];
  const failed = await outcomeOf({ dataVolumes: [dataVolume({ phase: 'Failed', conditions })] });
  assert.deepEqual([failed.rule, failed.made, failed.phase], ['data-volume-failed', [], 'Failed']);
  assert.deepEqual(failed.events, ['FailedDataVolumeImport']);
  assert.match(failed.ready ?? '', /Failed: 404 Not Found$/);
  const other = {
    ...dataVolume({ phase: 'Succeeded' }),
    metadata: { name: 'disk', namespace: 'default', uid: 'uid-2', resourceVersion: '9' },
  };
  const gone = await outcomeOf({ dataVolumes: [other] });
  assert.deepEqual([gone.rule, gone.made, gone.phase], ['data-volume-gone', [], 'Pending']);
});

test('a claim that waits for its first consumer gets one that runs no guest', async () => {
  const { rule, made, phase, ready } = await outcomeOf({
    dataVolumes: [dataVolume({ phase: 'WaitForFirstConsumer' })],
  });
  assert.deepEqual([rule, phase], ['consumer-awaited', 'Pending']);
  assert.deepEqual(made, [`pods ${temporary.metadata.name}`]);
  assert.match(ready ?? '', /^False NotAllDVsReady/);
  const [compute, ...others] = temporary.spec.containers;
  assert.deepEqual([compute?.name, compute?.command, others], ['compute', ['/bin/sh', '-c', 'echo bound claims'], []]);
  assert.deepEqual(compute?.volumeDevices, [{ name: 'root', devicePath: '/dev/root' }]);
  assert.equal(temporary.spec.initContainers, undefined);
});

const waiting = { dataVolumes: [dataVolume({ phase: 'WaitForFirstConsumer' })] };
const asPod = (status: NonNullable<typeof temporary.status>) => ({
  ...temporary,
  metadata: { ...temporary.metadata, uid: 'uid-temporary', resourceVersion: '6' },
  status,
});

test('it gets one only, and none is made of a pod that somebody else called so', async () => {
  const { rule, made } = await outcomeOf({ ...waiting, pods: [asPod({ phase: 'Pending' })] });
  assert.deepEqual([rule, made], ['consumer-awaited', []]);
  const foreign = asPod({ phase: 'Failed' });
  foreign.metadata.name = 'virt-launcher-vm1-zzzzz';
  const beside = await outcomeOf({ ...waiting, pods: [foreign] });
  assert.deepEqual(
    [beside.rule, beside.made, beside.phase],
    ['consumer-awaited', [`pods ${temporary.metadata.name}`], 'Pending'],
  );
});

test('a consumer that fails before the claim is filled fails the VMI', async () => {
  const { phase } = await outcomeOf({ ...waiting, pods: [asPod({ phase: 'Failed' })] });
  assert.equal(phase, 'Failed');
});

test('when the claim is filled the launcher pod comes beside the consumer, which goes after', async () => {
  const filled = { dataVolumes: [dataVolume({ phase: 'Succeeded' })] };
  const pods = [asPod({ phase: 'Succeeded' })];
  const { rule, made } = await outcomeOf({ ...filled, pods });
  assert.equal(rule, 'no-pod-yet');
  assert.notDeepEqual(made, [`pods ${temporary.metadata.name}`]);
  const launcher = buildPod({ phase: 'Pending' });
  const recorded = {
    ...vmi,
    status: { phase: 'Pending', activePods: { 'uid-pod': '' }, conditions: [] },
  } as typeof vmi;
  const { writes } = await reconcileVmi(
    { vmis: [recorded], claims: [claimOf('uid-dv')], ...filled, pods: [...pods, launcher] },
    config,
  );
  const deleted = writes.filter(({ method }) => method === 'DELETE').map(({ target }) => target);
  assert.deepEqual([...new Set(deleted)], [`pods/${temporary.metadata.name}`]);
});
