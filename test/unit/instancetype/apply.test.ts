import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { VmiSpec } from '../../../src/api/index.ts';
import { InstancetypeError } from '../../../src/instancetype/index.ts';
import { applied, small, vmOf } from './builders.ts';

const isRefused = (pattern: RegExp) => (error: unknown) =>
  error instanceof InstancetypeError && pattern.test(error.message);
const cpuOf = (guest: number, preference?: object) => {
  const { cpu } = applied(vmOf(), { instancetype: { ...small, cpu: { guest } }, ...(preference && { preference }) })
    .spec.domain;
  return [cpu?.sockets, cpu?.cores, cpu?.threads];
};

test('all that an instance type says is in the template', () => {
  const { spec, metadata } = applied(vmOf(), {
    instancetype: {
      nodeSelector: { zone: 'a' },
      schedulerName: 'mine',
      cpu: {
        guest: 4,
        model: 'EPYC',
        dedicatedCPUPlacement: true,
        isolateEmulatorThread: true,
        numa: { guestMappingPassthrough: {} },
        realtime: { mask: '0' },
        maxSockets: 8,
      },
      memory: { guest: '2Gi', hugepages: { pageSize: '2Mi' }, maxGuest: '4Gi' },
      gpus: [{ name: 'g', deviceName: 'a/gpu' }],
      hostDevices: [{ name: 'h', deviceName: 'a/nic' }],
      ioThreadsPolicy: 'supplementalPool',
      ioThreads: { supplementalPoolThreadCount: 2 },
      launchSecurity: { sev: {} },
      annotations: { a: 'b' },
    },
  });
  assert.deepEqual([spec.nodeSelector, spec.schedulerName, metadata?.annotations], [{ zone: 'a' }, 'mine', { a: 'b' }]);
  const { cpu, memory, devices, ioThreadsPolicy, ioThreads, launchSecurity, resources } = spec.domain;
  assert.deepEqual(cpu, {
    ...{ sockets: 4, cores: 1, threads: 1, maxSockets: 8, model: 'EPYC' },
    ...{ dedicatedCpuPlacement: true, isolateEmulatorThread: true },
    numa: { guestMappingPassthrough: {} },
    realtime: { mask: '0' },
  });
  assert.deepEqual(memory, { guest: '2Gi', hugepages: { pageSize: '2Mi' }, maxGuest: '4Gi' });
  assert.deepEqual([devices?.gpus?.[0]?.deviceName, devices?.hostDevices?.[0]?.deviceName], ['a/gpu', 'a/nic']);
  assert.deepEqual([ioThreadsPolicy, ioThreads], ['supplementalPool', { supplementalPoolThreadCount: 2 }]);
  assert.deepEqual([launchSecurity, resources], [{ sev: {} }, undefined]);
});

test('neither the VM nor the instance type is changed', () => {
  const vm = vmOf({ volumes: [{ name: 'root' }] });
  const instancetype = { ...small, gpus: [{ name: 'g' }] };
  const before = structuredClone([vm, instancetype]);
  const { spec } = applied(vm, { instancetype, preference: { devices: { preferredDiskBus: 'virtio' } } });
  spec.domain.devices?.gpus?.push({ name: 'more' });
  assert.deepEqual([vm, instancetype], before);
});

for (const [percent, guest, requests] of [
  [50, '1Gi', '512Mi'],
  [15, '1Gi', '912680576'],
  [1, '3Gi', '3189013248'],
  [100, '1Gi', '0'],
] as const) {
  test(`overcommitted by ${percent} % a guest of ${guest} asks for ${requests}, with 32-bit numbers as upstream has them`, () => {
    const instancetype = { ...small, memory: { guest, overcommitPercent: percent } };
    assert.deepEqual(applied(vmOf(), { instancetype }).spec.domain.resources, { requests: { memory: requests } });
  });
}

