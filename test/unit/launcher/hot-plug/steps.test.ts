import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Disk, VirtualMachineInstance, Volume, VolumeStatus } from '../../../../src/api/index.ts';
import {
  type LiveDomain,
  pluggedDiskXml,
  type ResolvedDisk,
  readLiveDomain,
  wantedDisks,
} from '../../../../src/launcher/domain/index.ts';
import { diskSteps, volumesToFind } from '../../../../src/launcher/hot-plug/steps.ts';
import { vmiWith } from '../domain/cases.ts';

const hotplugDir = '/var/run/kubevirt/hotplug-disks';
const fileOf = (name: string) => `${hotplugDir}/${name}.img`;

/** As libvirt writes a running domain. */
function liveDomain(...disks: readonly string[]): LiveDomain {
  return readLiveDomain(`<domain><iothreads>2</iothreads><devices>${disks.join('')}</devices></domain>`);
}

function liveDisk(name: string, target: string, bus: string, file = fileOf(name), device = 'disk'): string {
  const source = file === '' ? '' : `<source file='${file}' index='3'/><backingStore/>`;
  return (
    `<disk type='file' device='${device}'><driver name='qemu' type='raw' cache='none'/>${source}` +
    `<target dev='${target}' bus='${bus}'/><alias name='ua-${name}'/></disk>`
  );
}

const root = liveDisk('root', 'vda', 'virtio', '/var/run/kubevirt-private/vmi-disks/root/disk.img');
const rootDisk: Disk = { name: 'root', disk: { bus: 'virtio' } };
const rootVolume: Volume = { name: 'root', persistentVolumeClaim: { claimName: 'root' } };
const claim = (name: string): Volume => ({ name, persistentVolumeClaim: { claimName: name, hotpluggable: true } });
const ready = (name: string, change: Partial<VolumeStatus> = {}): VolumeStatus => ({
  name,
  target: '',
  phase: 'Ready',
  hotplugVolume: {},
  ...change,
});

interface Asked {
  readonly disks?: readonly Disk[];
  readonly volumes?: readonly Volume[];
  readonly volumeStatus?: VolumeStatus[];
}

function vmiOf({ disks = [], volumes = [], volumeStatus = [] }: Asked): VirtualMachineInstance {
  const vmi = vmiWith({ devices: { disks: [rootDisk, ...disks] } }, { volumes: [rootVolume, ...volumes] });
  return { ...vmi, status: { volumeStatus } };
}

/** Steps in short words; all files are there unless `files` says which. */
function stepsOf(live: LiveDomain, asked: Asked, files?: readonly string[]): string[] {
  const wanted = wantedDisks(vmiOf(asked), live);
  const found = volumesToFind({ live: live.disks, wanted }).filter((name) => files?.includes(name) ?? true);
  const media = new Map(
    found.map((name): [string, ResolvedDisk] => [name, { path: fileOf(name), format: 'raw', isBlock: false }]),
  );
  return diskSteps({ live: live.disks, wanted, media, hotplugDir }).map((step) => {
    switch (step.step) {
      case 'plug':
        return `plug ${step.disk.name} as ${step.disk.plan.targetDevice}`;
      case 'unplug':
        return `unplug ${step.disk.name}`;
      case 'setMedium':
        return `${step.medium ? 'insert' : 'eject'} ${step.disk.name}`;
      default:
        return step satisfies never;
    }
  });
}

const scsi: Disk = { name: 'data', disk: { bus: 'scsi' } };
const data: Asked = { disks: [scsi], volumes: [claim('data')], volumeStatus: [ready('data')] };
const emptyDrive: Disk = { name: 'cd', cdrom: { bus: 'sata' } };
const drive = (file: string, bus = 'sata') => liveDisk('cd', 'sda', bus, file, 'cdrom');
const filled: Asked = { disks: [emptyDrive], volumes: [claim('cd')], volumeStatus: [ready('cd')] };

