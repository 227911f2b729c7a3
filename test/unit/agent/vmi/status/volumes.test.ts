import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import type { StatusFacts } from '../../../../../src/agent/vmi/observe/index.ts';
import { project } from '../../../../../src/agent/vmi/status/index.ts';
import type { Domain, VirtualMachineInstance, VolumeStatus } from '../../../../../src/api/index.ts';
import {
  clusterConfig,
  domainNone,
  domainOf,
  observationOf,
  presentVmi,
  seen,
  vmiOf,
} from '../../../../fixtures/agent/builders.ts';

function projected(vmi: VirtualMachineInstance, domain: Domain | undefined, facts: Partial<StatusFacts> = {}) {
  const statusFacts = { config: clusterConfig.status, isoSizes: {}, ...facts };
  const observation = observationOf({ vmi: presentVmi(vmi), domain: domain ? seen(domain) : domainNone, statusFacts });
  return project(vmi, { observation, decision: decide(observation), outcomes: [] });
}

function domainWith(...disks: readonly (readonly [alias: string | null, device: string, file?: string])[]): Domain {
  const domain = domainOf('Running');
  domain.Spec.Devices.Disks = disks.map(([name, Device, File = '/image']) => ({
    Device: 'disk',
    Type: 'file',
    Source: { Dev: '', File },
    Target: { Bus: 'virtio', Device, Tray: '' },
    Alias: name === null ? null : { Name: name, UserDefined: true },
  }));
  return domain;
}

const running = (volumeStatus: VolumeStatus[], spec: object = {}) => {
  const domain = { devices: { disks: [], interfaces: [] } };
  return vmiOf('Running', { spec: { domain, volumes: [{ name: 'v' }], ...spec }, status: { volumeStatus } });
};

const hotplug = { attachPodName: 'hp', attachPodUID: 'u' };

test('targets come from disks with a source, sorted by volume; what is not attached has none', () => {
  const vmi = running([
    { name: 'z', target: 'old' },
    { name: 'empty', target: 'sdc' },
    { name: 'a', target: '' },
  ]);
  const domain = domainWith(['a', 'vda'], ['z', 'vdb'], ['empty', 'sdc', ''], [null, 'vdx']);
  assert.deepEqual(projected(vmi, domain).vmi?.status?.volumeStatus, [
    { name: 'a', target: 'vda' },
    { name: 'empty', target: '' },
    { name: 'z', target: 'vdb' },
  ]);
});

test('what others wrote about a volume stays', () => {
  const known = { name: 'v', target: '', persistentVolumeClaimInfo: { claimName: 'c', x: 1 }, future: { deep: [1] } };
  const [volume] = projected(running([known]), domainWith(['v', 'vda'])).vmi?.status?.volumeStatus ?? [];
  assert.deepEqual(volume, { ...known, target: 'vda' });
});

/** Phase before, attached, mounted (undefined: unknown), in the spec; phase and reason after. */
const phases = [
  ['Bound', true, undefined, true, 'Ready', 'VolumeReady'],
  ['MountedToPod', true, [], true, 'Ready', 'VolumeReady'],
  ['Bound', false, ['v'], true, 'MountedToPod', 'VolumeMountedToPod'],
  ['Pending', false, ['v'], true, 'MountedToPod', 'VolumeMountedToPod'],
  ['AttachedToNode', false, ['v'], true, 'MountedToPod', 'VolumeMountedToPod'],
  ['Ready', false, ['v'], true, 'Ready', undefined],
  ['Bound', false, [], true, 'Bound', undefined],
  ['Bound', false, undefined, true, 'Bound', undefined],
  ['Ready', false, [], false, 'UnMountedFromPod', 'VolumeUnMountedFromPod'],
  ['MountedToPod', false, [], false, 'UnMountedFromPod', 'VolumeUnMountedFromPod'],
  ['AttachedToNode', false, [], false, 'UnMountedFromPod', 'VolumeUnMountedFromPod'],
  ['Ready', false, undefined, false, 'Ready', undefined],
  ['Ready', false, ['v'], false, 'Ready', undefined],
  ['Bound', false, [], false, 'Bound', undefined],
] as const;
for (const [before, attached, mounted, wanted, after, reason] of phases) {
  const situation = `${attached ? 'attached' : `mounted ${mounted ? mounted.length > 0 : 'unknown'}`}, ${wanted ? '' : 'not '}in the spec`;
  test(`a hot-plugged volume goes from ${before} to ${after}: ${situation}`, () => {
    const vmi = running(
      [{ name: 'v', target: '', phase: before, hotplugVolume: hotplug }],
      wanted ? {} : { volumes: [] },
    );
    const facts = mounted ? { mountedVolumes: mounted } : {};
    const domain = attached ? domainWith(['v', 'sda']) : domainWith();
    const { vmi: written, events } = projected(vmi, domain, facts);
    const [volume] = written?.status?.volumeStatus ?? [];
    assert.deepEqual([volume?.phase, volume?.reason], [after, reason]);
    assert.deepEqual(
      events
        .filter((event) => event.reason.startsWith('Volume'))
        .map((event) => [event.type, event.reason, event.message]),
      reason ? [['Normal', reason, volume?.message]] : [],
    );
  });
}