const conflicts: readonly (readonly [path: string, spec: Partial<VmiSpec>, instancetype?: object])[] = [
  ['nodeSelector', { nodeSelector: {} }, { nodeSelector: { a: 'b' } }],
  ['schedulerName', { schedulerName: 'one' }, { schedulerName: 'two' }],
  ['domain.cpu.sockets', { domain: { cpu: { sockets: 1 } } }],
  ['domain.cpu.cores', { domain: { cpu: { cores: 1 } } }],
  ['domain.cpu.threads', { domain: { cpu: { threads: 1 } } }],
  ['domain.cpu.model', { domain: { cpu: { model: 'a' } } }, { cpu: { guest: 1, model: 'b' } }],
  [
    'domain.cpu.dedicatedCpuPlacement',
    { domain: { cpu: { dedicatedCpuPlacement: true } } },
    { cpu: { guest: 1, dedicatedCPUPlacement: false } },
  ],
  ['domain.cpu.numa', { domain: { cpu: { numa: {} } } }, { cpu: { guest: 1, numa: {} } }],
  ['domain.resources.requests.cpu', { domain: { resources: { requests: { cpu: '1' } } } }],
  ['domain.resources.limits.memory', { domain: { resources: { limits: { memory: '1Gi' } } } }],
  ['domain.memory.guest', { domain: { memory: { guest: '1Gi' } } }],
  ['domain.memory.hugepages', { domain: { memory: { hugepages: {} } } }, { memory: { guest: '1Gi', hugepages: {} } }],
  ['domain.ioThreadsPolicy', { domain: { ioThreadsPolicy: 'auto' } }, { ioThreadsPolicy: 'shared' }],
  ['domain.launchSecurity', { domain: { launchSecurity: {} } }, { launchSecurity: { sev: {} } }],
  ['domain.devices.gpus', { domain: { devices: { gpus: [{ name: 'a' }] } } }, { gpus: [{ name: 'b' }] }],
];
for (const [path, spec, instancetype] of conflicts) {
  test(`a template and an instance type that both say ${path} conflict, and the path is said`, () => {
    const pattern = new RegExp(`^VM field\\(s\\) spec\\.template\\.spec\\.${path} conflicts`);
    assert.throws(() => applied(vmOf(spec), { instancetype: { ...small, ...instancetype } }), isRefused(pattern));
  });
}

test('all conflicts are said at once, also those of annotations; what both say alike is none', () => {
  const vm = vmOf({ domain: { cpu: { sockets: 1 }, memory: { guest: '1Gi' } } }, { same: '1', other: '1' });
  const instancetype = { ...small, annotations: { same: '1', other: '2' } };
  const paths =
    'spec.domain.cpu.sockets, spec.template.spec.domain.memory.guest, spec.template.metadata.annotations.other';
  assert.throws(() => applied(vm, { instancetype }), isRefused(new RegExp(paths)));
});

test('what a template says without meaning it conflicts with nothing', () => {
  const vm = vmOf({
    schedulerName: '',
    domain: { cpu: { sockets: 0, model: '', dedicatedCpuPlacement: false }, devices: { gpus: [] }, resources: {} },
  });
  const cpu = { guest: 2, model: 'EPYC', dedicatedCPUPlacement: true };
  const { spec } = applied(vm, { instancetype: { ...small, cpu, schedulerName: 'x', gpus: [{ name: 'g' }] } });
  assert.deepEqual([spec.domain.cpu?.sockets, spec.domain.cpu?.model, spec.schedulerName], [2, 'EPYC', 'x']);
});

const spread = (options: object = {}) => ({ cpu: { preferredCPUTopology: 'spread', spreadOptions: options } });
for (const [what, guest, preference, sockets] of [
  ['no preference', 4, undefined, [4, 1, 1]],
  ['preferCores', 4, { cpu: { preferredCPUTopology: 'preferCores' } }, [1, 4, 1]],
  ['threads', 4, { cpu: { preferredCPUTopology: 'threads' } }, [1, 1, 4]],
  ['any', 4, { cpu: { preferredCPUTopology: 'any' } }, [4, 1, 1]],
  ['spread', 6, spread(), [3, 2, 1]],
  ['spread by 3', 6, spread({ ratio: 3 }), [2, 3, 1]],
  ['spread by the old ratio', 8, { ...spread(), preferSpreadSocketToCoreRatio: 4 }, [2, 4, 1]],
  ['spread over cores and threads', 6, spread({ across: 'CoresThreads' }), [1, 3, 2]],
  ['spread over all', 8, spread({ across: 'SocketsCoresThreads' }), [2, 2, 2]],
] as const) {
  test(`${guest} vCPUs are ${sockets.join(' × ')} with ${what}`, () =>
    assert.deepEqual(cpuOf(guest, preference), sockets));
}

test('vCPUs that cannot be spread are refused', () => {
  assert.throws(() => cpuOf(3, spread()), isRefused(/instancetype\.spec\.cpu\.guest: 3 vCPUs .* no multiple of 2/));
  assert.throws(() => cpuOf(6, spread({ across: 'SocketsCoresThreads' })), isRefused(/no multiple of 4/));
  assert.throws(() => cpuOf(6, spread({ across: 'CoresThreads', ratio: 3 })), isRefused(/only a ratio of 2/));
});

