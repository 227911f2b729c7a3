import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import type { Devices, DomainSpecInput, VmiSpec } from '../../../../src/api/index.ts';
import { driveName } from '../../../../src/launcher/domain/disk-devices.ts';
import { buildDomainXml, ConvertError, parseDomainXml } from '../../../../src/launcher/domain/index.ts';
import { parseXml } from '../../../../src/launcher/domain/xml.ts';
import { contextWith, goldenCases, lean, overlay, vmiWith } from './cases.ts';

const fixtures = path.join(process.cwd(), 'test/fixtures/domain-xml');

for (const { name, vmi, context } of goldenCases) {
  test(`a VMI becomes the kept document ${name}.xml`, () => {
    const file = path.join(fixtures, `${name}.xml`);
    const xml = buildDomainXml(vmi, context);
    // `UPDATE_GOLDEN=1` writes them anew; the difference is then reviewed in git.
    if (process.env.UPDATE_GOLDEN) writeFileSync(file, xml);
    assert.equal(xml, readFileSync(file, 'utf8'));
    assert.equal(buildDomainXml(structuredClone(vmi), context), xml);
  });
}

test('every kept document has a case', () => {
  const names = readdirSync(fixtures).filter((name) => name.endsWith('.xml'));
  assert.deepEqual(names.sort(), goldenCases.map(({ name }) => `${name}.xml`).sort());
});

function refusal(domain: DomainSpecInput, spec: Partial<VmiSpec> = {}, context = contextWith()): ConvertError {
  try {
    buildDomainXml(vmiWith(domain, spec), context);
  } catch (error) {
    assert.ok(error instanceof ConvertError, `not a ConvertError: ${error}`);
    return error;
  }
  return assert.fail('was accepted');
}

type UnsupportedCase = readonly [string, DomainSpecInput, Partial<VmiSpec>?];

const unsupportedCases: readonly UnsupportedCase[] = [
  [
    'spec.domain.devices.gpus[g].tag',
    { devices: { gpus: [{ name: 'g', deviceName: 'a/b', tag: 'a' }] } },
    { volumes: [{ name: 'seed', cloudInitConfigDrive: {} }] },
  ],
  ['spec.domain.devices.filesystems[f]', { devices: { filesystems: [{ name: 'f' }] } }],
  ['spec.domain.launchSecurity (sev) of an emulated guest', { launchSecurity: { sev: {} } }],
  [
    'spec.domain.devices.disks[seed].tag',
    { devices: { disks: [{ name: 'seed', tag: 'a' }] } },
    { volumes: [{ name: 'seed', cloudInitConfigDrive: {} }] },
  ],
  [
    'spec.domain.devices.interfaces[n].tag',
    { devices: { interfaces: [{ name: 'n', tag: 'a' }] } },
    { networks: [{ name: 'n', pod: {} }], volumes: [{ name: 'seed', cloudInitConfigDrive: {} }] },
  ],
  ['spec.architecture arm64', {}, { architecture: 'arm64' }],
  [
    '.passtBinding',
    { devices: { interfaces: [{ name: 'n', passtBinding: {} }] } },
    { networks: [{ name: 'n', pod: {} }] },
  ],
  [
    '.multus',
    { devices: { interfaces: [{ name: 'n' }] } },
    { networks: [{ name: 'n', multus: { networkName: 'x' } }] },
  ],
];

for (const [field, domain, spec] of unsupportedCases) {
  test(`a field that cannot be honoured is refused, never dropped: ${field}`, () => {
    const error = refusal(domain, spec);
    assert.equal(error.code, 'UNSUPPORTED_FIELD');
    assert.ok(error.message.includes(field), error.message);
  });
}

const oneDisk = (disk: object): DomainSpecInput => ({ devices: { disks: [{ name: 'root', ...disk }] } as Devices });
const rootVolume: Partial<VmiSpec> = { volumes: [{ name: 'root', containerDisk: { image: 'i' } }] };
const rootContext = contextWith({ disks: new Map([['root', overlay]]) });
const pod = { networks: [{ name: 'n', pod: {} }] };

