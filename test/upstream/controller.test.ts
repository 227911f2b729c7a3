import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { bundleProgram } from '../../scripts/bundle.mjs';
import {
  findCondition,
  type KubeObject,
  type PersistentVolumeClaim,
  resources,
  type VirtualMachine,
  type VirtualMachineClone,
  type VirtualMachineInstance,
  type VirtualMachineRestore,
  type VirtualMachineSnapshot,
} from '../../src/api/index.ts';
import { isRecord } from '../../src/base/index.ts';
import type { KubeClient } from '../../src/kube/index.ts';
import { type ControllerDeparture, departures } from './controller-departures.ts';
import { isReady, type Outcome, playScenes, type Scene, type Stage, vmSpec } from './controller-scenes.ts';

/**
 * Upstream's virt-controller and ours are played the same scenes, each on a real kube-apiserver of its own; what is in the API in the end is
 * compared. Nobody defaults or validates what comes in, as virt-api does: both controllers see what the scene wrote.
 */

const machineAddress = '192.168.126.1';
const { virtualMachines: vms, virtualMachineInstances: vmis, replicaSets, pools, dataVolumes } = resources;
const {
  virtualMachineSnapshots: snapshots,
  virtualMachineRestores: restores,
  virtualMachineClones: clones,
} = resources;
const { virtualMachineInstancetypes: instancetypes, virtualMachinePreferences: preferences } = resources;

interface Parts {
  readonly assets: string;
  readonly theirController: string;
}

const phaseOf = (vmi: VirtualMachineInstance) => vmi.status?.phase;
const runs = (object: KubeObject) => phaseOf(object as VirtualMachineInstance) === 'Running';

/** As a kubelet tells of a launcher that has ended badly. */
async function endPods(client: KubeClient, namespace: string): Promise<void> {
  const { items } = await client.list(resources.pods, { namespace });
  const status = { phase: 'Failed', conditions: [{ type: 'Ready', status: 'False' }] };
  for (const { metadata } of items)
    await client.patch(resources.pods, metadata, { status }, 'strategic', { subresource: 'status' });
}

const vmNamed = (name: string) => ({ apiGroup: 'kubevirt.io', kind: vms.kind, name });
const isTaken = ({ status }: VirtualMachineSnapshot) => status?.readyToUse === true;
const isRestored = ({ status }: VirtualMachineRestore) => status?.complete === true;
const isStopped = ({ status }: VirtualMachine) => status?.printableStatus === 'Stopped';
const hasFailure = ({ status }: VirtualMachine) => findCondition(status?.conditions, 'Failure')?.status === 'True';

/** A VM that is halted, with a disk on a claim that is bound. Storage of this machine copies no disk that a guest writes to. */
async function makeWithClaim({ create, until }: Stage): Promise<void> {
  await create(resources.persistentVolumeClaims, 'disk', {
    accessModes: ['ReadWriteOnce'],
    resources: { requests: { storage: '4Mi' } },
  });
  const isBound = ({ status }: PersistentVolumeClaim) => status?.phase === 'Bound';
  await until<PersistentVolumeClaim>(resources.persistentVolumeClaims, 'disk', isBound);
  await create(vms, 'vm', vmSpec('Halted', { persistentVolumeClaim: { claimName: 'disk' } }));
  await until<VirtualMachine>(vms, 'vm', isStopped);
}

async function takeSnapshot({ create, until }: Stage): Promise<void> {
  await create(snapshots, 'snap', { source: vmNamed('vm') });
  await until<VirtualMachineSnapshot>(snapshots, 'snap', isTaken);
}

const restoreTo = (name: string, more: object = {}) => ({
  target: vmNamed(name),
  virtualMachineSnapshotName: 'snap',
  ...more,
});

/** The VM as most scenes have it, with an instance type in place of memory of its own. */
function typedVmSpec(more: object = {}) {
  const { template, ...spec } = vmSpec('Always');
  const { memory: _memory, ...domain } = template.spec.domain;
  const named = { instancetype: { kind: instancetypes.kind, name: 'small' }, ...more };
  return { ...spec, ...named, template: { ...template, spec: { ...template.spec, domain } } };
}
const small = { cpu: { guest: 2 }, memory: { guest: '64Mi' } };
const preferred = { preference: { kind: preferences.kind, name: 'modern' } };