const everything = {
  clock: { preferredClockOffset: { timezone: 'UTC' }, preferredTimer: { hpet: { present: false } } },
  cpu: {
    preferredCPUFeatures: [
      { name: 'vmx', policy: 'require' },
      { name: 'known', policy: 'require' },
    ],
  },
  devices: {
    preferredAutoattachInputDevice: true,
    preferredDisableHotplug: true,
    preferredSoundModel: 'ac97',
    preferredInputBus: 'virtio',
    preferredDiskBus: 'virtio',
    preferredCdromBus: 'scsi',
    preferredLunBus: 'scsi',
    preferredDiskCache: 'none',
    preferredDiskIO: 'native',
    preferredDiskDedicatedIoThread: true,
    preferredDiskBlockSize: { matchVolume: {} },
    preferredInterfaceModel: 'e1000e',
    preferredInterfaceMasquerade: {},
    preferredRng: {},
    preferredTPM: {},
    preferredPanicDeviceModel: 'isa',
    preferredVideoType: 'vga',
    preferredNetworkInterfaceMultiQueue: true,
  },
  features: { preferredAcpi: {}, preferredSmm: {}, preferredHyperv: { relaxed: {}, vapic: { enabled: true } } },
  firmware: { preferredEfi: { secureBoot: true } },
  machine: { preferredMachineType: 'q35' },
  preferredSubdomain: 'sub',
  preferredTerminationGracePeriodSeconds: 0,
  preferredArchitecture: 'arm64',
  preferredLaunchSecurity: { sev: {} },
  annotations: { a: 'preferred', b: 'preferred' },
};

test('a template that says little gets what its preference says', () => {
  const vm = vmOf({
    volumes: [{ name: 'root' }, { name: 'cd' }],
    domain: { devices: { disks: [{ name: 'cd', cdrom: {} }] } },
  });
  const { spec, metadata } = applied(vm, { preference: everything });
  const { devices, features, firmware, clock, machine, cpu } = spec.domain;
  assert.deepEqual(devices?.disks, [
    { name: 'cd', cdrom: { bus: 'scsi' } },
    {
      ...{ name: 'root', disk: { bus: 'virtio' }, cache: 'none', io: 'native', dedicatedIOThread: true },
      blockSize: { matchVolume: {} },
    },
  ]);
  assert.deepEqual(devices?.interfaces, [{ name: 'default', masquerade: {}, model: 'e1000e' }]);
  assert.deepEqual(devices?.inputs, [{ name: 'default-0', type: 'tablet', bus: 'virtio' }]);
  assert.deepEqual([devices?.rng, devices?.tpm, devices?.panicDevices], [{}, {}, [{ model: 'isa' }]]);
  assert.deepEqual(
    [devices?.video?.type, devices?.networkInterfaceMultiqueue, devices?.sound],
    ['vga', true, undefined],
  );
  assert.deepEqual(features, { acpi: {}, smm: {}, hyperv: { relaxed: {}, vapic: { enabled: true } } });
  assert.deepEqual(
    [firmware?.bootloader, clock],
    [{ efi: { secureBoot: true } }, { timezone: 'UTC', timer: { hpet: { present: false } } }],
  );
  assert.deepEqual([machine?.type, cpu?.features?.length, spec.subdomain], ['q35', 2, 'sub']);
  assert.deepEqual([spec.terminationGracePeriodSeconds, spec.architecture], [0, 'arm64']);
  assert.deepEqual([spec.domain.launchSecurity, metadata?.annotations?.a], [{ sev: {} }, 'preferred']);
});