const invalidCases: readonly (readonly [string, string, DomainSpecInput, Partial<VmiSpec>?])[] = [
  ['no memory size', 'spec.domain.memory.guest', { memory: {} }],
  ['a memory size that is no quantity', 'spec.domain.memory.guest', { memory: { guest: 'much' } }],
  ['a negative memory size', 'spec.domain.memory.guest', { memory: { guest: -1 } }],
  ['maxGuest below guest', 'spec.domain.memory.maxGuest', { memory: { guest: '2Gi', maxGuest: '1Gi' } }],
  ['an odd page size', 'hugepages.pageSize', { memory: { guest: '64Mi', hugepages: { pageSize: '3Mi' } } }],
  [
    'memory that is no multiple of the page',
    'hugepages.pageSize',
    { memory: { guest: '65Mi', hugepages: { pageSize: '2Mi' } } },
  ],
  ['half a core', 'spec.domain.cpu.cores', { cpu: { cores: 0.5 } }],
  ['more CPUs than QEMU has', 'spec.domain.cpu', { cpu: { cores: 1000 } }],
  ['maxSockets below sockets', 'maxSockets', { cpu: { sockets: 4, maxSockets: 2 } }],
  ['an emulator apart without dedicated CPUs', 'isolateEmulatorThread', { cpu: { isolateEmulatorThread: true } }],
  ['real time without dedicated CPUs', 'spec.domain.cpu.realtime', { cpu: { realtime: {} } }],
  ['NUMA cells without dedicated CPUs', 'guestMappingPassthrough', { cpu: { numa: { guestMappingPassthrough: {} } } }],
  [
    'NUMA cells of the host without huge pages',
    'guestMappingPassthrough',
    { cpu: { dedicatedCpuPlacement: true, numa: { guestMappingPassthrough: {} } } },
  ],
  [
    'a pool of no I/O threads',
    'ioThreads.supplementalPoolThreadCount',
    { ioThreadsPolicy: 'supplementalPool', ioThreads: { supplementalPoolThreadCount: 0 } },
  ],
  [
    'a pool of I/O threads of no size',
    'ioThreads.supplementalPoolThreadCount',
    { ioThreadsPolicy: 'supplementalPool' },
  ],
  ['an unknown policy of I/O threads', 'spec.domain.ioThreadsPolicy', { ioThreadsPolicy: 'many' }, rootVolume],
  ['an unknown feature policy', 'features[aes].policy', { cpu: { features: [{ name: 'aes', policy: 'maybe' }] } }],
  ['a UUID that is none', 'spec.domain.firmware.uuid', { firmware: { uuid: 'abc' } }],
  ['ACPI tables without a table', 'firmware.acpi: names no table', { firmware: { acpi: {} } }],
  [
    'an ACPI table without its volume',
    'slicNameRef: there is no volume "licence"',
    { firmware: { acpi: { slicNameRef: 'licence' } } },
  ],
  [
    'an ACPI table that is no secret',
    'msdmNameRef: the volume root must be a secret',
    { firmware: { acpi: { msdmNameRef: 'root' } } },
    rootVolume,
  ],
  ['arguments without a kernel', 'kernelArgs', { firmware: { kernelBoot: { kernelArgs: 'quiet' } } }],
  ['an unknown bus', 'disks[root].disk.bus', oneDisk({ disk: { bus: 'floppy' } }), rootVolume],
  ['an unknown error policy', 'errorPolicy', oneDisk({ errorPolicy: 'panic' }), rootVolume],
  ['a PCI address that is none', 'pciAddress', oneDisk({ disk: { bus: 'virtio', pciAddress: '1:2' } }), rootVolume],
  ['a PCI address on a sata disk', 'pciAddress', oneDisk({ disk: { pciAddress: '0000:01:00.0' } }), rootVolume],
  ['a shared disk with a cache', 'shareable', oneDisk({ shareable: true, cache: 'writeback' }), rootVolume],
  ['markup in a disk serial', 'disks[root].serial', oneDisk({ serial: '"><x' }), rootVolume],
  ['two disks of one name', 'disks[root]', { devices: { disks: [{ name: 'root' }, { name: 'root' }] } }, rootVolume],
  ['a network without interface', 'spec.networks[n]', {}, pod],
  ['boot order zero', 'bootOrder', oneDisk({ bootOrder: 0 }), rootVolume],
  ['two bindings', 'interfaces[n]', { devices: { interfaces: [{ name: 'n', bridge: {}, masquerade: {} }] } }, pod],
  ['an interface without network', 'interfaces[m]', { devices: { interfaces: [{ name: 'n' }, { name: 'm' }] } }, pod],
  ['a MAC that is none', 'macAddress', { devices: { interfaces: [{ name: 'n', macAddress: 'x' }] } }, pod],
  ['an unknown NIC model', 'model', { devices: { interfaces: [{ name: 'n', model: 'ne3000' }] } }, pod],
  ['a watchdog action', 'i6300esb.action', { devices: { watchdog: { name: 'w', i6300esb: { action: 'bark' } } } }],
  ['an unknown timer', 'timer.sun', { clock: { timer: { sun: {} } } }],
  ['an unknown hyperv feature', 'hyperv.warp', { features: { hyperv: { warp: {} } } }],
  ['VSOCK without an address', 'autoattachVSOCK', { devices: { autoattachVSOCK: true } }],
  ['a reboot policy', 'rebootPolicy', { rebootPolicy: 'Never' as 'Reboot' }],
];