const scenes: Readonly<Record<string, Scene>> = {
  'a VM runs': async ({ create, until }) => {
    await create(vms, 'vm', vmSpec('Always'));
    await until<VirtualMachine>(vms, 'vm', isReady);
  },
  'a VM is stopped': async ({ create, until, patch, untilGone }) => {
    await create(vms, 'vm', vmSpec('Always'));
    await until<VirtualMachine>(vms, 'vm', isReady);
    await patch(vms, 'vm', { spec: { runStrategy: 'Halted' } });
    await untilGone(vmis, 'vm');
  },
  'a VM is halted': async ({ create, until }) => {
    await create(vms, 'vm', vmSpec('Halted'));
    await until<VirtualMachine>(vms, 'vm', isStopped);
  },
  'a VMI of its own': async ({ create, until }) => {
    const { template } = vmSpec('Always');
    await create(vmis, 'alone', template.spec);
    await until<VirtualMachineInstance>(vmis, 'alone', runs);
  },
  'a guest of Once fails': async ({ create, until, patch, client, namespace }) => {
    await create(vms, 'vm', vmSpec('Once'));
    await until<VirtualMachine>(vms, 'vm', isReady);
    await endPods(client, namespace);
    await patch(vmis, 'vm', { status: { phase: 'Failed' } });
    await until<VirtualMachine>(vms, 'vm', isStopped);
  },
  'a template changes while the guest runs': async ({ create, until, patch }) => {
    await create(vms, 'vm', vmSpec('Always'));
    await until<VirtualMachine>(vms, 'vm', isReady);
    const domain = { firmware: { serial: 'another' } };
    await patch(vms, 'vm', { spec: { template: { spec: { domain } } } });
    await until<VirtualMachine>(vms, 'vm', ({ status }) =>
      (status?.conditions ?? []).some(({ type }) => type === 'RestartRequired'),
    );
  },
  'a claim is missing': async ({ create, until }) => {
    await create(vms, 'vm', vmSpec('Always', { persistentVolumeClaim: { claimName: 'missing' } }));
    await until<VirtualMachineInstance>(vmis, 'vm', ({ status }) => (status?.conditions ?? []).length > 0);
  },
  'a disk is imported': async ({ create, until, client, namespace }) => {
    const storage = { resources: { requests: { storage: '1Gi' } } };
    const dataVolume = { metadata: { name: 'disk' }, spec: { source: { blank: {} }, storage } };
    const spec = vmSpec('Always', { dataVolume: { name: 'disk' } });
    await create(vms, 'vm', { ...spec, dataVolumeTemplates: [dataVolume] });
    await until(dataVolumes, 'disk', () => true);
    const status = { phase: 'ImportInProgress', progress: '10%' };
    await client.patch(dataVolumes, { namespace, name: 'disk' }, { status }, 'merge', { subresource: 'status' });
    await until<VirtualMachine>(vms, 'vm', (vm) => vm.status?.printableStatus === 'Provisioning');
  },
  'a replica set': async ({ create, untilCount }) => {
    const { template } = vmSpec('Always');
    await create(replicaSets, 'set', { replicas: 2, selector: { matchLabels: { app: 'guest' } }, template });
    await untilCount(vmis, 2, runs);
  },
  'a pool': async ({ create, untilCount }) => {
    const virtualMachineTemplate = { metadata: { labels: { app: 'guest' } }, spec: vmSpec('Always') };
    await create(pools, 'pool', { replicas: 2, selector: { matchLabels: { app: 'guest' } }, virtualMachineTemplate });
    await untilCount(vmis, 2, runs);
  },
  'a snapshot of a VM that is halted': async (stage) => {
    await makeWithClaim(stage);
    await takeSnapshot(stage);
  },
  'a snapshot of a VM that runs': async (stage) => {
    await stage.create(vms, 'vm', vmSpec('Always'));
    await stage.until<VirtualMachine>(vms, 'vm', isReady);
    await takeSnapshot(stage);
  },
  'a snapshot of a VM that is not there': async ({ create, until }) => {
    await create(snapshots, 'snap', { source: vmNamed('missing') });
    await until<VirtualMachineSnapshot>(snapshots, 'snap', ({ status }) => (status?.conditions ?? []).length > 0);
  },
  'a snapshot is deleted': async (stage) => {
    await makeWithClaim(stage);
    await takeSnapshot(stage);
    await stage.remove(snapshots, 'snap');
    await stage.untilGone(snapshots, 'snap');
  },
  'a VM that is halted is restored': async (stage) => {
    await makeWithClaim(stage);
    await takeSnapshot(stage);
    await stage.create(restores, 'restore', restoreTo('vm'));
    await stage.until<VirtualMachineRestore>(restores, 'restore', isRestored);
  },
  'a VM that runs is stopped to be restored': async (stage) => {
    const { create, until, patch } = stage;
    await create(vms, 'vm', vmSpec('Always'));
    await until<VirtualMachine>(vms, 'vm', isReady);
    await takeSnapshot(stage);
    await create(restores, 'restore', restoreTo('vm'));
    await until<VirtualMachineRestore>(restores, 'restore', ({ status }) => (status?.conditions ?? []).length > 0);
    await patch(vms, 'vm', { spec: { runStrategy: 'Halted' } });
    await until<VirtualMachineRestore>(restores, 'restore', isRestored);
  },
  'a snapshot becomes another VM': async (stage) => {
    await makeWithClaim(stage);
    await takeSnapshot(stage);
    await stage.create(restores, 'restore', restoreTo('other'));
    await stage.until<VirtualMachineRestore>(restores, 'restore', isRestored);
    await stage.until<VirtualMachine>(vms, 'other', isStopped);
  },
  'a restore of a snapshot that is not there': async (stage) => {
    const { create, until } = stage;
    await makeWithClaim(stage);
    await create(restores, 'restore', restoreTo('vm'));
    await until<VirtualMachineRestore>(restores, 'restore', ({ status }) => (status?.conditions ?? []).length > 0);
  },
  'a VM is cloned': async (stage) => {
    await makeWithClaim(stage);
    await stage.create(clones, 'clone', { source: vmNamed('vm'), target: vmNamed('twin') });
    await stage.until<VirtualMachineClone>(clones, 'clone', ({ status }) => status?.phase === 'Succeeded');
    await stage.until<VirtualMachine>(vms, 'twin', isStopped);
  },
  'a VM has an instance type and a preference': async ({ create, until }) => {
    await create(instancetypes, 'small', small);
    await create(preferences, 'modern', { devices: { preferredInterfaceModel: 'e1000e' } });
    await create(vms, 'vm', typedVmSpec(preferred));
    await until<VirtualMachine>(vms, 'vm', isReady);
  },
  'an instance type is not there': async ({ create, until }) => {
    await create(vms, 'vm', typedVmSpec());
    await until<VirtualMachine>(vms, 'vm', hasFailure);
  },
  'an instance type and a template want different memory': async ({ create, until }) => {
    await create(instancetypes, 'small', small);
    await create(vms, 'vm', { ...typedVmSpec(), template: vmSpec('Always').template });
    await until<VirtualMachine>(vms, 'vm', hasFailure);
  },
  'a VM is deleted while its guest runs': async ({ create, until, untilGone, client, namespace }) => {
    await create(vms, 'vm', vmSpec('Always'));
    await until<VirtualMachine>(vms, 'vm', isReady);
    await client.delete(vms, { namespace, name: 'vm' });
    await untilGone(vms, 'vm');
  },
};

