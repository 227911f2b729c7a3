import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VirtualMachineInstance } from '../../../../src/api/index.ts';
import { errorCode, errorMessage } from '../../../../src/base/index.ts';
import { inOurWords, isAboutMachines } from '../../../../src/launcher/lifecycle/start-failure.ts';
import { LibvirtError } from '../../../../src/libvirt/index.ts';
import { launcherVmi } from '../../../fixtures/launcher-vmi.ts';

const vmi = launcherVmi({
  spec: {
    domain: {
      machine: { type: 'pc-q35-99' },
      devices: {},
      memory: { guest: '1Gi', hugepages: { pageSize: '2Mi' } },
    },
    volumes: [
      { name: 'root', emptyDisk: { capacity: '1Gi' } },
      { name: 'data', emptyDisk: { capacity: '1Gi' } },
    ],
  },
});

const told = (message: string, of: VirtualMachineInstance = vmi) =>
  inOurWords(new LibvirtError('CONFIG_UNSUPPORTED', message), of);

test('of a machine type that QEMU has not, the words say which there are: the newest first, not endlessly', () => {
  const error = new LibvirtError('CONFIG_UNSUPPORTED', "Emulator '/q' does not support machine type 'pc-q35-99'");
  const few = ['pc-q35-2.9', 'pc-q35-7.2', 'q35', 'pc-q35-10.0'];
  const inWords = (machineTypes: string[]) => errorMessage(inOurWords(error, vmi, { machineTypes }));
  assert.match(inWords(few), /\(there are q35, pc-q35-10\.0, pc-q35-7\.2, pc-q35-2\.9\): use q35, or leave it out$/);
  const many = Array.from({ length: 60 }, (_, at) => `pc-q35-${at}.0`);
  assert.match(inWords(many), /pc-q35-20\.0, and 20 more\)/);
  assert.deepEqual(
    [isAboutMachines(error), isAboutMachines(new Error('does not support machine type'))],
    [true, false],
  );
});

test('one PCI address for two devices is told with the fields that ask for it', () => {
  const error = new LibvirtError('XML_ERROR', 'XML error: Attempted double use of PCI Address 0000:00:0a.0');
  const pciAddress = '0000:00:0A.0';
  const disks = [{ name: 'root', disk: { bus: 'virtio', pciAddress } }];
  const inWords = (devices: object) => errorMessage(inOurWords(error, launcherVmi({ spec: { domain: { devices } } })));
  assert.match(
    inWords({ disks, interfaces: [{ name: 'default', masquerade: {}, pciAddress }] }),
    /^spec\.domain\.devices\.disks\[root\]\.disk\.pciAddress and spec\.domain\.devices\.interfaces\[default\]\.pciAddress: both ask for the PCI address 0000:00:0a\.0: choose another one/,
  );
  assert.match(
    inWords({ disks }),
    /^spec\.domain\.devices\.disks\[root\]\.disk\.pciAddress: another device of the guest has/,
  );
  assert.match(inWords({}), /^spec\.domain\.devices: another device/);
});

