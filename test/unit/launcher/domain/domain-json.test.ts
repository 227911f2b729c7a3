import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeVirtMetadata } from '../../../../src/api/index.ts';
import {
  type DomainParts,
  domainFromXml,
  domainStatus,
  nonExistent,
  parseDomainXml,
} from '../../../../src/launcher/domain/index.ts';

const metadata: KubeVirtMetadata = {
  UID: 'u-1',
  GracePeriod: { DeletionGracePeriodSeconds: 30, DeletionTimestamp: null, MarkedForGracefulShutdown: null },
  Migration: null,
  Backup: null,
  AccessCredential: null,
  MemoryDump: null,
};

/** Parts of what libvirt 9.0 says about a running domain. */
const liveXml = `<domain type='qemu' id='1' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>default_testvm</name>
  <uuid>5d307ca9-b3ef-428c-8861-06e72d69f223</uuid>
  <metadata><kubevirt xmlns="http://kubevirt.io"><uid>u-1</uid></kubevirt></metadata>
  <memory unit='KiB'>1048576</memory>
  <currentMemory unit='KiB'>1048000</currentMemory>
  <vcpu placement='static' current='2'>8</vcpu>
  <os>
    <type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
    <kernel>/k</kernel>
    <cmdline>a=&quot;b&quot; &lt;c&gt; &amp;amp; &#233;</cmdline>
  </os>
  <features><acpi/><apic/></features>
  <cpu mode='custom' match='exact' check='full'>
    <model fallback='forbid'>qemu64</model>
    <topology sockets='4' dies='1' cores='2' threads='1'/>
  </cpu>
  <on_reboot>restart</on_reboot>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk' model='virtio-non-transitional'>
      <driver name='qemu' type='qcow2'/>
      <source file='/disk.qcow2' index='1'/>
      <target dev='vda' bus='virtio'/>
      <serial>S1</serial>
      <alias name='ua-root'/>
    </disk>
    <disk type='block' device='cdrom'>
      <target dev='sda' bus='sata' tray='open'/>
      <readonly/>
    </disk>
    <interface type='user'>
      <mac address='52:54:00:00:00:01'/>
      <model type='virtio-non-transitional'/>
      <alias name='ua-default'/>
    </interface>
    <interface type='ethernet'>
      <driver name='vhost' queues='4'/>
      <link state='down'/>
      <alias name='net1'/>
    </interface>
    <channel type='unix'>
      <source mode='bind' path='/x'/>
      <target type='virtio' name='org.qemu.guest_agent.0' state='connected'/>
      <alias name='channel0'/>
    </channel>
    <hostdev mode='subsystem' type='pci' managed='no'><alias name='ua-sriov-fast'/></hostdev>
  </devices>
</domain>`;

const parts = (overrides: Partial<DomainParts> = {}): DomainParts => ({
  namespace: 'default',
  name: 'testvm',
  state: domainStatus(1, 1),
  metadata,
  ...overrides,
});

test("what the agent reads of a running domain comes from libvirt's XML with Go's names and types", () => {
  const { Spec } = domainFromXml(parts({ xml: liveXml }));
  assert.equal(Spec.Type, 'qemu');
  assert.deepEqual(Spec.OS.Type, { OS: 'hvm', Arch: 'x86_64', Machine: 'pc-q35-7.2' });
  assert.equal(Spec.OS.KernelArgs, 'a="b" <c> &amp; é');
  assert.deepEqual(Spec.Features?.ACPI, {});
  assert.deepEqual(Spec.CurrentMemory, { Value: 1048000, Unit: 'KiB' });
  assert.deepEqual(Spec.Metadata.KubeVirt, metadata);
  const [root, drive] = Spec.Devices.Disks ?? [];
  assert.deepEqual(root?.Alias, { Name: 'root', UserDefined: true });
  assert.deepEqual([root?.Source.File, root?.Source.Dev, root?.Serial], ['/disk.qcow2', '', 'S1']);
  assert.deepEqual(root?.Target, { Bus: 'virtio', Device: 'vda', Tray: '' });
  assert.deepEqual(drive?.Alias, { Name: '', UserDefined: false });
  assert.deepEqual([drive?.Target.Tray, drive?.ReadOnly], ['open', {}]);
  const [first, second] = Spec.Devices.Interfaces ?? [];
  assert.deepEqual([first?.MAC, first?.Driver, first?.LinkState], [{ MAC: '52:54:00:00:00:01' }, null, null]);
  assert.deepEqual(second?.MAC, { MAC: '' });
  assert.deepEqual(second?.Driver, { Name: 'vhost', Queues: 4 });
  assert.deepEqual(second?.LinkState, { State: 'down' });
  assert.deepEqual(second?.Alias, { Name: 'net1', UserDefined: false });
  assert.deepEqual(Spec.Devices.Channels?.[0]?.Target, {
    Name: 'org.qemu.guest_agent.0',
    Type: 'virtio',
    Address: '',
    Port: 0,
    State: 'connected',
  });
  assert.deepEqual(Spec.Devices.HostDevices?.[0]?.Alias, { Name: 'sriov-fast', UserDefined: true });
});

