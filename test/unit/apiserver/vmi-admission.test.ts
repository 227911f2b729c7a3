import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { vmAdmission } from '../../../src/apiserver/admission/vm.ts';
import { vmiAdmission } from '../../../src/apiserver/admission/vmi.ts';
import type { AdmissionContext } from '../../../src/apiserver/api-type.ts';
import type { ApiObject } from '../../../src/apiserver/object.ts';
import { readGates } from '../../../src/cluster-config/index.ts';
import { clusterDefaultsWith } from '../../fixtures/cluster-defaults.ts';

let counter = 0;
function context(more: Partial<AdmissionContext> = {}): AdmissionContext {
  return {
    old: undefined,
    now: new Date(0),
    hasNewSpec: true,
    privileged: false,
    randomUuid: () => `uuid-${++counter}`,
    cluster: clusterDefaultsWith({ networkBinding: 'bridge', runtimeUser: undefined }),
    ...more,
  };
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into specs of every shape
function vmi(spec: unknown): ApiObject & { spec: any } {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name: 'x' },
    spec: structuredClone(spec),
  };
}

const memory = { guest: '64Mi' };

describe('defaults of a VMI', () => {
  test('what upstream fills in is filled in, and twice is the same as once', () => {
    const object = vmi({
      domain: {
        resources: { requests: { memory: '1Gi', cpu: '1500m' } },
        devices: { disks: [{ name: 'cd', cdrom: {} }] },
      },
      volumes: [
        { name: 'cd', containerDisk: { image: 'a:latest' } },
        { name: 'root', containerDisk: { image: 'registry:5000/b' } },
      ],
    });
    vmiAdmission.fill?.(object, context());
    const { domain, networks, volumes, architecture } = object.spec;
    assert.equal(architecture, 'amd64');
    assert.deepEqual(domain.machine, { type: 'q35' });
    assert.deepEqual(domain.cpu, { sockets: 2, cores: 1, threads: 1, model: 'host-model' });
    assert.equal(domain.memory.guest, '1Gi');
    assert.match(domain.firmware.uuid, /^uuid-/);
    assert.deepEqual(domain.devices.interfaces, [{ name: 'default', bridge: {} }]);
    assert.deepEqual(networks, [{ name: 'default', pod: {} }]);
    assert.deepEqual(domain.devices.disks, [
      { name: 'cd', cdrom: { bus: 'sata', readonly: true, tray: 'closed' } },
      { name: 'root', disk: { bus: 'sata' } },
    ]);
    assert.deepEqual(
      volumes.map((volume: { containerDisk: { imagePullPolicy: string } }) => volume.containerDisk.imagePullPolicy),
      ['Always', 'IfNotPresent'],
    );
    const again = structuredClone(object);
    vmiAdmission.fill?.(again, context());
    assert.deepEqual(again, object);
  });

  test('room for more CPUs and memory is part of a new guest where changes come live, and stays what it was', () => {
    const settings = { liveUpdateRatio: 4, maxCpuSockets: 0, maxGuest: undefined };
    const cluster = (rolloutStrategy: 'LiveUpdate' | 'Stage') => {
      const given = context();
      return context({ cluster: { ...given.cluster, liveUpdate: { rolloutStrategy, ...settings } } });
    };
    const domain = { cpu: { sockets: 2 }, memory: { guest: '1Gi' } };
    const room = ({ spec }: ReturnType<typeof vmi>) => [spec.domain.cpu.maxSockets, spec.domain.memory.maxGuest];
    const old = vmi({ domain });
    vmiAdmission.fill?.(old, cluster('LiveUpdate'));
    assert.deepEqual(room(old), [8, '4Gi']);
    const again = vmi({ domain });
    vmiAdmission.fill?.(again, { ...cluster('Stage'), old });
    assert.deepEqual(room(again), [8, '4Gi']);
    const staged = vmi({ domain });
    vmiAdmission.fill?.(staged, cluster('Stage'));
    assert.deepEqual(room(staged), [undefined, undefined]);
    // It was started without.
    const later = vmi({ domain });
    vmiAdmission.fill?.(later, { ...cluster('LiveUpdate'), old: staged });
    assert.deepEqual(room(later), [undefined, undefined]);
    const undeployed = vmi({ domain });
    vmiAdmission.fill?.(undeployed, context());
    assert.deepEqual(room(undeployed), [undefined, undefined]);
  });

  test('a given topology, model, network or autoattachPodInterface: false stays', () => {
    const object = vmi({
      domain: { memory, cpu: { cores: 2, model: 'qemu64' }, devices: { autoattachPodInterface: false } },
    });
    vmiAdmission.fill?.(object, context());
    assert.deepEqual(object.spec.domain.cpu, { cores: 2, model: 'qemu64' });
    assert.equal(object.spec.domain.devices.interfaces, undefined);
    assert.equal(object.spec.networks, undefined);
  });

  test('the KubeVirt object decides about binding, CPU model and eviction', () => {
    const object = vmi({ domain: { memory } });
    const cluster = {
      ...context().cluster,
      networkBinding: 'masquerade' as const,
      cpuModel: 'Nehalem',
      evictionStrategy: 'None',
    };
    vmiAdmission.fill?.(object, context({ cluster }));
    assert.deepEqual(object.spec.domain.devices.interfaces, [{ name: 'default', masquerade: {} }]);
    assert.equal(object.spec.domain.cpu.model, 'Nehalem');
    assert.equal(object.spec.evictionStrategy, 'None');
  });

  test('a random uuid is kept when the same manifest is applied again', () => {
    const first = vmi({ domain: { memory } });
    vmiAdmission.fill?.(first, context());
    const second = vmi({ domain: { memory } });
    vmiAdmission.fill?.(second, context({ old: first }));
    assert.deepEqual(second.spec, first.spec);
    assert.deepEqual(vmiAdmission.validate?.(second, context({ old: first })), []);
  });
});

