import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Disk, VmiSpec, Volume } from '../../../src/api/index.ts';
import { hotplugProblems } from '../../../src/apiserver/admission/hotplug.ts';

const claim = (name: string, claimName = name): Volume => ({
  name,
  persistentVolumeClaim: { claimName, hotpluggable: true },
});
const root: Volume = { name: 'root', containerDisk: { image: 'x' } };
const rootDisk: Disk = { name: 'root', disk: { bus: 'virtio' } };
const scsi = (name: string): Disk => ({ name, disk: { bus: 'scsi' } });

function specOf(volumes: readonly Volume[], disks: readonly Disk[]): VmiSpec {
  return { domain: { devices: { disks: [...disks] } }, volumes: [...volumes] };
}

const old = specOf([root, claim('a')], [rootDisk, scsi('a')]);
const configuration = 'Hotplug configuration for';
const added = (disk: Disk) => specOf([root, claim('a'), claim('b')], [rootDisk, scsi('a'), disk]);

const rows: readonly (readonly [string, VmiSpec, string?])[] = [
  ['nothing changes', old],
  ['a volume comes', added(scsi('b'))],
  [
    'a virtio disk comes with a thread of its own',
    added({ name: 'b', disk: { bus: 'virtio' }, dedicatedIOThread: true }),
  ],
  ['a LUN comes', added({ name: 'b', lun: { bus: 'scsi' } })],
  ['a volume goes', specOf([root], [rootDisk])],
  ['an empty drive is there', specOf([root], [rootDisk, { name: 'cd', cdrom: { bus: 'sata' } }])],
  [
    'a volume without disk comes',
    specOf([root, claim('a'), claim('b')], [rootDisk, scsi('a')]),
    'mismatch between volumes declared (3) and required (2)',
  ],
  ['a volume of the start goes', specOf([claim('a')], [scsi('a')]), 'Number of permanent volumes has changed'],
  [
    'a volume of the start changes',
    specOf([{ name: 'root', containerDisk: { image: 'y' } }, claim('a')], [rootDisk, scsi('a')]),
    'permanent volume root, changed',
  ],
  [
    'a disk of the start changes',
    specOf([root, claim('a')], [scsi('root'), scsi('a')]),
    'permanent disk root, changed',
  ],
  ['a plugged volume changes', specOf([root, claim('a', 'other')], [rootDisk, scsi('a')]), 'hotplug volume a, changed'],
  [
    'a plugged disk changes',
    specOf([root, claim('a')], [rootDisk, { ...scsi('a'), serial: 'x' }]),
    'hotplug disk a, changed',
  ],
  [
    'a container disk comes',
    specOf([root, claim('a'), { name: 'b', emptyDisk: { capacity: '1Mi' } }], [rootDisk, scsi('a'), scsi('b')]),
    'volume b is not a PVC or DataVolume',
  ],
  [
    'a sata disk comes',
    added({ name: 'b', disk: { bus: 'sata' } }),
    `${configuration} disk [b] requires bus to be 'scsi' or 'virtio'. [sata] is not permitted.`,
  ],
  [
    'a disk without bus comes',
    added({ name: 'b', disk: {} }),
    `${configuration} disk [b] requires bus to be 'scsi' or 'virtio'. [] is not permitted.`,
  ],
  [
    'a virtio LUN comes',
    added({ name: 'b', lun: { bus: 'virtio' } }),
    `${configuration} LUN [b] requires bus to be 'scsi'. [virtio] is not permitted.`,
  ],
  [
    'a new drive comes',
    added({ name: 'b', cdrom: { bus: 'scsi' } }),
    `${configuration} [b] requires diskDevice of type 'disk' or 'lun' to be used.`,
  ],
  [
    'a scsi disk comes with a thread of its own',
    added({ ...scsi('b'), dedicatedIOThread: true }),
    `${configuration} [b] requires virtio bus for IOThreads.`,
  ],
  [
    'a disk comes with boot order 0',
    added({ ...scsi('b'), bootOrder: 0 }),
    'spec.domain.devices.disks[1] must have a boot order > 0, if supplied',
  ],
];

for (const [change, wanted, problem] of rows) {
  test(`when ${change}: ${problem ?? 'allowed'}`, () => {
    const status = {
      volumeStatus: [
        { name: 'root', target: 'vda' },
        { name: 'a', target: '', hotplugVolume: {} },
      ],
    };
    const messages = hotplugProblems({ old, wanted, status }).map(({ message }) => message);
    assert.deepEqual(messages, problem === undefined ? [] : [problem]);
  });
}