const specKeys =
  'Type XmlNS Name UUID Memory CurrentMemory MaxMemory MemoryBacking OS SysInfo Devices Clock Resource QEMUCmd Metadata ' +
  'Features CPU VCPU VCPUs CPUTune NUMATune IOThreads LaunchSecurity OnReboot IOMMUFD';
const deviceKeys =
  'Emulator Interfaces Channels HostDevices PanicDevices Controllers Video Graphics Ballooning Disks Inputs Serials ' +
  'Consoles Watchdogs Rng Filesystems Redirs SoundCards TPMs VSOCK Memory IOMMU';

for (const [what, xml] of [
  ['a running domain', liveXml],
  ['a domain without XML', undefined],
] as const) {
  test(`every key of the wire format is written, and nothing is undefined: ${what}`, () => {
    const domain = domainFromXml(parts(xml === undefined ? {} : { xml }));
    assert.deepEqual(Object.keys(domain.Spec).sort(), specKeys.split(' ').sort());
    assert.deepEqual(Object.keys(domain.Spec.Devices).sort(), deviceKeys.split(' ').sort());
    assert.deepEqual(JSON.parse(JSON.stringify(domain)), domain);
  });
}

test('a domain that is gone has a deletion time, no spec and no devices', () => {
  const domain = domainFromXml(parts({ state: nonExistent, uid: 'u-1', deletionTimestamp: '2026-01-01T00:00:00Z' }));
  assert.deepEqual(domain.ObjectMeta, {
    name: 'testvm',
    namespace: 'default',
    uid: 'u-1',
    creationTimestamp: null,
    deletionTimestamp: '2026-01-01T00:00:00Z',
  });
  assert.deepEqual([domain.Status.Status, domain.Status.Reason], ['NoState', 'NonExistent']);
  assert.deepEqual([domain.Spec.Devices.Disks, domain.Spec.Features, domain.Spec.CurrentMemory], [null, null, null]);
});

test('an answer to GetDomain has no uid in its metadata', () => {
  assert.equal('uid' in domainFromXml(parts()).ObjectMeta, false);
});

test('guest data fills the status, an empty list is null', () => {
  const iface = { Mac: 'm', Ip: '10.0.2.2', IPs: ['10.0.2.2'], InterfaceName: 'eth0' };
  const { Status } = domainFromXml(
    parts({ interfaces: [iface], osInfo: { Name: 'Debian' }, fsFreezeStatus: 'frozen', panicCount: 2 }),
  );
  assert.deepEqual(Status.Interfaces, [iface]);
  assert.equal(Status.OSInfo.Name, 'Debian');
  assert.equal(Status.OSInfo.KernelRelease, '');
  assert.deepEqual([Status.FSFreezeStatus, Status.PanicCount, Status.GuestPanicInfo], [{ Status: 'frozen' }, 2, null]);
  assert.equal(domainFromXml(parts({ interfaces: [] })).Status.Interfaces, null);
});