for (const [what, field, domain, spec] of invalidCases) {
  test(`a value that makes no sense is refused with its field: ${what}`, () => {
    const error = refusal(domain, spec, rootContext);
    assert.equal(error.code, 'INVALID_FIELD');
    assert.ok(error.message.includes(field), error.message);
  });
}

test('a disk whose volume is not in the VMI is refused with its name', () => {
  const error = refusal(oneDisk({}), {});
  assert.equal(error.code, 'MISSING_VOLUME');
  assert.match(error.message, /disks\[root\].*spec\.volumes/);
});

test('a volume whose file was not prepared is refused', () => {
  assert.equal(refusal(oneDisk({}), rootVolume).code, 'MISSING_VOLUME');
});

test('without the device that the agent makes, a tap interface is refused and the message lists what is there', () => {
  const links = new Map([['lo', { name: 'lo' }]]);
  const devices = { interfaces: [{ name: 'n', masquerade: {} }] };
  const error = refusal({ devices }, pod, contextWith({ network: 'tap', links }));
  assert.equal(error.code, 'MISSING_LINK');
  assert.match(error.message, /no network device tap0 \(there are: lo\)/);
});

test('missing EFI files are reported with the words that the agent searches for', () => {
  const error = refusal({ firmware: { bootloader: { efi: {} } } }, {}, contextWith({ efi: { searched: ['/fw'] } }));
  assert.equal(error.code, 'MISSING_FIRMWARE');
  assert.match(error.message, /EFI OVMF rom missing in \/fw/);
});

test('a socket path that a Unix socket cannot have is refused before libvirt sees it', () => {
  const context = contextWith();
  const paths = { ...context.paths, privateDir: `/${'d'.repeat(80)}` };
  assert.equal(refusal({}, {}, { ...context, paths }).code, 'PATH_TOO_LONG');
});

function documentNamed(name: string): string {
  const context = contextWith({ efi: { plain: { code: '/c', vars: '/v' }, searched: [] } });
  const efi = { firmware: { bootloader: { efi: { secureBoot: false } } } };
  return buildDomainXml(vmiWith(efi, {}, { name }), context);
}

test('a name cannot break out of the document', () => {
  assert.equal(parseDomainXml(documentNamed('"><x')).Name, 'default_"><x');
});

for (const name of ['../../etc', 'a/b', 'a\0b', '..', '']) {
  test(`a name cannot break out of a directory: ${JSON.stringify(name)}`, () => {
    assert.throws(() => documentNamed(name), { code: 'INVALID_FIELD' });
  });
}

test('a disk name that no alias can have is refused', () => {
  const spec = { volumes: [{ name: '"><x', emptyDisk: { capacity: '1Mi' } }] };
  const context = contextWith({ disks: new Map([['"><x', overlay]]) });
  assert.equal(refusal({}, spec, context).code, 'INVALID_FIELD');
});

test('markup in kernel arguments and firmware serials stays text', () => {
  const hostile = "\"><x y='1'/> & ]]> <!-- &lt; é 😀";
  const kernelBoot = { kernelArgs: hostile, container: { image: 'i', kernelPath: '/k' } };
  const vmi = vmiWith({ firmware: { serial: hostile, kernelBoot } });
  const xml = buildDomainXml(vmi, contextWith({ kernelBoot: { kernelPath: '/k' } }));
  assert.equal(parseDomainXml(xml).OS.KernelArgs, hostile);
  const entries = parseXml(xml, 'domain').children.find(({ name }) => name === 'sysinfo')?.children[0]?.children;
  assert.equal(entries?.find(({ attributes }) => attributes.name === 'serial')?.text, hostile);
});

test('a character that XML cannot carry is refused with its place', () => {
  const error = refusal({ firmware: { serial: 'a\u0000b' } });
  assert.equal(error.code, 'INVALID_FIELD');
  assert.match(error.message, /sysinfo.*contains the character U\+0000/);
});