test('what a template says itself stays', () => {
  const own: Partial<VmiSpec> = {
    subdomain: 'own',
    terminationGracePeriodSeconds: 5,
    architecture: 'amd64',
    networks: [{ name: 'one', pod: {} }],
    volumes: [{ name: 'root' }, { name: 'lun' }],
    domain: {
      machine: { type: 'pc' },
      clock: { utc: {}, timer: { kvm: {} } },
      cpu: { features: [{ name: 'known', policy: 'forbid' }] },
      features: { smm: { enabled: false }, hyperv: { vapic: { enabled: false } } },
      firmware: { bootloader: { bios: {} } },
      launchSecurity: { snp: {} },
      devices: {
        autoattachInputDevice: false,
        rng: { own: true },
        video: { type: 'virtio' },
        sound: { name: 's', model: 'ich9' },
        panicDevices: [{ model: 'hyperv' }],
        interfaces: [{ name: 'one', bridge: {}, model: 'virtio' }],
        disks: [
          { name: 'root', disk: { bus: 'sata' }, cache: 'writeback' },
          { name: 'lun', lun: { bus: 'virtio' } },
        ],
      },
    },
  };
  const { spec, metadata } = applied(vmOf(own, { a: 'own' }), { preference: everything });
  assert.deepEqual([spec.subdomain, spec.terminationGracePeriodSeconds, spec.architecture], ['own', 5, 'amd64']);
  assert.deepEqual(metadata?.annotations, { a: 'own', b: 'preferred' });
  const { devices, features, firmware, clock, machine, cpu, launchSecurity } = spec.domain;
  assert.deepEqual([machine?.type, clock, firmware?.bootloader], ['pc', own.domain?.clock, { bios: {} }]);
  assert.deepEqual(cpu?.features, [
    { name: 'known', policy: 'forbid' },
    { name: 'vmx', policy: 'require' },
  ]);
  assert.deepEqual(features?.hyperv, { relaxed: {}, vapic: { enabled: false } });
  assert.deepEqual([features?.smm, launchSecurity, devices?.inputs], [{ enabled: false }, { snp: {} }, undefined]);
  assert.deepEqual([devices?.rng, devices?.video, devices?.sound?.model], [{ own: true }, { type: 'virtio' }, 'ich9']);
  assert.deepEqual(
    [devices?.panicDevices, devices?.interfaces],
    [own.domain?.devices?.panicDevices, own.domain?.devices?.interfaces],
  );
  assert.deepEqual(devices?.disks?.[0]?.disk?.bus, 'sata');
  assert.deepEqual([devices?.disks?.[0]?.cache, devices?.disks?.[0]?.dedicatedIOThread], ['writeback', undefined]);
});

test('models, masquerade and sound of a preference are for what has none', () => {
  const vm = vmOf({
    networks: [
      { name: 'pod', pod: {} },
      { name: 'other', multus: { networkName: 'n' } },
    ],
    domain: {
      devices: {
        sound: { name: 's' },
        interfaces: [{ name: 'pod' }, { name: 'other' }],
        inputs: [{ name: 'i', type: '' }],
      },
    },
  });
  const { devices } = applied(vm, { preference: everything }).spec.domain;
  assert.deepEqual(devices?.interfaces, [
    { name: 'pod', model: 'e1000e', masquerade: {} },
    { name: 'other', model: 'e1000e' },
  ]);
  assert.deepEqual([devices?.sound?.model, devices?.inputs], ['ac97', [{ name: 'i', type: 'tablet', bus: 'virtio' }]]);
});

for (const [what, said, preferred, bootloader] of [
  [
    'BIOS with a serial console',
    {},
    { preferredUseBios: true, preferredUseBiosSerial: true },
    { bios: { useSerial: true } },
  ],
  [
    'EFI of an old preference',
    {},
    { preferredUseEfi: true, preferredUseSecureBoot: false },
    { efi: { secureBoot: false } },
  ],
  [
    'EFI by both fields',
    {},
    { preferredEfi: { persistent: true }, preferredUseSecureBoot: true },
    { efi: { persistent: true } },
  ],
  ['secure boot for its own EFI', { efi: {} }, { preferredUseSecureBoot: true }, { efi: { secureBoot: true } }],
  [
    'EFI though it says BIOS',
    { bios: {} },
    { preferredEfi: {}, preferredUseBiosSerial: true },
    { bios: { useSerial: true } },
  ],
  ['BIOS though it says EFI', { efi: {} }, { preferredUseBios: true }, { efi: {} }],
] as const) {
  test(`firmware: a VM that is preferred with ${what}`, () => {
    const { spec } = applied(vmOf({ domain: { firmware: { bootloader: said } } }), {
      preference: { firmware: preferred },
    });
    assert.deepEqual(spec.domain.firmware?.bootloader, bootloader);
  });
}