describe('a new VMI is Pending from its first moment on', () => {
  const deployed = (runtimeUser: 0 | 107 | undefined) => ({ ...context().cluster, runtimeUser });
  const filled = (object: ApiObject, more: Partial<AdmissionContext>) => {
    vmiAdmission.fill?.(object, context(more));
    return object as ApiObject & { status: Record<string, unknown> };
  };
  const finalizer = 'kubevirt.io/foregroundDeleteVirtualMachine';

  for (const runtimeUser of [0, 107] as const) {
    test(`with finalizer, time of the phase and runtimeUser ${runtimeUser}, as the KubeVirt object says`, () => {
      const { metadata, status } = filled(vmi({ domain: { memory } }), { cluster: deployed(runtimeUser) });
      assert.deepEqual(metadata.finalizers, [finalizer]);
      assert.equal(metadata.annotations?.['kubevirt.io/latest-observed-api-version'], 'v1');
      assert.equal(metadata.annotations?.['kubevirt.io/storage-observed-api-version'], 'v1');
      assert.equal(status.phase, 'Pending');
      assert.deepEqual(status.phaseTransitionTimestamps, [
        { phase: 'Pending', phaseTransitionTimestamp: '1970-01-01T00:00:00Z' },
      ]);
      assert.equal(status.runtimeUser, runtimeUser);
    });
  }

  test('its own finalizers and annotations stay; a finalizer that is there already is not doubled', () => {
    const object = vmi({ domain: { memory } });
    object.metadata = { name: 'x', finalizers: ['example.com/mine', finalizer], annotations: { mine: 'yes' } };
    const { metadata } = filled(object, { cluster: deployed(107) });
    assert.deepEqual(metadata.finalizers, ['example.com/mine', finalizer]);
    assert.equal(metadata.annotations?.mine, 'yes');
  });

  test('a status that a user brings is dropped; one of a program with a phase is kept', () => {
    const status = { phase: 'Running', nodeName: 'forged', runtimeUser: 0 };
    const byUser = filled({ ...vmi({ domain: { memory } }), status }, { cluster: deployed(107) });
    assert.equal(byUser.status.phase, 'Pending');
    assert.equal(byUser.status.nodeName, undefined);
    assert.equal(byUser.status.runtimeUser, 107);
    const restored = filled(
      { ...vmi({ domain: { memory } }), status: { ...status } },
      { cluster: deployed(107), privileged: true },
    );
    assert.equal(restored.status.phase, 'Running');
    assert.equal(restored.metadata.finalizers, undefined);
  });

  test('not while no KubeVirt is deployed: the controller does it when it comes', () => {
    const { metadata, status } = filled(vmi({ domain: { memory } }), { cluster: deployed(undefined) });
    assert.equal(status.phase, undefined);
    assert.equal(metadata.finalizers, undefined);
  });

  test('an update adds nothing: a finalizer that was taken away stays away', () => {
    const old = filled(vmi({ domain: { memory } }), { cluster: deployed(0) });
    const next = structuredClone(old);
    delete next.metadata.finalizers;
    assert.equal(filled(next, { old, cluster: deployed(0) }).metadata.finalizers, undefined);
  });
});