for (const [what, xml] of [
  ['nothing', ''],
  ['text', 'error: failed'],
  ['a torn document', liveXml.slice(0, 900)],
  ['another document', '<network><name>x</name></network>'],
  ['crossed elements', '<domain><a><b></a></b></domain>'],
  ['an element named like a prototype', '<domain><__proto__><x/></__proto__></domain>'],
  ['deep nesting', `${'<domain>'.repeat(5000)}${'</domain>'.repeat(5000)}`],
] as const) {
  test(`a document that is no domain gives BAD_XML: ${what}`, () => {
    assert.throws(() => parseDomainXml(xml), { code: 'BAD_XML' });
  });
}

test('numbers that are none become zero, because Go would refuse the whole event', () => {
  const spec = parseDomainXml(
    `<domain><currentMemory unit='b'>-1</currentMemory><vcpu>x</vcpu><devices>
       <interface><driver queues='many'/></interface><channel><target port='-5'/></channel></devices></domain>`,
  );
  assert.deepEqual(spec.CurrentMemory, { Value: 0, Unit: 'b' });
  assert.deepEqual(spec.VCPU, { Placement: '', CPUs: 0 });
  assert.equal(spec.Devices.Interfaces?.[0]?.Driver?.Queues, null);
  assert.equal(spec.Devices.Channels?.[0]?.Target?.Port, 0);
});

const kib = (value: number) => ({ Value: value, Unit: 'KiB' });

/** A guest with 1 GiB at its start, and one device of 1 GiB that has given it a quarter. */
function pluggedXml({ said, target }: { readonly said: string; readonly target: string }): string {
  return `<domain><memory unit='KiB'>2097152</memory>${said}<devices>
    <memory model='virtio-mem'><target>${target}<node>0</node></target></memory></devices></domain>`;
}

for (const [what, said, target, expected] of [
  [
    'libvirt has missed a part of it',
    "<currentMemory unit='KiB'>1179648</currentMemory>",
    "<size unit='KiB'>1048576</size><current unit='KiB'>262144</current>",
    kib(1310720),
  ],
  [
    'libvirt has not looked yet',
    "<currentMemory unit='KiB'>1048576</currentMemory>",
    "<size unit='KiB'>1048576</size><current unit='KiB'>0</current>",
    kib(1048576),
  ],
  [
    'the device is larger than all memory: never less than nothing',
    "<currentMemory unit='KiB'>5</currentMemory>",
    "<size unit='KiB'>9999999999</size><current unit='KiB'>0</current>",
    kib(0),
  ],
  [
    'its sizes are in another unit',
    "<currentMemory unit='KiB'>7</currentMemory>",
    "<size unit='GiB'>1</size><current unit='KiB'>0</current>",
    kib(7),
  ],
  ['it has no sizes', "<currentMemory unit='KiB'>7</currentMemory>", '', kib(7)],
  ['there is no currentMemory', '', "<size unit='KiB'>1048576</size><current unit='KiB'>0</current>", null],
] as const) {
  test(`the memory of a guest with virtio-mem is counted from its device: ${what}`, () => {
    assert.deepEqual(parseDomainXml(pluggedXml({ said, target })).CurrentMemory, expected);
  });
}

test('memory that is no virtio-mem changes nothing about what libvirt says', () => {
  const xml = pluggedXml({
    said: "<currentMemory unit='KiB'>7</currentMemory>",
    target: "<size unit='KiB'>9</size>",
  }).replace('virtio-mem', 'dimm');
  assert.deepEqual(parseDomainXml(xml).CurrentMemory, kib(7));
});

for (const [state, reason, expected] of [
  [0, 0, 'NoState/Unknown'],
  [1, 5, 'Running/Unknown'],
  [2, 0, 'Blocked/Unknown'],
  [3, 1, 'Paused/User'],
  [3, 5, 'Paused/IOError'],
  [3, 13, 'Paused/PostcopyFailed'],
  [3, 99, 'Paused/'],
  [4, 1, 'ShuttingDown/User'],
  [5, 2, 'Shutoff/Destroyed'],
  [5, 7, 'Shutoff/FromSnapshot'],
  [6, 1, 'Crashed/Panicked'],
  [7, 0, 'PMSuspended/Unknown'],
  [42, 0, 'NoState/Unknown'],
] as const) {
  test(`libvirt's state ${state} with reason ${reason} is ${expected}`, () => {
    const { Status, Reason } = domainStatus(state, reason);
    assert.equal(`${Status}/${Reason}`, expected);
  });
}