let outcomes: Record<'theirs' | 'ours', Record<string, Outcome>>;
const used = new Set<ControllerDeparture>();

before(async () => {
  const parts: Parts = JSON.parse(process.env.KUBELET_PARTS ?? '{}');
  const own = '.build/scenes/virt-controller.mjs';
  await bundleProgram('virt-controller', own);
  const play = (name: string, command: string) => playScenes(parts.assets, machineAddress, { name, command }, scenes);
  const theirs = await play('upstream', parts.theirController);
  outcomes = { theirs, ours: await play('ours', `${process.execPath} ${own}`) };
});
after(() => undefined);

for (const name of Object.keys(scenes)) {
  test(`upstream's controller and ours end alike: ${name}`, () => {
    const found = differences(objectsOf(outcomes.theirs[name]), objectsOf(outcomes.ours[name]), '');
    const unexpected = found.filter((line) => {
      const covering = departures.filter(({ path }) => covers(path, line));
      for (const one of covering) used.add(one);
      return covering.length === 0;
    });
    assert.equal(unexpected.join('\n'), '');
  });
}

test('each departure is one', () => {
  assert.deepEqual(
    departures.filter((departure) => !departure.isSeenAtTimes && !used.has(departure)),
    [],
  );
});

function objectsOf(outcome: Outcome | undefined) {
  assert.ok(outcome && 'objects' in outcome, outcome && 'problem' in outcome ? outcome.problem : 'not played');
  return outcome.objects;
}

/** `*` stands for anything. */
function covers(path: string, line: string): boolean {
  const pattern = path.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${pattern.join('.*')}: `).test(line);
}

function differences(theirs: unknown, ours: unknown, path: string): string[] {
  const [one, other] = [asMap(theirs), asMap(ours)];
  if (one && other) {
    const keys = [...new Set([...Object.keys(one), ...Object.keys(other)])];
    return keys.flatMap((key) => differences(one[key], other[key], path === '' ? key : `${path}.${key}`));
  }
  const [left, right] = [theirs, ours].map((value) => JSON.stringify(sorted(value)));
  return left === right ? [] : [`${path}: upstream has ${left}, ours ${right}`];
}

/** Members of objects within lists have no order; an empty one may say something there (`masquerade`). */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isRecord(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== null);
  return Object.fromEntries(
    members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, member]) => [name, sorted(member)]),
  );
}

/** Conditions by their type; what is empty or null is not there. */
function asMap(value: unknown): Record<string, unknown> | undefined {
  if (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((each) => isRecord(each) && 'type' in each && 'status' in each)
  )
    return Object.fromEntries(value.map((each) => [String(each.type), withoutNothing(each)]));
  return isRecord(value) ? withoutNothing(value) : undefined;
}

function withoutNothing(value: Record<string, unknown>): Record<string, unknown> {
  const isNothing = (each: unknown) =>
    each === null || each === undefined || each === '' || (typeof each === 'object' && Object.keys(each).length === 0);
  return Object.fromEntries(Object.entries(value).filter(([, each]) => !isNothing(each)));
}