test('a utility volume counts as one in the spec', () => {
  const vmi = running([{ name: 'v', target: '', phase: 'Bound', hotplugVolume: hotplug }], {
    volumes: [],
    utilityVolumes: [{ name: 'v', claimName: 'c' }],
  });
  const [volume] = projected(vmi, domainWith(), { mountedVolumes: ['v'] }).vmi?.status?.volumeStatus ?? [];
  assert.equal(volume?.phase, 'MountedToPod');
});

test('a hot-plugged volume without target is looked at again, an attached one is not', () => {
  const vmi = running([{ name: 'v', target: '', phase: 'Bound', hotplugVolume: hotplug }]);
  assert.equal(projected(vmi, domainWith(), { mountedVolumes: [] }).requeueAfterMs, 10_000);
  assert.equal(projected(vmi, domainWith(['v', 'sda'])).requeueAfterMs, undefined);
});

test('a volume that was mounted is given to the launcher at once: an own write wakes no key', () => {
  const vmi = running([{ name: 'v', target: '', phase: 'AttachedToNode', hotplugVolume: hotplug }]);
  assert.equal(projected(vmi, domainWith(), { mountedVolumes: ['v'] }).requeueAfterMs, 0);
  assert.equal(projected(vmi, domainWith(['v', 'sda'])).requeueAfterMs, undefined);
});

test('a volume that a start waits for is written as mounted before there is a domain', () => {
  const volumeStatus = [{ name: 'v', target: '', phase: 'AttachedToNode', hotplugVolume: hotplug }];
  const vmi = { ...running(volumeStatus), status: { phase: 'Scheduled' as const, volumeStatus } };
  const { vmi: written, requeueAfterMs, events } = projected(vmi, undefined, { mountedVolumes: ['v'] });
  assert.equal(written?.status?.volumeStatus?.[0]?.phase, 'MountedToPod');
  assert.equal(requeueAfterMs, 0);
  assert.deepEqual(
    events.map(({ reason }) => reason),
    ['VolumeMountedToPod'],
  );
  assert.equal(projected(vmi, undefined, { mountedVolumes: [] }).vmi, undefined);
});

test('sizes of ISO images are written while the guest runs, also with the phase Running itself', () => {
  const volumeStatus = [{ name: 'v', target: '' }];
  const isoSizes = { v: 374_784, other: 1 };
  const [size] = projected(running(volumeStatus), domainWith(), { isoSizes }).vmi?.status?.volumeStatus ?? [];
  assert.equal(size?.size, 374_784);
  const starting = vmiOf('Scheduled', { status: { volumeStatus } });
  assert.equal(projected(starting, domainWith(), { isoSizes }).vmi?.status?.volumeStatus?.[0]?.size, 374_784);
  const kept = projected(running([{ name: 'v', target: '', size: 7 }]), domainWith()).vmi?.status?.volumeStatus;
  assert.equal(kept?.[0]?.size, 7, 'an unread size is not taken away');
});

const dumping = (phase: string, dump: object = {}) =>
  running([{ name: 'v', target: '', phase, memoryDumpVolume: { claimName: 'c', ...dump } }]);
const file = 'vm1-v-20260102-030405.memory.dump';