const requiring = (requirements: object, cpu?: object) => ({ requirements, ...(cpu && { cpu }) });
for (const [what, spec, found, pattern] of [
  [
    'an instance type with few vCPUs',
    {},
    { instancetype: small, preference: requiring({ cpu: { guest: 2 } }) },
    /^spec\.instancetype: insufficient 1 vCPU/,
  ],
  [
    'an instance type with little memory',
    {},
    { instancetype: small, preference: requiring({ memory: { guest: '2Gi' } }) },
    /^spec\.instancetype: insufficient memory of 1Gi, preference requires 2Gi/,
  ],
  [
    'a VM with little memory',
    { domain: { memory: { guest: '1Gi' } } },
    { preference: requiring({ memory: { guest: '2Gi' } }) },
    /^spec\.template\.spec\.domain\.memory: /,
  ],
  [
    'a VM with its vCPUs elsewhere',
    { domain: { cpu: { sockets: 4 } } },
    { preference: requiring({ cpu: { guest: 2 } }, { preferredCPUTopology: 'cores' }) },
    /^spec\.template\.spec\.domain\.cpu\.cores: insufficient 1 vCPU/,
  ],
  [
    'a VM with few in all',
    { domain: { cpu: { sockets: 1, cores: 2 } } },
    { preference: requiring({ cpu: { guest: 4 } }, { preferredCPUTopology: 'spread' }) },
    /cpu\.sockets, spec\.template\.spec\.domain\.cpu\.cores: insufficient 2 vCPU/,
  ],
  [
    'another architecture',
    {},
    { preference: requiring({ architecture: 'arm64' }) },
    /^spec\.template\.spec\.architecture: preference requires architecture arm64 but amd64/,
  ],
] as const) {
  test(`what a preference requires is not met by ${what}, and the path is said`, () => {
    assert.throws(() => applied(vmOf(spec), found), isRefused(pattern));
  });
}

test('what a preference requires is met', () => {
  const requirements = { cpu: { guest: 4 }, memory: { guest: '2Gi' }, architecture: 'amd64' };
  const large = { cpu: { guest: 4 }, memory: { guest: '2048Mi' } };
  applied(vmOf(), { instancetype: large, preference: requiring(requirements) });
  const domain = { cpu: { sockets: 2, cores: 2 }, resources: { requests: { memory: '2Gi' } } };
  applied(vmOf({ domain }), { preference: requiring(requirements, { preferredCPUTopology: 'any' }) });
  const asked = { resources: { requests: { cpu: '3500m', memory: '2Gi' } } };
  applied(vmOf({ domain: asked }), { preference: requiring(requirements) });
});

for (const [what, found, pattern] of [
  ['no vCPUs', { instancetype: { ...small, cpu: { guest: 0 } } }, /spec\.cpu\.guest must be a whole number/],
  ['no memory', { instancetype: { cpu: { guest: 1 }, memory: {} } }, /spec\.memory\.guest is missing/],
  [
    'memory that is no quantity',
    { instancetype: { ...small, memory: { guest: 'much' } } },
    /spec\.memory\.guest must be a quantity/,
  ],
  [
    'too much overcommit',
    { instancetype: { ...small, memory: { guest: '1Gi', overcommitPercent: 101 } } },
    /between 0 and 100/,
  ],
  [
    'overcommit and huge pages',
    { instancetype: { ...small, memory: { guest: '1Gi', overcommitPercent: 1, hugepages: {} } } },
    /cannot be with spec\.memory\.hugepages/,
  ],
  [
    'an unknown field',
    { instancetype: { ...small, cpu: { guest: 1, sockets: 1 } } },
    /spec\.cpu\.sockets is a field that this controller does not know/,
  ],
  ['an unknown topology', { preference: { cpu: { preferredCPUTopology: 'wide' } } }, /cannot be wide/],
  ['an unknown spread', { preference: { cpu: { spreadOptions: { across: 'Nodes' } } } }, /cannot be Nodes/],
  ['a spread by nothing', { preference: { cpu: { spreadOptions: { ratio: 0 } } } }, /ratio must be a whole number/],
  ['a preference that is a list', { preference: [] }, /spec must be an object/],
] as const) {
  test(`${what} is refused in words`, () => assert.throws(() => applied(vmOf(), found), isRefused(pattern)));
}

test('a template of another shape is refused in words, and null is nothing', () => {
  const strange = { domain: { devices: { disks: 'many' } } } as unknown as VmiSpec;
  assert.throws(
    () => applied(vmOf(strange), { instancetype: small }),
    isRefused(/^spec\.template\.spec\.domain\.devices\.disks must be a list/),
  );
  const empty = { nodeSelector: null, domain: { memory: null, devices: { disks: null } } } as unknown as VmiSpec;
  assert.equal(applied(vmOf(empty), { instancetype: small }).spec.domain.memory?.guest, '1Gi');
});