const rows: readonly (readonly [string, LiveDomain, Asked, readonly string[], files?: readonly string[]])[] = [
  ['a domain that is as it should be', liveDomain(root), {}, []],
  ['a mounted volume', liveDomain(root), data, ['plug data as sda']],
  [
    'a volume in phase MountedToPod',
    liveDomain(root),
    { ...data, volumeStatus: [ready('data', { phase: 'MountedToPod' })] },
    ['plug data as sda'],
  ],
  [
    'a volume on its way',
    liveDomain(root),
    { ...data, volumeStatus: [ready('data', { phase: 'AttachedToNode' })] },
    [],
  ],
  ['a volume without status', liveDomain(root), { ...data, volumeStatus: [] }, []],
  ['a mounted volume whose file is not there', liveDomain(root), data, [], []],
  ['a volume that is plugged in already', liveDomain(root, liveDisk('data', 'sdb', 'scsi')), data, []],
  [
    'a plugged volume whose status says that it is on its way',
    liveDomain(root, liveDisk('data', 'sda', 'scsi')),
    { ...data, volumeStatus: [ready('data', { phase: 'Bound' })] },
    [],
  ],
  [
    'a plugged volume that the VMI no longer has',
    liveDomain(root, liveDisk('data', 'sda', 'scsi')),
    {},
    ['unplug data'],
  ],
  ['a virtio disk that the VMI no longer has', liveDomain(root, liveDisk('v', 'vdb', 'virtio')), {}, ['unplug v']],
  ['a sata disk, which cannot be unplugged', liveDomain(root, liveDisk('s', 'sda', 'sata')), {}, []],
  [
    'a disk of the start that the VMI no longer has',
    liveDomain(root, liveDisk('x', 'vdb', 'virtio', '/disks/x')),
    {},
    [],
  ],
  [
    'a file beside the directory of plugged disks',
    liveDomain(root, liveDisk('x', 'vdb', 'virtio', `${hotplugDir}-x/x`)),
    {},
    [],
  ],
  [
    'a sata disk, which cannot be plugged in',
    liveDomain(root),
    { ...data, disks: [{ name: 'data', disk: { bus: 'sata' } }] },
    [],
  ],
  [
    'a disk that leaves keeps its name from a new one',
    liveDomain(root, liveDisk('old', 'sda', 'scsi')),
    data,
    ['unplug old', 'plug data as sdb'],
  ],
  [
    'a name of the status that another disk of the domain has',
    liveDomain(root, liveDisk('old', 'sda', 'scsi')),
    { ...data, volumeStatus: [ready('data', { target: 'sda' })] },
    ['unplug old', 'plug data as sdb'],
  ],
  [
    'a name of the status that is free',
    liveDomain(root),
    { ...data, volumeStatus: [ready('data', { target: 'sdc' })] },
    ['plug data as sdc'],
  ],
  ['an empty drive that stays empty', liveDomain(root, drive('')), { disks: [emptyDrive] }, []],
  ['an empty drive with a volume', liveDomain(root, drive('')), filled, ['insert cd']],
  [
    'an empty drive whose volume is on its way',
    liveDomain(root, drive('')),
    { ...filled, volumeStatus: [ready('cd', { phase: 'Bound' })] },
    [],
  ],
  ['an empty drive whose file is not there', liveDomain(root, drive('')), filled, [], []],
  ['a drive with its medium', liveDomain(root, drive(fileOf('cd'))), filled, []],
  ['a drive whose volume is gone', liveDomain(root, drive(fileOf('cd'))), { disks: [emptyDrive] }, ['eject cd']],
  ['a drive with another medium', liveDomain(root, drive(fileOf('other'))), filled, ['insert cd']],
  ['a sata drive that the VMI no longer has', liveDomain(root, drive(fileOf('cd'))), {}, ['eject cd']],
  ['a scsi drive that the VMI no longer has', liveDomain(root, drive(fileOf('cd'), 'scsi')), {}, ['unplug cd']],
  ['a drive with a medium of its start', liveDomain(root, drive('/disks/seed.iso')), { disks: [emptyDrive] }, []],
  [
    'a scsi drive that was not there at the start',
    liveDomain(root),
    { ...filled, disks: [{ name: 'cd', cdrom: { bus: 'scsi' } }] },
    ['plug cd as sda'],
  ],
];