function dumpDomain(reported: Record<string, unknown>): Domain {
  return domainOf('Running', 'Unknown', { MemoryDump: { FileName: file, ...reported } });
}

test('a memory dump begins with a file name when its volume is mounted', () => {
  const facts = { mountedVolumes: ['v'] };
  const [volume] = projected(dumping('MountedToPod'), domainWith(), facts).vmi?.status?.volumeStatus ?? [];
  assert.equal(volume?.phase, 'MemoryDumpInProgress');
  assert.equal(volume?.reason, 'VolumeMountedToPod');
  assert.deepEqual(volume?.memoryDumpVolume, { claimName: 'c', targetFileName: file });
  const [waiting] = projected(dumping('MountedToPod'), domainWith()).vmi?.status?.volumeStatus ?? [];
  assert.equal(waiting?.phase, 'MountedToPod', 'a build that mounts nothing begins no dump');
});

const start = '2026-01-02T03:04:06Z';
const end = '2026-01-02T03:05:00Z';
const dumps = [
  ['goes on', { StartTimestamp: start, EndTimestamp: null }, 'MemoryDumpInProgress', { startTimestamp: start }],
  [
    'completes',
    { StartTimestamp: start, EndTimestamp: end, Completed: true },
    'MemoryDumpCompleted',
    { startTimestamp: start, endTimestamp: end },
  ],
  [
    'fails',
    { StartTimestamp: start, EndTimestamp: end, Completed: true, Failed: true, FailureReason: 'disk full' },
    'MemoryDumpFailed',
    { startTimestamp: start, endTimestamp: end },
  ],
  ['is another one', { FileName: 'other', StartTimestamp: start, EndTimestamp: end }, 'MemoryDumpInProgress', {}],
  ['tells no times', { StartTimestamp: 'yesterday', EndTimestamp: {} }, 'MemoryDumpInProgress', {}],
] as const;
for (const [situation, reported, phase, times] of dumps) {
  test(`a memory dump is followed by the domain's metadata: it ${situation}`, () => {
    const vmi = dumping('MemoryDumpInProgress', { targetFileName: file });
    const { vmi: written, requeueAfterMs } = projected(vmi, dumpDomain(reported));
    const [volume] = written?.status?.volumeStatus ?? [];
    assert.equal(volume?.phase, phase);
    assert.deepEqual(volume?.memoryDumpVolume, { claimName: 'c', targetFileName: file, ...times });
    assert.equal(requeueAfterMs, phase === 'MemoryDumpInProgress' ? 10_000 : undefined);
  });
}

const backupStatus = { backupName: 'b', startTimestamp: start };
const backing = (reported: Record<string, unknown>) => {
  const vmi = vmiOf('Running', { status: { changedBlockTracking: { state: 'Enabled', backupStatus } } });
  return projected(vmi, domainOf('Running', 'Unknown', { Backup: reported })).vmi?.status?.changedBlockTracking;
};

test('the backup that the status names is followed', () => {
  const volumes = [{ volumeName: 'v' }];
  const reported = {
    Name: 'b',
    StartTimestamp: '2026-01-02T05:04:06+02:00',
    EndTimestamp: end,
    Completed: true,
    BackupMsg: 'ok',
    CheckpointName: 'cp',
    QuiesceStatus: 'Succeeded',
    Volumes: JSON.stringify(volumes),
  };
  assert.deepEqual(backing(reported), {
    state: 'Enabled',
    backupStatus: {
      ...backupStatus,
      completed: true,
      endTimestamp: end,
      backupMsg: 'ok',
      checkpointName: 'cp',
      quiesceStatus: 'Succeeded',
      volumes,
    },
  });
});

test('another backup and garbage leave the status alone', () => {
  const foreignVolumes = [
    { Name: 'other', StartTimestamp: start, Completed: true },
    { Name: 'b', StartTimestamp: end, Completed: true },
    { Name: 'b', Completed: true },
    { Name: 'b', StartTimestamp: start, Completed: 'yes', EndTimestamp: 7, Volumes: '[', BackupMsg: {} },
  ];
  for (const reported of foreignVolumes)
    assert.deepEqual(backing(reported), { state: 'Enabled', backupStatus }, JSON.stringify(reported));
});