for (const [text, words] of [
  [
    "unsupported configuration: Emulator '/usr/bin/qemu-system-x86_64' does not support machine type 'pc-q35-99'",
    /^spec\.domain\.machine\.type: .*"pc-q35-99".*: use q35, or leave it out$/,
  ],
  ['XML error: No PCI buses available', /^spec\.domain\.machine\.type: .*"pc-q35-99"/],
  ["unsupported configuration: TPM version '2.0' is not supported", /^spec\.domain\.devices\.tpm: .*install swtpm/],
  ["operation failed: Unable to find 'swtpm_setup' binary in $PATH", /^spec\.domain\.devices\.tpm: /],
  [
    "unsupported configuration: host doesn't support hyperv 'vapic' feature",
    /^spec\.domain\.features\.hyperv\.vapic: .*\(KVM\); remove it$/,
  ],
  [
    "internal error: process exited while connecting to monitor: qemu-system-x86_64: kernel doesn't allow setting HyperV VP_INDEX",
    /^spec\.domain\.features\.hyperv: .*VP_INDEX: .*\(KVM\); remove what asks for it$/,
  ],
  [
    'internal error: qemu-system-x86_64: Hyper-V synthetic interrupt controller (hv-synic) is not supported by kernel',
    /^spec\.domain\.features\.hyperv: .*\(hv-synic\): /,
  ],
  [
    "unsupported configuration: IOThread mapping for disk 'vda' is not available with this QEMU binary",
    /^spec\.domain\.ioThreadsPolicy supplementalPool: .* since QEMU 9/,
  ],
  ['internal error: Unknown CPU model Foo', /^spec\.domain\.cpu\.model: there is no CPU model "Foo" here/],
  [
    "unsupported configuration: CPU mode 'host-passthrough' for x86_64 qemu domain on x86_64 host is not supported by hypervisor",
    /^spec\.domain\.cpu\.model: host-passthrough needs hardware virtualization/,
  ],
  ['unsupported configuration: unknown CPU feature: nonsense', /^spec\.domain\.cpu\.features: .*"nonsense"/],
  [
    'the CPU is incompatible with host CPU: Host CPU does not provide required features: avx512f, pku',
    /^spec\.domain\.cpu: the CPU here differs in avx512f, pku:/,
  ],
  [
    "operation failed: guest CPU doesn't match specification: missing features: svm",
    /^spec\.domain\.cpu: the CPU here differs in svm:/,
  ],
  [
    "unsupported configuration: host doesn't support passthrough of host PCI devices",
    /^spec\.domain\.devices \(gpus, .*needs an IOMMU that is switched on/,
  ],
  [
    'internal error: qemu unexpectedly closed the monitor: vfio 0000:65:00.0: failed to open /dev/vfio/27: Permission denied',
    /^spec\.domain\.devices .*VFIO group 27: all devices of an IOMMU group/,
  ],
  ['internal error: vfio 0000:65:00.0: group 27 is not viable', /VFIO group 27: /],
  [
    'internal error: Did not find USB device 046d:c31c bus:3 device:12',
    /^spec\.domain\.devices\.hostDevices: the USB device 046d:c31c is not plugged in/,
  ],
  ['the CPU is incompatible with host CPU', /^spec\.domain\.cpu: the CPU of this node is another one/],
  [
    'unsupported configuration: Maximum CPUs greater than specified machine type limit 288',
    /^spec\.domain\.cpu: .*\(288\): ask for fewer/,
  ],
  [
    'internal error: Unable to find any usable hugetlbfs mount for 2048 KiB',
    /^spec\.domain\.memory\.hugepages: .*vm\.nr_hugepages/,
  ],
  [
    "internal error: qemu unexpectedly closed the monitor: qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory",
    /^spec\.domain\.memory\.guest: /,
  ],
  [
    'internal error: process exited while connecting to monitor: qemu-system-x86_64: -blockdev {"driver":"raw"}: Failed to get "write" lock\nIs another process using the image [/var/run/kubevirt-private/vmi-disks/data/disk.img]?',
    /^volume data: another guest or program uses the image/,
  ],
  [
    "Cannot access storage file '/var/run/libvirt/empty-disks/root.qcow2': No such file or directory",
    /^volume root: its file is not there/,
  ],
  [
    "internal error: qemu-system-x86_64: -blockdev {}: Could not open '/elsewhere': Image is not in qcow2 format",
    /^a volume: the image is damaged/,
  ],
  ['internal error: write failed: No space left on device', /no space left/],
  ['internal error: unable to open /dev/vhost-vsock: x', /^spec\.domain\.devices\.autoattachVSOCK: /],
  ['invalid argument: KVM is not available', /useEmulation/],
] as const) {
  test(`a start that fails is told with field and cure: ${text.slice(0, 90)}`, () => {
    const error = told(text);
    assert.equal(errorCode(error), 'START_FAILED');
    assert.match(errorMessage(error), words);
  });
}

for (const [kind, text, words] of [
  [
    'sev',
    'unsupported configuration: SEV launch security is not supported with this QEMU binary',
    /^spec\.domain\.launchSecurity\.sev: this node cannot start guests with SEV: it needs an AMD EPYC .*\/dev\/sev$/,
  ],
  [
    'sev',
    "internal error: qemu unexpectedly closed the monitor: qemu-system-x86_64: sev_kvm_init: Failed to open /dev/sev 'No such file or directory'",
    /^spec\.domain\.launchSecurity\.sev: /,
  ],
  [
    'snp',
    "unsupported configuration: unsupported launch security type 'sev-snp'",
    /launchSecurity\.snp: .*SEV-SNP: .*libvirt 10\.5/,
  ],
  [
    'tdx',
    "XML error: Invalid value for attribute 'type' in element 'launchSecurity': 'tdx'.",
    /launchSecurity\.tdx: .*TDX: /,
  ],
  ['tdx', 'internal error: qemu-system-x86_64: KVM_TDX_CAPABILITIES failed: Invalid argument', /launchSecurity\.tdx: /],
] as const) {
  test(`a node that cannot encrypt a guest’s memory says what it lacks: ${text.slice(0, 90)}`, () => {
    const { domain } = vmi.spec;
    const encrypted = { ...vmi, spec: { ...vmi.spec, domain: { ...domain, launchSecurity: { [kind]: {} } } } };
    assert.match(errorMessage(told(text, encrypted)), words);
    assert.equal(errorCode(told(text, encrypted)), 'START_FAILED');
    assert.doesNotMatch(errorMessage(told(text)), /spec\.domain\.launchSecurity/);
  });
}

test('huge pages are named only to who asked for them', () => {
  const text = 'unable to map backing store for guest RAM: Cannot allocate memory';
  const without = launcherVmi({ spec: { domain: { devices: {} } } });
  assert.match(errorMessage(told(text, without)), /^spec\.domain\.memory\.guest: /);
  const asking = launcherVmi({
    spec: { domain: { devices: {}, memory: { guest: '1Gi', hugepages: { pageSize: '2Mi' } } } },
  });
  assert.match(errorMessage(told(text, asking)), /^spec\.domain\.memory\.hugepages: /);
  assert.match(
    errorMessage(told('Unable to find any usable hugetlbfs mount', asking)),
    /^spec\.domain\.memory\.hugepages: /,
  );
});

test('a volume is the one of the path, not one that is called like a word beside it', () => {
  const named = ['disk', 'image', 'raw', 'data', 'hugepages'].map((name) => ({ name, emptyDisk: { capacity: '1Gi' } }));
  const of = launcherVmi({ spec: { domain: { devices: {} }, volumes: named } });
  const lock = (file: string) =>
    `{"driver":"raw"}: Failed to get "write" lock\nIs another process using the image [${file}]?`;
  assert.match(errorMessage(told(lock('/var/run/kubevirt-private/vmi-disks/data/disk.img'), of)), /^volume data: /);
  assert.match(errorMessage(told(lock('/var/run/libvirt/empty-disks/hugepages.qcow2'), of)), /^volume hugepages: /);
});

test('one image twice in a VM is the VM’s own mistake, not that of another guest', () => {
  const claim = (name: string, claimName: string) => ({ name, persistentVolumeClaim: { claimName } });
  const file = (name: string, path: string) => ({ name, hostDisk: { path, type: 'Disk' } });
  const words = (volumes: readonly { readonly name: string }[], volumeStatus: readonly object[] = []) => {
    const of = launcherVmi({ spec: { domain: { devices: {} }, volumes: [...volumes] } });
    const withStatus = { ...of, status: { ...of.status, volumeStatus } } as VirtualMachineInstance;
    return errorMessage(told('Failed to get "write" lock', withStatus));
  };
  const seeds = { name: 'seed', dataVolume: { name: 'one' } };
  assert.match(words([claim('a', 'one'), claim('b', 'two'), seeds]), /^volumes a and seed of this VM are one image: /);
  assert.match(words([file('a', '/d/x'), file('b', '/d/x')]), /^volumes a and b of this VM are one image: /);
  // As the agent gives claims to its launcher.
  const asFiles = [file('a', '/vmi-disks/a/disk.img'), file('b', '/vmi-disks/b/disk.img')];
  const claimOf = (name: string) => ({ name, target: '', persistentVolumeClaimInfo: { claimName: 'one' } });
  assert.match(words(asFiles, ['a', 'b'].map(claimOf)), /^volumes a and b of this VM are one image: /);
  assert.match(words([claim('a', 'one'), file('b', 'one')]), /another guest or program uses the image/);
});

test('what is not known, or is no error of libvirt, stays as it is', () => {
  for (const error of [new LibvirtError('INTERNAL_ERROR', 'something else'), new Error('hugetlbfs'), undefined]) {
    assert.equal(inOurWords(error, vmi), error);
  }
});

test('a VMI of any shape, and a text of any length, have their words', () => {
  const bare = launcherVmi({ spec: { domain: { devices: {} } } });
  assert.match(errorMessage(told("does not support machine type 'x'", bare)), /no machine type "" for these devices/);
  assert.match(errorMessage(told('Failed to get "write" lock', bare)), /^a volume: /);
  const long = `${'x'.repeat(1_000_000)} No space left on device`;
  assert.match(errorMessage(told(long)), /^x+ No space/);
});

const withDevice = launcherVmi({ spec: { domain: { devices: { gpus: [{ name: 'g', deviceName: 'a/b' }] } } } });

for (const [text, words] of [
  ['internal error: vfio_dma_map(0x1, 0x0, 0x8) = -12 (Cannot allocate memory)', /may not lock the guest's memory/],
  [
    'Requested operation is not valid: PCI device 0000:65:00.0 is in use by driver QEMU, domain x',
    /device 0000:65:00.0 is not/,
  ],
  ["device not found: mediated device '5f5f7b4a' not found", /device 5f5f7b4a is not on this node any more/],
] as const) {
  test(`a device of the machine that a guest cannot have is told in our words: ${text}`, () => {
    assert.match(errorMessage(told(text, withDevice)), words);
    assert.equal(errorMessage(told(text, launcherVmi())), text);
  });
}