describe('a new VM has the finalizer of its controller from its first moment on', () => {
  const vm = (): ApiObject => ({
    ...{ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachine', metadata: { name: 'x' } },
    spec: { runStrategy: 'Halted', template: { spec: { domain: { devices: {} } } } },
  });
  const filled = (object: ApiObject, runtimeUser: 107 | undefined, old?: ApiObject) => {
    vmAdmission.fill?.(object, context({ old, cluster: { ...context().cluster, runtimeUser } }));
    return object.metadata;
  };
  const finalizer = 'kubevirt.io/virtualMachineControllerFinalize';

  test('and the version that it is known by; not while no KubeVirt is deployed: nobody would take it off', () => {
    const { finalizers, annotations } = filled(vm(), 107);
    assert.deepEqual(finalizers, [finalizer]);
    assert.equal(annotations?.['kubevirt.io/latest-observed-api-version'], 'v1');
    assert.equal(filled(vm(), undefined).finalizers, undefined);
  });

  test('an update adds nothing: a finalizer that was taken away stays away', () => {
    assert.equal(filled(vm(), 107, vm()).finalizers, undefined);
  });
});

describe('encrypted memory', () => {
  const efi = { bootloader: { efi: { secureBoot: false } } };
  const tdxOn = { featureGates: ['WorkloadEncryptionTDX'] };
  const refused = (launchSecurity: unknown, domain: object = {}, spec: object = {}, gates: unknown = tdxOn) => {
    const object = vmi({
      architecture: 'amd64',
      ...spec,
      domain: { memory, devices: {}, firmware: efi, ...domain, launchSecurity },
    });
    const cluster = clusterDefaultsWith({ gates: readGates({ developerConfiguration: gates }) });
    const errors = vmiAdmission.validate?.(object, context({ cluster })) ?? [];
    return errors.filter(({ field }) => /launchSecurity|architecture/.test(field)).map(({ message }) => message);
  };

  test('each kind is taken with the firmware that it needs', () => {
    for (const kind of ['sev', 'snp', 'tdx']) assert.deepEqual(refused({ [kind]: {} }), [], kind);
    assert.deepEqual(refused({}, {}, { architecture: 's390x' }), []);
    assert.deepEqual(refused({ tdx: {} }, { firmware: { bootloader: { efi: {} } } }), []);
  });

  const secure = { firmware: { bootloader: { efi: {} } } };
  const persistent = { firmware: { bootloader: { efi: { secureBoot: false, persistent: true } } } };
  const bootable = { devices: { interfaces: [{ name: 'default', masquerade: {}, bootOrder: 1 }] } };
  const network = { networks: [{ name: 'default', pod: {} }] };
  const table: [string, unknown, object, object, unknown][] = [
    ['One and only one launchSecurity type can be set', {}, {}, {}, tdxOn],
    ['One and only one launchSecurity type can be set', { sev: {}, snp: {} }, {}, {}, tdxOn],
    [
      'WorkloadEncryptionSEV feature gate is not enabled in kubevirt-config',
      { snp: {} },
      {},
      {},
      { disabledFeatureGates: ['WorkloadEncryptionSEV'] },
    ],
    ['WorkloadEncryptionTDX feature gate is not enabled in kubevirt-config', { tdx: {} }, {}, {}, {}],
    ['No launchSecurity support for architecture: arm64', { sev: {} }, {}, { architecture: 'arm64' }, tdxOn],
    ['SEV requires OVMF (UEFI)', { sev: {} }, { firmware: {} }, {}, tdxOn],
    ['SNP does not work along with SecureBoot', { snp: {} }, { ...secure, features: { smm: {} } }, {}, tdxOn],
    ['TDX does not work along with SMM', { tdx: {} }, { features: { smm: {} } }, {}, tdxOn],
    ['TDX does not work along with Persistent EFI variables', { tdx: {} }, persistent, {}, tdxOn],
    ["SEV attestation requires VMI StartStrategy 'Paused'", { sev: { attestation: {} } }, {}, {}, tdxOn],
    ['SEV does not work with bootable NICs: default', { sev: {} }, bootable, network, tdxOn],
  ];
  for (const [message, launchSecurity, domain, spec, gates] of table) {
    test(`is refused in the words of KubeVirt’s webhook: ${message}`, () => {
      assert.deepEqual(refused(launchSecurity, domain, spec, gates), [message]);
    });
  }

  test('a new guest with TDX is told where its quotes are signed, and no other', () => {
    const cluster = clusterDefaultsWith({ qgsSocketPath: '/run/quotes' });
    const name = 'kubevirt.io/qgs-socket-path';
    const made = (launchSecurity: object) => {
      const object = vmi({ domain: { memory, firmware: efi, launchSecurity } });
      vmiAdmission.fill?.(object, context({ cluster }));
      return object.metadata.annotations?.[name];
    };
    assert.deepEqual([made({ tdx: {} }), made({ sev: {} })], ['/run/quotes', undefined]);
  });
});

describe('what a user may change on a VMI', () => {
  const old = vmi({ domain: { memory } });
  vmiAdmission.fill?.(old, context());

  test('not the spec', () => {
    const next = structuredClone(old);
    next.spec.hostname = 'other';
    const errors = vmiAdmission.validate?.(next, context({ old })) ?? [];
    assert.equal(errors[0]?.field, 'spec');
    assert.deepEqual(vmiAdmission.validate?.(next, context({ old, privileged: true })), []);
  });

  test('nor anything else of it when it breaks a rule that is younger than it', () => {
    const cluster = clusterDefaultsWith({ bridgeOnPodNetwork: false });
    const next = structuredClone(old);
    next.spec.hostname = 'other';
    next.metadata.labels = { 'kubevirt.io/nodeName': 'other' };
    const fields = (object: ApiObject) =>
      (vmiAdmission.validate?.(object, context({ old, cluster })) ?? []).map(({ field }) => field);
    const fault = 'spec.domain.devices.interfaces[0].name';
    assert.deepEqual(fields(old), [fault]);
    assert.deepEqual(fields(next), [fault, 'spec']);
    assert.deepEqual(fields({ ...next, spec: old.spec }), [fault, 'metadata.labels[kubevirt.io/nodeName]']);
    assert.deepEqual(fields({ ...next, spec: 'none' }), ['spec', 'spec']);
  });

  test('not the status: it stays without a word, as upstream', () => {
    const next: ApiObject = { ...structuredClone(old), status: { phase: 'Running' } };
    vmiAdmission.fill?.(next, context({ old }));
    assert.deepEqual(next.status, old.status);
    const byController: ApiObject = { ...structuredClone(old), status: { phase: 'Running' } };
    vmiAdmission.fill?.(byController, context({ old, privileged: true }));
    assert.deepEqual(byController.status, { phase: 'Running' });
  });

  test('not the labels that say where it runs', () => {
    const next = structuredClone(old);
    next.metadata.labels = { 'kubevirt.io/nodeName': 'other', mine: 'yes' };
    const errors = vmiAdmission.validate?.(next, context({ old })) ?? [];
    assert.deepEqual(
      errors.map(({ field }) => field),
      ['metadata.labels[kubevirt.io/nodeName]'],
    );
  });
});

describe('a VMI that cannot work is refused, naming the field', () => {
  const disk = { name: 'a' };
  const volume = { name: 'a', emptyDisk: { capacity: '1Gi' } };
  const table: [string, unknown][] = [
    ['spec', undefined],
    ['spec', 'text'],
    ['spec.domain', {}],
    ['spec.domain', { domain: 5 }],
    ['spec.domain.memory.guest', { domain: {} }],
    ['spec.domain.memory.guest', { domain: { memory: { guest: 'lots' } } }],
    ['spec.domain.memory.guest', { domain: { memory: { guest: '-1Gi' } } }],
    ['spec.domain.cpu.cores', { domain: { memory, cpu: { cores: -1 } } }],
    ['spec.domain.cpu.cores', { domain: { memory, cpu: { cores: '2' } } }],
    ['spec.domain.devices.disks', { domain: { memory, devices: { disks: {} } } }],
    ['spec.domain.devices.disks[0].name', { domain: { memory, devices: { disks: [{}] } } }],
    ['spec.domain.devices.disks[0].name', { domain: { memory, devices: { disks: [disk] } } }],
    [
      'spec.domain.devices.disks[0].disk.bus',
      { domain: { memory, devices: { disks: [{ name: 'a', disk: { bus: 'ide' } }] } }, volumes: [volume] },
    ],
    [
      'spec.domain.devices.disks[0]',
      { domain: { memory, devices: { disks: [{ name: 'a', disk: {}, cdrom: {} }] } }, volumes: [volume] },
    ],
    ['spec.volumes[0]', { domain: { memory }, volumes: [{ name: 'a' }] }],
    ['spec.volumes[0]', { domain: { memory }, volumes: [{ ...volume, containerDisk: { image: 'x' } }] }],
    ['spec.volumes[0].emptyDisk.capacity', { domain: { memory }, volumes: [{ name: 'a', emptyDisk: {} }] }],
    [
      'spec.volumes[0].hostDisk.type',
      { domain: { memory }, volumes: [{ name: 'a', hostDisk: { path: '/x', type: 'Dir' } }] },
    ],
    ['spec.volumes[1].name', { domain: { memory }, volumes: [volume, volume] }],
    [
      'spec.domain.devices.interfaces[0].name',
      { domain: { memory, devices: { interfaces: [{ name: 'x', bridge: {} }] } } },
    ],
    [
      'spec.domain.devices.interfaces[0].slirp',
      { domain: { memory, devices: { interfaces: [{ name: 'x', slirp: {} }] } }, networks: [{ name: 'x', pod: {} }] },
    ],
    ['spec.networks[0].name', { domain: { memory }, networks: [{ name: 'x', pod: {} }] }],
    [
      'spec.domain.devices.disks[1].bootOrder',
      {
        domain: {
          memory,
          devices: {
            disks: [
              { ...disk, bootOrder: 1 },
              { name: 'b', bootOrder: 1 },
            ],
          },
        },
        volumes: [volume, { ...volume, name: 'b' }],
      },
    ],
    ['spec.terminationGracePeriodSeconds', { domain: { memory }, terminationGracePeriodSeconds: -1 }],
    ['spec.startStrategy', { domain: { memory }, startStrategy: 'Later' }],
    [
      'spec.volumes',
      { domain: { memory }, volumes: Array.from({ length: 257 }, (_, index) => ({ ...volume, name: `v${index}` })) },
    ],
  ];
  for (const [field, spec] of table) {
    test(`${field}: ${JSON.stringify(spec)?.slice(0, 90)}`, () => {
      const object = vmi(spec);
      vmiAdmission.fill?.(object, context());
      const errors = vmiAdmission.validate?.(object, context()) ?? [];
      assert.ok(
        errors.some((error) => error.field === field),
        JSON.stringify(errors),
      );
    });
  }

  test('a VMI without disks is fine', () => {
    const object = vmi({ domain: { memory } });
    vmiAdmission.fill?.(object, context());
    assert.deepEqual(vmiAdmission.validate?.(object, context()), []);
  });
});

describe('a VM', () => {
  const vm = (spec: object) => ({
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachine',
    metadata: { name: 'x' },
    spec,
  });
  const template = { spec: { domain: { memory } } };

  const bad: [string, object][] = [
    ['spec.template', { running: true }],
    ['spec.runStrategy', { template }],
    ['spec.running', { template, running: true, runStrategy: 'Always' }],
    ['spec.running', { template, running: 'yes' }],
    ['spec.runStrategy', { template, runStrategy: 'WaitAsReceiver' }],
    ['spec.runStrategy', { template, runStrategy: 'Sometimes' }],
    ['spec.template.spec.domain', { running: true, template: { spec: {} } }],
  ];
  for (const [field, spec] of bad) {
    test(`${field} is named when it is wrong: ${JSON.stringify(spec)}`, () => {
      const errors = vmAdmission.validate?.(vm(spec), context()) ?? [];
      assert.ok(
        errors.some((error) => error.field === field),
        JSON.stringify(errors),
      );
    });
  }

  test('gets a firmware uuid that stays', () => {
    const made: ApiObject = vm({ running: true, template: structuredClone(template) });
    vmAdmission.fill?.(made, context());
    const again: ApiObject = vm({ running: true, template: structuredClone(template) });
    vmAdmission.fill?.(again, context({ old: made }));
    assert.deepEqual(again.spec, made.spec);
  });
});

describe('what fits together', () => {
  const claim = (name: string) => ({ name, persistentVolumeClaim: { claimName: name } });
  const whole = {
    domain: {
      memory: { guest: '64Mi', hugepages: { pageSize: '2Mi' } },
      resources: { requests: { memory: '64Mi', cpu: '4' }, limits: { memory: '64Mi', cpu: '4' } },
      cpu: {
        ...{ cores: 2, threads: 2, sockets: 1, maxSockets: 4 },
        ...{ dedicatedCpuPlacement: true, isolateEmulatorThread: true, realtime: {} },
        numa: { guestMappingPassthrough: {} },
      },
      machine: { type: 'pc-q35-9.2' },
      firmware: {
        bootloader: { efi: {} },
        acpi: { slicNameRef: 'slic' },
        kernelBoot: { container: { image: 'a', kernelPath: '/boot/vmlinuz', initrdPath: '/boot/initrd' } },
      },
      features: { smm: {}, hyperv: { evmcs: {}, synictimer: { enabled: true } } },
      devices: {
        disks: [
          {
            name: 'root',
            disk: { bus: 'virtio', pciAddress: '0000:0a:01.0' },
            dedicatedIOThread: true,
            serial: 'a+1.b_c',
          },
          { name: 'lun', lun: { bus: 'scsi' }, blockSize: { custom: { logical: 512, physical: 4096 } } },
          { name: 'cd', cdrom: { bus: 'sata' } },
          { name: 'empty', cdrom: {} },
        ],
        interfaces: [
          { name: 'default', masquerade: {}, model: 'e1000e', ports: [{ name: 'http', port: 80 }, { port: 53 }] },
          { name: 'blue_1', bridge: {}, state: 'absent', pciAddress: '0000:0a:02.1' },
          {
            name: 'red',
            sriov: {},
            dhcpOptions: { privateOptions: [{ option: 240, value: 'a' }], ntpServers: ['10.0.0.1'] },
          },
        ],
        inputs: [{ name: 'tablet', type: 'tablet', bus: 'usb' }],
        watchdog: { name: 'dog', i6300esb: {} },
        sound: { name: 'noise', model: 'ac97' },
        video: { type: 'virtio' },
      },
      ioThreadsPolicy: 'supplementalPool',
      ioThreads: { supplementalPoolThreadCount: 2 },
    },
    networks: [
      { name: 'default', pod: {} },
      { name: 'blue_1', multus: { networkName: 'blue' } },
      { name: 'red', multus: { networkName: 'red' } },
    ],
    volumes: [
      { name: 'root', containerDisk: { image: 'a:1', path: '/disk/a.img' } },
      claim('lun'),
      { name: 'cd', cloudInitNoCloud: { userDataBase64: 'YQ==', networkData: 'version: 2' } },
      { name: 'slic', secret: { secretName: 'licence' } },
      { name: 'host', hostDisk: { path: '/a', type: 'DiskOrCreate', capacity: '1Gi' } },
    ],
    accessCredentials: [
      { sshPublicKey: { source: { secret: { secretName: 'keys' } }, propagationMethod: { noCloud: {} } } },
    ],
    startStrategy: 'Paused',
    dnsPolicy: 'None',
    dnsConfig: { nameservers: ['10.0.0.1'], searches: ['example.org'], options: [{ name: 'ndots' }] },
    serviceAccountName: 'me',
  };

  test('is taken, as a VMI and as a template, before its defaults and after', () => {
    const object = vmi(whole);
    assert.deepEqual(vmiAdmission.validate?.(object, context()), []);
    vmiAdmission.fill?.(object, context());
    assert.deepEqual(vmiAdmission.validate?.(object, context()), []);
    const vm = { ...vmi({ runStrategy: 'Halted', template: { spec: whole } }), kind: 'VirtualMachine' };
    assert.deepEqual(vmAdmission.validate?.(vm, context()), []);
  });

  test('what Hyper-V’s features need is switched on', () => {
    const object = vmi(whole);
    vmiAdmission.fill?.(object, context());
    const { features, cpu } = object.spec.domain;
    const on = { enabled: true };
    assert.deepEqual(features.hyperv, { evmcs: {}, synictimer: on, synic: on, vpindex: on });
    assert.deepEqual(cpu.features, [{ name: 'vmx', policy: 'require' }]);
  });

  test('an instance type or a preference may still give what is missing', () => {
    const domain = { devices: {}, cpu: { isolateEmulatorThread: true }, firmware: { bootloader: { efi: {} } }, memory };
    const fields = (more: object) => {
      const vm = { ...vmi({ runStrategy: 'Halted', template: { spec: { domain } }, ...more }), kind: 'VirtualMachine' };
      return (vmAdmission.validate?.(vm, context()) ?? []).map(({ field }) => field);
    };
    assert.deepEqual(fields({}), ['spec.template.spec.domain', 'spec.template.spec.domain.cpu.isolateEmulatorThread']);
    assert.deepEqual(fields({ instancetype: { name: 'a' } }), []);
    assert.deepEqual(fields({ preference: { name: 'a' } }), []);
  });

  test('volumes for dumps come to what is there already', () => {
    const old = vmi({ domain: { memory } });
    const object = vmi({ domain: { memory }, utilityVolumes: [{ name: 'dump', claimName: 'dump' }] });
    assert.equal(vmiAdmission.validate?.(object, context())?.[0]?.field, 'spec.utilityVolumes');
    assert.deepEqual(vmiAdmission.validate?.(object, context({ privileged: true, old })), []);
  });
});

describe('devices that are given out by claims', () => {
  const all = { featureGates: ['NetworkDevicesWithDRA'] };
  const claims = [{ name: 'c', resourceClaimName: 'x' }];
  const request = { claimName: 'c', requestName: 'r' };
  const refused = (devices: object, spec: object = {}, gates: unknown = all) => {
    const object = vmi({ architecture: 'amd64', resourceClaims: claims, ...spec, domain: { memory, devices } });
    const cluster = clusterDefaultsWith({ gates: readGates({ developerConfiguration: gates }) });
    const errors = vmiAdmission.validate?.(object, context({ cluster })) ?? [];
    return errors.map(({ field, reason, message }) => `${field} ${reason} ${message}`);
  };
  const gpus = [{ name: 'g', ...request }];
  const hostDevices = [{ name: 'h', ...request }];
  const interfaces = [{ name: 'n', sriov: {} }];
  const networks = [{ name: 'n', resourceClaim: request }];

  test('each kind is taken', () => {
    assert.deepEqual(refused({ gpus }, {}, {}), []);
    assert.deepEqual(refused({ hostDevices: [...hostDevices, { name: 'i', deviceName: 'a/b' }] }, {}, {}), []);
    assert.deepEqual(refused({ interfaces }, { networks }), []);
    assert.deepEqual(refused({}, { resourceClaims: [{ name: 'unused', resourceClaimTemplateName: 'x.y' }] }), []);
  });

  const [device, other] = [{ name: 'g' }, { name: 'o', deviceName: 'a/b' }];
  const off = { disabledFeatureGates: ['GPUsWithDRA', 'HostDevicesWithDRA'] };
  const table: [string, RegExp, object, object?, unknown?][] = [
    ['GPUs without the gate', /devices\.gpus FieldValueInvalid .* but feature gate is not enabled/, { gpus }, {}, off],
    ['host devices without it', /hostDevices contains DRA enabled HostDevices but/, { hostDevices }, {}, off],
    ['networks without it', /NetworkDevicesWithDRA feature gate is not enabled/, { interfaces }, { networks }, {}],
    ['GPUs of both kinds', /contains both DRA and non-DRA GPUs/, { gpus: [...gpus, other] }],
    [
      'a device of nobody',
      /hostDevices FieldValueRequired .*without deviceName or claimRequest/,
      { hostDevices: [device] },
    ],
    ['one of two', /with both deviceName and claimRequest/, { hostDevices: [{ ...other, ...request }] }],
    ['no request', /gpus\[0\]\.requestName FieldValueRequired/, { gpus: [{ ...device, claimName: 'c' }] }],
    ['no claim', /gpus\[0\]\.claimName FieldValueRequired/, { gpus: [{ ...device, requestName: 'r' }] }],
    ['one request twice', /gpus\[1\] FieldValueDuplicate .*pair "c\/r"$/, { gpus: [...gpus, ...gpus] }],
    ['one request of two lists', /between GPUs\[0\] and HostDevices\[0\]/, { gpus, hostDevices }],
    ['a claim that is not listed', /resourceClaims must specify all claims/, { gpus }, { resourceClaims: [] }],
    [
      'the same of a network',
      /networks\[0\]\.resourceClaim\.claimName FieldValueNotFound/,
      { interfaces },
      { networks, resourceClaims: [] },
    ],
    [
      'a network beside one of Multus',
      /mixing Multus and DRA/,
      { interfaces: [...interfaces, { name: 'm', bridge: {} }] },
      { networks: [...networks, { name: 'm', multus: { networkName: 'x' } }] },
    ],
    [
      'a network that is no device',
      /"n" requires an SR-IOV or binding plugin/,
      { interfaces: [{ name: 'n', bridge: {} }] },
      { networks },
    ],
    [
      'a network without a request',
      /networks\[0\]\.resourceClaim\.requestName FieldValueRequired/,
      { interfaces },
      { networks: [{ name: 'n', resourceClaim: { claimName: 'c' } }] },
    ],
    [
      'a claim of two sources',
      /at most one of/,
      {},
      { resourceClaims: [{ ...claims[0], resourceClaimTemplateName: 'y' }] },
    ],
    ['a claim of none', /must specify one of/, {}, { resourceClaims: [{ name: 'c' }] }],
    ['two of a name', /resourceClaims\[1\]\.name FieldValueDuplicate/, {}, { resourceClaims: [...claims, ...claims] }],
    [
      'a name that is none',
      /resourceClaims\[0\]\.name FieldValueInvalid/,
      {},
      { resourceClaims: [{ ...claims[0], name: 'C' }] },
    ],
    [
      'a source that is none',
      /resourceClaims\[0\]\.resourceClaimName FieldValueInvalid/,
      {},
      { resourceClaims: [{ name: 'c', resourceClaimName: '../x' }] },
    ],
  ];
  for (const [what, message, devices, spec, gates] of table) {
    test(`is refused: ${what}`, () => {
      const found = refused(devices, spec, gates);
      assert.ok(
        found.some((each) => message.test(each)),
        found.join('\n'),
      );
    });
  }
});