test('names of disks that a guest knows are kept, new ones take the free letters', () => {
  const volumes = ['a', 'b', 'c'].map((name) => ({ name, emptyDisk: { capacity: '1Mi' } }));
  const disks = volumes.map(({ name }) => ({ name, disk: { bus: 'virtio' as const } }));
  const vmi = vmiWith({ devices: { ...lean, disks } }, { volumes });
  vmi.status = { volumeStatus: [{ name: 'c', target: 'vda' }] };
  const spec = parseDomainXml(
    buildDomainXml(vmi, contextWith({ disks: new Map(volumes.map(({ name }) => [name, overlay])) })),
  );
  assert.deepEqual(
    spec.Devices.Disks?.map((disk) => [disk.Alias?.Name, disk.Target.Device]),
    [
      ['a', 'vdb'],
      ['b', 'vdc'],
      ['c', 'vda'],
    ],
  );
});

test('the 27th and 703rd disks of a bus are named vdaa and vdaaa', () => {
  assert.deepEqual(
    [0, 25, 26, 701, 702].map((index) => driveName('vd', index)),
    ['vda', 'vdz', 'vdaa', 'vdzz', 'vdaaa'],
  );
});

test('a volume that is being plugged in appears only when it is mounted and its file is there', () => {
  const volumes = [{ name: 'plug', persistentVolumeClaim: { claimName: 'c', hotpluggable: true } }];
  const vmi = vmiWith({ devices: { disks: [{ name: 'plug', disk: { bus: 'scsi' } }] } }, { volumes });
  const disksIn = (phase: string, prepared: boolean) => {
    vmi.status = { volumeStatus: [{ name: 'plug', target: '', phase }] };
    const context = contextWith({ disks: new Map(prepared ? [['plug', overlay]] : []) });
    return parseDomainXml(buildDomainXml(vmi, context)).Devices.Disks?.length ?? 0;
  };
  assert.deepEqual([disksIn('Bound', true), disksIn('MountedToPod', false), disksIn('Ready', true)], [0, 0, 1]);
});

test('a timer that is called like a member of every object is not known', () => {
  for (const name of ['constructor', 'toString']) {
    assert.throws(() => buildDomainXml(vmiWith({ devices: lean, clock: { timer: { [name]: {} } } }), contextWith()), {
      code: 'INVALID_FIELD',
      message: `spec.domain.clock.timer.${name}: this timer is not known`,
    });
  }
});

for (const data of ['ignition', '{"ignition":', '[]', '{"ignition":"3.2.0"}', '{"other":{}}', 'null']) {
  test(`Ignition data that no guest could read is refused: ${data}`, () => {
    const vmi = vmiWith({}, {}, { annotations: { 'kubevirt.io/ignitiondata': data } });
    assert.throws(() => buildDomainXml(vmi, contextWith()), {
      code: 'INVALID_FIELD',
      message: /no Ignition configuration/,
    });
  });
}

test('a name with a comma does not give QEMU another argument', () => {
  const annotations = { 'kubevirt.io/ignitiondata': '{"ignition":{}}' };
  const xml = buildDomainXml(
    vmiWith({}, {}, { annotations, name: 'a,file=/etc/shadow'.replaceAll('/', '-') }),
    contextWith(),
  );
  assert.match(xml, /name=opt\/com.coreos\/config,file=[^,"]*,,file=-etc-shadow\/data.ign"/);
});

const onRootComplex = { annotations: { 'kubevirt.io/placePCIDevicesOnRootComplex': 'true' } };
const placesIn = (domain: DomainSpecInput, spec: Partial<VmiSpec> = {}) => {
  const xml = buildDomainXml(vmiWith(domain, spec, onRootComplex), rootContext);
  return [...xml.matchAll(/bus="0x00" slot="(0x\w\w)"/g)].map(([, slot]) => slot);
};

test('on the root complex each device has a slot of its own, and those of the chip set and of the VMI are left alone', () => {
  const inputs = Array.from({ length: 24 }, (_, index) => ({ name: `i${index}`, type: 'tablet', bus: 'virtio' }));
  const root = { name: 'root', disk: { bus: 'virtio' as const, pciAddress: '0000:00:05.0' } };
  const places = placesIn({ devices: { ...lean, disks: [root], inputs } }, rootVolume);
  assert.equal(new Set(places).size, places.length);
  assert.deepEqual(
    places.filter((slot) => ['0x00', '0x01', '0x1b', '0x1f'].includes(slot ?? '')),
    [],
  );
  assert.ok(places.includes('0x05') && places.includes('0x1e'), places.join(' '));
  const tooMany = Array.from({ length: 30 }, (_, index) => ({ name: `i${index}`, type: 'tablet', bus: 'virtio' }));
  assert.throws(() => placesIn({ devices: { ...lean, inputs: tooMany } }), { message: /has no slot left/ });
});
