import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Disk, VirtualMachine, VmiPhase, Volume, VolumeRequest } from '../../../../src/api/index.ts';
import type { PluggedVolumes } from '../../../../src/controller/vm/hotplug.ts';
import type { PresentVm } from '../../../../src/controller/vm/observation.ts';
import { projectVmStatus } from '../../../../src/controller/vm/status.ts';
import { openVolumeRequests, requestedVolumes } from '../../../../src/controller/vm/volume-requests.ts';
import { buildVm, buildVmi } from '../builders.ts';

const root: Volume = { name: 'root', containerDisk: { image: 'i' } };
const claim = (name: string, hotpluggable = true): Volume => ({
  name,
  persistentVolumeClaim: { claimName: name, hotpluggable },
});
const scsi = (name: string): Disk => ({ name, disk: { bus: 'scsi' } });
const add = (name: string): VolumeRequest => ({
  addVolumeOptions: {
    name,
    disk: { disk: { bus: 'scsi' } },
    volumeSource: { persistentVolumeClaim: { claimName: name } },
  },
});
const remove = (name: string): VolumeRequest => ({ removeVolumeOptions: { name } });

const of = (...volumes: Volume[]): PluggedVolumes => ({ volumes, disks: volumes.map(({ name }) => scsi(name)) });
const words = (list: PluggedVolumes | undefined) =>
  list && `${list.volumes.map(({ name }) => name)} on ${list.disks.map(({ name }) => name)}`;

interface Row {
  readonly when: string;
  readonly requests: readonly VolumeRequest[];
  readonly template: PluggedVolumes;
  readonly vmi?: PluggedVolumes;
  readonly phase?: VmiPhase;
  readonly plugsVolumes?: boolean;
  /** Template; VMI. */
  readonly expected: readonly [string, string?] | undefined;
}

const rows: readonly Row[] = [
  { when: 'nothing is asked for', requests: [], template: of(root), expected: undefined },
  { when: 'one is to come', requests: [add('a')], template: of(root), expected: ['root,a on root,a'] },
  { when: 'it is there', requests: [add('a')], template: of(root, claim('a')), expected: undefined },
  { when: 'one is to go', requests: [remove('a')], template: of(root, claim('a')), expected: ['root on root'] },
  { when: 'it is gone', requests: [remove('a')], template: of(root), expected: undefined },
  {
    when: 'one comes and another goes, and the template gets to the guest by itself',
    requests: [add('a'), remove('b')],
    template: of(root, claim('b')),
    vmi: of(root, claim('b')),
    expected: ['root,a on root,a'],
  },
  {
    when: 'one comes and another goes, and the cluster plugs nothing of templates',
    requests: [add('a'), remove('b')],
    template: of(root, claim('b')),
    vmi: of(root, claim('b')),
    plugsVolumes: false,
    expected: ['root,a on root,a', 'root,a on root,a'],
  },
  {
    when: 'one is to go that the guest was started with',
    requests: [remove('b')],
    template: of(root, claim('b', false)),
    vmi: of(root, claim('b', false)),
    plugsVolumes: false,
    expected: ['root on root', 'root,b on root,b'],
  },
  {
    when: 'the guest does not run yet',
    requests: [add('a')],
    template: of(root),
    vmi: of(root),
    phase: 'Scheduled',
    plugsVolumes: false,
    expected: undefined,
  },
  {
    when: 'the guest has ended, and its VMI is kept',
    requests: [add('a')],
    template: of(root),
    vmi: of(root),
    phase: 'Succeeded',
    plugsVolumes: false,
    expected: ['root,a on root,a'],
  },
];

function specOf({ volumes, disks }: PluggedVolumes) {
  return { domain: { devices: { disks: [...disks] } }, volumes: [...volumes] };
}

function vmOf(template: PluggedVolumes, volumeRequests: readonly VolumeRequest[]): VirtualMachine {
  return buildVm({ template: { spec: specOf(template) } }, { volumeRequests: [...volumeRequests] });
}

for (const { when, requests, template, vmi, phase = 'Running', plugsVolumes = true, expected } of rows) {
  test(`volumes that virt-api asks for: ${when}`, () => {
    const seen = { vm: vmOf(template, requests), vmi: vmi && buildVmi(specOf(vmi), { phase }), plugsVolumes };
    const found = requestedVolumes(seen as PresentVm);
    assert.deepEqual(found && [words(found.template), words(found.vmi)], expected && [expected[0], expected[1]]);
  });
}

test('a volume that comes can be plugged out again, and its disk has its name', () => {
  const seen = { vm: vmOf(of(root), [add('a')]), vmi: undefined, plugsVolumes: true } as PresentVm;
  const { volumes = [], disks = [] } = requestedVolumes(seen)?.template ?? {};
  assert.deepEqual([volumes[1], disks[1]], [claim('a'), scsi('a')]);
});

test('what a bare API server took for requests is passed over', () => {
  for (const odd of [7, {}, [7], [null], [{}], [{ addVolumeOptions: 7 }], [{ removeVolumeOptions: { name: 7 } }]]) {
    const vm = buildVm({}, { volumeRequests: odd as VolumeRequest[] });
    assert.deepEqual(openVolumeRequests(vm), []);
    assert.equal(requestedVolumes({ vm, vmi: undefined, plugsVolumes: true } as PresentVm), undefined);
  }
  for (const template of [undefined, 7, {}, { spec: 7 }, { spec: {} }]) {
    const vm = buildVm({ template: template as never }, { volumeRequests: [add('a')] });
    assert.equal(requestedVolumes({ vm, vmi: undefined, plugsVolumes: true } as PresentVm), undefined);
  }
});

function statusOf(vm: VirtualMachine) {
  const expected = { creationExpected: false, deletionExpected: false, changes: [], isChanged: undefined };
  const seen = {
    vm,
    vmi: undefined,
    ...expected,
    disks: 'ready' as const,
    volumeStatuses: undefined,
    changeTracking: { isEnabled: false, vms: undefined },
    now: new Date(0),
  };
  return projectVmStatus(seen, undefined, () => 0);
}

test('a request is kept until the template has it', () => {
  assert.deepEqual(statusOf(vmOf(of(root, claim('a')), [add('a'), remove('root')])).volumeRequests, [remove('root')]);
  assert.equal(statusOf(vmOf(of(root, claim('a')), [add('a')])).volumeRequests, undefined);
});