for (const [situation, live, asked, expected, files] of rows) {
  test(`what is done about ${situation}: ${expected.join(', ') || 'nothing'}`, () => {
    assert.deepEqual(stepsOf(live, asked, files), expected);
  });
}

function xmlOf(
  live: LiveDomain,
  asked: Asked,
  change: Partial<VirtualMachineInstance['spec']['domain']>,
  isBlock = false,
) {
  const vmi = vmiOf(asked);
  const given = { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, ...change } } };
  const wanted = wantedDisks(given, live);
  const disk = wanted.find(({ name }) => name === 'data');
  assert.ok(disk);
  const found: ResolvedDisk = {
    path: isBlock ? `${hotplugDir}/data` : fileOf('data'),
    format: 'raw',
    isBlock,
    cache: 'none',
    io: 'native',
  };
  const context = { disks: new Map([['data', found]]) };
  return pluggedDiskXml(given, disk, wanted, { context, ioThreadCount: live.ioThreadCount });
}

test('a plugged disk has cache, I/O mode, serial, boot order and the address of its name', () => {
  const disks: Disk[] = [{ ...scsi, serial: 'S-1', bootOrder: 2, errorPolicy: 'report' }];
  const xml = xmlOf(liveDomain(root), { ...data, disks }, {}, true);
  assert.match(xml, /<disk type="block" device="disk">/);
  assert.match(xml, /<driver name="qemu" type="raw" cache="none" error_policy="report" io="native" discard="unmap"\/>/);
  assert.match(xml, /<source dev="\/var\/run\/kubevirt\/hotplug-disks\/data"\/>/);
  assert.match(xml, /<serial>S-1<\/serial>\s*<boot order="2"\/>/);
  assert.match(xml, /<address type="drive" controller="0" bus="0" unit="0"\/>/);
});

test('a plugged virtio disk shares the I/O threads that QEMU was started with', () => {
  const disks: Disk[] = [{ name: 'data', disk: { bus: 'virtio' } }];
  const auto = { ioThreadsPolicy: 'auto' as const, cpu: { cores: 4 } };
  assert.match(xmlOf(liveDomain(root), { ...data, disks }, auto), /iothread="2"/);
  const one = readLiveDomain('<domain><iothreads>1</iothreads><devices/></domain>');
  assert.match(xmlOf(one, { ...data, disks }, auto), /iothread="1"/);
  const none = readLiveDomain('<domain><devices/></domain>');
  assert.doesNotMatch(xmlOf(none, { ...data, disks }, auto), /iothread/);
});

test('a plugged virtio disk is served by the pool that QEMU was started with', () => {
  const disks: Disk[] = [{ name: 'data', disk: { bus: 'virtio' } }];
  const pool = { ioThreadsPolicy: 'supplementalPool', ioThreads: { supplementalPoolThreadCount: 2 } };
  const ids = (xml: string) => [...xml.matchAll(/<iothread id="(\d)"/g)].map(([, id]) => id);
  assert.deepEqual(ids(xmlOf(liveDomain(root), { ...data, disks }, pool)), ['1', '2']);
  const none = readLiveDomain('<domain><devices/></domain>');
  assert.doesNotMatch(xmlOf(none, { ...data, disks }, pool), /iothread/);
  assert.doesNotMatch(xmlOf(liveDomain(root), { ...data, disks: [scsi] }, pool), /iothread/);
});

test('a thread of its own and a LUN on a file are refused in words', () => {
  const own: Disk[] = [{ name: 'data', disk: { bus: 'virtio' }, dedicatedIOThread: true }];
  const none = readLiveDomain('<domain><devices/></domain>');
  assert.throws(() => xmlOf(none, { ...data, disks: own }, {}), /restart the guest/);
  const lun: Disk[] = [{ name: 'data', lun: { bus: 'scsi' } }];
  assert.throws(() => xmlOf(liveDomain(root), { ...data, disks: lun }, {}), /volumeMode Block/);
  assert.match(xmlOf(liveDomain(root), { ...data, disks: lun }, {}, true), /device="lun"/);
});
