import type { Devices, DomainSpecInput, VirtualMachineInstance, VmiSpec } from '../../../../src/api/index.ts';
import type { HostCell } from '../../../../src/launcher/domain/cpu-pool.ts';
import { type ConverterContext, launcherPaths, type ResolvedDisk } from '../../../../src/launcher/domain/index.ts';

/** A small VMI; the arguments are laid over it. */
export function vmiWith(
  domain: DomainSpecInput = {},
  spec: Partial<VmiSpec> = {},
  metadata: Partial<VirtualMachineInstance['metadata']> = {},
): VirtualMachineInstance {
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { name: 'testvm', namespace: 'default', uid: 'b3f5e2a0-5a2e-4a53-9f43-3a6a3c3b6f10', ...metadata },
    spec: { ...spec, domain: { memory: { guest: '64Mi' }, ...domain } },
  };
}

export const lean: Devices = {
  autoattachGraphicsDevice: false,
  autoattachSerialConsole: false,
  autoattachPodInterface: false,
  disableHotplug: true,
};

export function contextWith(overrides: Partial<ConverterContext> = {}): ConverterContext {
  return {
    hypervisor: 'qemu',
    architecture: 'amd64',
    paths: launcherPaths({ nonRoot: false }),
    cpuSet: [0, 1, 2, 3],
    disks: new Map(),
    network: 'user',
    ...overrides,
  };
}

export const overlay: ResolvedDisk = {
  path: '/var/run/kubevirt-ephemeral-disks/disk-data/root/disk.qcow2',
  format: 'qcow2',
  isBlock: false,
  cache: 'none',
  backing: { path: '/var/run/kubevirt/container-disks/disk_0.img', format: 'raw', isBlock: false },
};

const rawFile: ResolvedDisk = { path: '/data/disk.img', format: 'raw', isBlock: false, cache: 'writethrough' };

const efi = {
  secureBoot: { code: '/usr/share/OVMF/OVMF_CODE_4M.secboot.fd', vars: '/usr/share/OVMF/OVMF_VARS_4M.ms.fd' },
  plain: { code: '/usr/share/OVMF/OVMF_CODE_4M.fd', vars: '/usr/share/OVMF/OVMF_VARS_4M.fd' },
  searched: ['/usr/share/OVMF'],
};

const smbios = { family: 'KubeVirt', manufacturer: 'KubeVirt', product: 'None' };

/** A host of two cells with two cores each, of two threads: CPU 0 and 4 are siblings. */
export const twoCells: readonly HostCell[] = [
  [0, 1],
  [2, 3],
].map((cores, id) => ({
  id,
  cpus: cores.flatMap((cpu) => [cpu, cpu + 4].map((one) => ({ id: one, siblings: [cpu, cpu + 4] }))),
}));

export interface GoldenCase {
  readonly name: string;
  readonly vmi: VirtualMachineInstance;
  readonly context: ConverterContext;
}

function golden(name: string, vmi: VirtualMachineInstance, context: Partial<ConverterContext> = {}): GoldenCase {
  return { name, vmi, context: contextWith(context) };
}

const network = { networks: [{ name: 'default', pod: {} }] };

/** A guest with what differs from one of a PC. */
function onOtherMachine(architecture: 'arm64' | 's390x', domain: DomainSpecInput) {
  const vmi = vmiWith(
    {
      cpu: { model: 'host-passthrough', sockets: 1, maxSockets: 4 },
      devices: {
        rng: {},
        disks: [{ name: 'root', disk: { bus: 'virtio' } }],
        interfaces: [{ name: 'default', masquerade: {} }],
      },
      ...domain,
    },
    { ...network, architecture, volumes: [{ name: 'root', containerDisk: { image: 'i' } }] },
  );
  const plain = { code: '/usr/share/AAVMF/AAVMF_CODE.fd', vars: '/usr/share/AAVMF/AAVMF_VARS.fd' };
  const disks = new Map([['root', overlay]]);
  return [vmi, { architecture, hypervisor: 'kvm', disks, efi: { plain, searched: ['/usr/share/AAVMF'] } }] as const;
}

/** Documents that are kept as files and that a real libvirt must accept. */
export const goldenCases: readonly GoldenCase[] = [
  golden('minimal', vmiWith()),
  golden('lean', vmiWith({ devices: lean })),
  golden(
    'file-systems-and-figures',
    vmiWith(
      {
        devices: {
          ...lean,
          downwardMetrics: {},
          disks: [{ name: 'figures', disk: { bus: 'virtio' } }],
          filesystems: [{ name: 'share', virtiofs: {} }],
        },
      },
      {
        volumes: [
          { name: 'share', persistentVolumeClaim: { claimName: 'claim' } },
          { name: 'figures', downwardMetrics: {} },
        ],
      },
    ),
    { disks: new Map([['figures', { ...rawFile, readonly: true }]]) },
  ),
  golden(
    'devices-of-the-machine',
    vmiWith(
      {
        devices: {
          disableHotplug: true,
          hostDevices: [
            { name: 'card', deviceName: 'vendor.com/card' },
            { name: 'desk', deviceName: 'vendor.com/desk' },
          ],
          gpus: [
            { name: 'gpu', deviceName: 'vendor.com/gpu' },
            { name: 'part', deviceName: 'vendor.com/vgpu' },
          ],
          interfaces: [{ name: 'fast', sriov: {}, bootOrder: 1, pciAddress: '0000:00:09.0' }],
        },
      },
      { networks: [{ name: 'fast', multus: { networkName: 'fast' } }] },
    ),
    {
      deviceEnvironment: {
        PCI_RESOURCE_VENDOR_COM_CARD: '0000:81:01.0',
        PCI_RESOURCE_VENDOR_COM_GPU: '0000:65:00.0',
        MDEV_PCI_RESOURCE_VENDOR_COM_VGPU: '5f5f7b4a-1111-4a6b-9a0c-0c5a7a0e0001',
        USB_RESOURCE_VENDOR_COM_DESK: '1:4,1:5',
      },
      networkAddresses: new Map([['fast', '0000:04:02.5']]),
    },
  ),
  golden(
    'devices-of-claims',
    vmiWith(
      {
        devices: {
          disableHotplug: true,
          hostDevices: [{ name: 'card', claimName: 'c', requestName: 'card' }],
          gpus: [{ name: 'part', claimName: 'c', requestName: 'part' }],
          interfaces: [{ name: 'fast', sriov: {} }],
        },
      },
      {
        resourceClaims: [{ name: 'c', resourceClaimName: 'mine' }],
        networks: [{ name: 'fast', resourceClaim: { claimName: 'c', requestName: 'nic' } }],
      },
    ),
    {
      claimedDevices: new Map([
        ['c/card', { kind: 'pci', addresses: ['0000:81:01.0'] }],
        ['c/part', { kind: 'mdev', addresses: ['5f5f7b4a-1111-4a6b-9a0c-0c5a7a0e0001'] }],
        ['c/nic', { kind: 'pci', addresses: ['0000:04:02.5'] }],
      ]),
    },
  ),
  golden(
    'on-the-root-complex',
    vmiWith(
      {
        firmware: { acpi: { slicNameRef: 'licence' } },
        devices: {
          rng: {},
          watchdog: { name: 'dog', i6300esb: {} },
          disks: [{ name: 'root', disk: { bus: 'virtio' } }],
          hostDevices: [{ name: 'card', deviceName: 'vendor.com/card' }],
        },
      },
      {
        volumes: [
          { name: 'root', containerDisk: { image: 'registry/fedora:40' } },
          { name: 'licence', secret: { secretName: 'licence' } },
        ],
      },
      {
        annotations: {
          'kubevirt.io/placePCIDevicesOnRootComplex': 'true',
          'kubevirt.io/ignitiondata': '{"ignition":{"version":"3.4.0"}}',
        },
      },
    ),
    {
      disks: new Map([
        ['root', overlay],
        ['licence', rawFile],
      ]),
      deviceEnvironment: { PCI_RESOURCE_VENDOR_COM_CARD: '0000:81:01.0' },
    },
  ),
  golden(
    'container-disk-cloud-init',
    vmiWith(
      {
        devices: {
          rng: {},
          disks: [
            { name: 'root', disk: { bus: 'virtio' }, bootOrder: 1 },
            { name: 'seed', disk: { bus: 'virtio' }, serial: 'SEED-1' },
          ],
          interfaces: [{ name: 'default', masquerade: {}, ports: [{ port: 22 }] }],
        },
        resources: { requests: { memory: '128Mi', cpu: '1500m' } },
        memory: {},
      },
      {
        ...network,
        volumes: [
          { name: 'root', containerDisk: { image: 'registry/fedora:40' } },
          { name: 'seed', cloudInitNoCloud: { userData: '#cloud-config' } },
        ],
      },
    ),
    {
      disks: new Map([
        ['root', overlay],
        ['seed', rawFile],
      ]),
      options: { smbios },
    },
  ),
  golden(
    'dedicated-cpus',
    vmiWith(
      {
        cpu: {
          ...{ sockets: 1, cores: 2, threads: 2, model: 'host-passthrough' },
          ...{ dedicatedCpuPlacement: true, isolateEmulatorThread: true },
        },
        ioThreadsPolicy: 'auto',
        devices: {
          ...lean,
          disks: [
            { name: 'root', disk: { bus: 'virtio' } },
            { name: 'data', disk: { bus: 'virtio' }, dedicatedIOThread: true },
          ],
        },
      },
      {
        volumes: [
          { name: 'root', containerDisk: { image: 'i' } },
          { name: 'data', containerDisk: { image: 'i' } },
        ],
      },
    ),
    {
      cpuSet: [1, 2, 3, 5, 6],
      options: { topology: twoCells },
      disks: new Map([
        ['root', overlay],
        ['data', rawFile],
      ]),
    },
  ),
  golden(
    'io-thread-pool',
    vmiWith(
      {
        ioThreadsPolicy: 'supplementalPool',
        ioThreads: { supplementalPoolThreadCount: 2 },
        features: { kvm: {} },
        devices: {
          ...lean,
          disks: [
            { name: 'root', disk: { bus: 'virtio' } },
            { name: 'data', disk: { bus: 'virtio' }, dedicatedIOThread: true },
            { name: 'claim', lun: { bus: 'scsi', reservation: true } },
          ],
        },
      },
      {
        volumes: ['root', 'data', 'claim'].map((name) => ({ name, containerDisk: { image: 'i' } })),
      },
    ),
    {
      libvirtVersion: 12_000_000,
      disks: new Map([
        ['root', overlay],
        ['data', rawFile],
        ['claim', { ...rawFile, path: '/dev/claim', isBlock: true }],
      ]),
    },
  ),
  golden(
    'realtime-numa',
    vmiWith({
      cpu: {
        ...{ sockets: 3, cores: 1, threads: 1, model: 'host-passthrough', dedicatedCpuPlacement: true },
        ...{ numa: { guestMappingPassthrough: {} }, realtime: { mask: '0-1' } },
      },
      memory: { guest: '70Mi', hugepages: { pageSize: '2Mi' } },
      devices: lean,
    }),
    { cpuSet: [2, 3, 4], options: { topology: twoCells } },
  ),
  golden(
    'kernel-boot',
    vmiWith({
      firmware: {
        uuid: '5D307CA9-B3EF-428C-8861-06E72D69F223',
        serial: 'e4686d2c',
        kernelBoot: {
          container: { image: 'kernel:1', kernelPath: '/boot/vmlinuz', initrdPath: '/boot/initramfs.gz' },
          kernelArgs: 'console=ttyS0 init="/bin/sh" x=<&>\'',
        },
      },
      features: { acpi: {} },
      devices: { autoattachGraphicsDevice: false },
    }),
    {
      kernelBoot: {
        kernelPath: '/var/run/kubevirt/container-disks/kernel-boot/vmlinuz',
        initrdPath: '/var/run/kubevirt/container-disks/kernel-boot/initramfs.gz',
      },
    },
  ),
  golden(
    'all-disks',
    vmiWith(
      {
        ioThreadsPolicy: 'auto',
        devices: {
          blockMultiQueue: true,
          disks: [
            { name: 'host', disk: { bus: 'virtio' }, cache: 'writeback', errorPolicy: 'report', io: 'threads' },
            { name: 'empty', disk: { bus: 'scsi' } },
            { name: 'stick', disk: { bus: 'usb', readonly: true } },
            { name: 'claim', lun: { bus: 'scsi' } },
            { name: 'cd', cdrom: { bus: 'sata', tray: 'open' } },
            { name: 'drive', cdrom: {} },
            {
              name: 'fast',
              disk: { bus: 'virtio' },
              dedicatedIOThread: true,
              blockSize: { custom: { logical: 4096, physical: 4096 } },
            },
            { name: 'shared', disk: { bus: 'virtio', pciAddress: '0000:01:00.0' }, cache: 'none', shareable: true },
          ],
        },
      },
      {
        volumes: [
          { name: 'host', hostDisk: { path: '/data/disk.img', type: 'DiskOrCreate', capacity: '1Gi' } },
          { name: 'empty', emptyDisk: { capacity: '1Gi' } },
          { name: 'stick', emptyDisk: { capacity: '1Gi' } },
          { name: 'claim', persistentVolumeClaim: { claimName: 'claim' } },
          { name: 'cd', containerDisk: { image: 'virtio-win' } },
          { name: 'fast', emptyDisk: { capacity: '1Gi' } },
          { name: 'shared', hostDisk: { path: '/data/shared.img', type: 'Disk' } },
          { name: 'unused', emptyDisk: { capacity: '1Gi' } },
        ],
      },
    ),
    {
      disks: new Map<string, ResolvedDisk>([
        ['host', rawFile],
        ['empty', { path: '/empty.qcow2', format: 'qcow2', isBlock: false, cache: 'none' }],
        ['stick', { path: '/stick.qcow2', format: 'qcow2', isBlock: false }],
        ['claim', { path: '/dev/claim', format: 'raw', isBlock: true, cache: 'none', io: 'native' }],
        ['cd', overlay],
        ['fast', { path: '/fast.qcow2', format: 'qcow2', isBlock: false }],
        ['shared', { path: '/shared.img', format: 'raw', isBlock: false, cache: 'none' }],
        ['unused', { path: '/unused.qcow2', format: 'qcow2', isBlock: false }],
      ]),
      options: { preallocatedVolumes: ['host'] },
    },
  ),
  golden(
    'tap-network',
    vmiWith(
      {
        devices: {
          networkInterfaceMultiqueue: true,
          interfaces: [
            { name: 'default', masquerade: {}, macAddress: '02-AB-00-00-00-01' },
            { name: 'blue', bridge: {}, model: 'e1000e', bootOrder: 1, state: 'down' },
            { name: 'red', bridge: {}, state: 'absent' },
          ],
        },
        cpu: { cores: 2 },
      },
      {
        networks: [
          { name: 'default', pod: {} },
          { name: 'blue', multus: { networkName: 'blue' } },
          { name: 'red', multus: { networkName: 'red' } },
        ],
      },
    ),
    {
      network: 'tap',
      links: new Map([
        ['eth0', { name: 'eth0', mac: '02:00:00:00:00:aa', mtu: 1450 }],
        ['tap0', { name: 'tap0', mtu: 1450 }],
        ['pod16477688c0e', { name: 'pod16477688c0e', mac: '02:00:00:00:00:bb', mtu: 9000 }],
        ['tap16477688c0e', { name: 'tap16477688c0e' }],
      ]),
    },
  ),
  golden(
    'cpu-and-memory',
    vmiWith({
      cpu: {
        sockets: 1,
        cores: 2,
        threads: 1,
        maxSockets: 4,
        model: 'Nehalem',
        features: [{ name: 'aes' }, { name: 'vmx', policy: 'disable' }],
      },
      memory: { guest: '1Gi', maxGuest: '4Gi' },
      devices: lean,
    }),
  ),
  golden('host-passthrough', vmiWith({ cpu: { model: 'host-passthrough' }, devices: lean })),
  golden(
    'huge-pages',
    vmiWith({ memory: { guest: '64Mi', hugepages: { pageSize: '2Mi' } }, cpu: { cores: 2 }, devices: lean }),
  ),
  golden('efi-secure', vmiWith({ firmware: { bootloader: { efi: {} } } }), {
    efi,
    options: { clusterConfig: { bochsDisplayForEfiGuests: true } },
  }),
  golden('efi-plain', vmiWith({ firmware: { bootloader: { efi: { secureBoot: false } } }, machine: { type: 'q35' } }), {
    efi,
  }),
  golden(
    'devices',
    vmiWith(
      {
        rebootPolicy: 'Terminate',
        chassis: { manufacturer: 'ACME', asset: 'A & B' },
        devices: {
          rng: {},
          watchdog: { name: 'dog', i6300esb: { action: 'poweroff' } },
          inputs: [
            { name: 'pen', type: 'tablet', bus: 'virtio' },
            { name: 'tablet', type: 'tablet' },
          ],
          sound: { name: 'audio', model: 'ac97' },
          panicDevices: [{ model: 'isa' }],
          clientPassthrough: {},
          useVirtioTransitional: true,
          video: { type: 'virtio' },
          logSerialConsole: false,
        },
      },
      { startStrategy: 'Paused' },
    ),
    { options: { memBalloonStatsPeriodSeconds: 0, clusterConfig: { freePageReportingDisabled: true } } },
  ),
  golden(
    'features-and-clock',
    vmiWith({
      devices: lean,
      features: {
        acpi: { enabled: false },
        apic: { endOfInterrupt: true },
        kvm: { hidden: true },
        hyperv: {
          relaxed: {},
          vapic: {},
          vpindex: { enabled: true },
          synic: {},
          synictimer: { direct: { enabled: true } },
          spinlocks: { spinlocks: 8191 },
          vendorid: { vendorid: 'acme' },
          ipi: { enabled: false },
        },
      },
      clock: {
        utc: {},
        timer: {
          hpet: { present: false },
          pit: { tickPolicy: 'delay' },
          rtc: { tickPolicy: 'catchup', track: 'guest' },
          hyperv: {},
          kvm: { present: false },
        },
      },
    }),
  ),
  golden(
    'clock-offset',
    vmiWith({ devices: lean, clock: { utc: { offsetSeconds: 3600 }, timezone: 'Europe/Vienna' } }),
  ),
  golden(
    'encrypted-sev',
    vmiWith(
      {
        devices: {
          rng: {},
          disks: [{ name: 'root', disk: { bus: 'virtio' } }],
          interfaces: [{ name: 'default', masquerade: {}, bootOrder: 1 }],
        },
        firmware: { bootloader: { efi: { secureBoot: false } } },
        launchSecurity: {
          sev: { policy: { encryptedState: true }, session: 'c2Vzc2lvbg==', dhCert: 'Y2VydA==', attestation: {} },
        },
      },
      { ...network, startStrategy: 'Paused', volumes: [{ name: 'root', containerDisk: { image: 'i' } }] },
    ),
    { hypervisor: 'kvm', efi: { ...efi, sev: efi.plain }, disks: new Map([['root', overlay]]) },
  ),
  golden(
    'encrypted-snp',
    vmiWith({
      devices: { ...lean, rng: {} },
      firmware: { bootloader: { efi: { secureBoot: false } } },
      launchSecurity: { snp: {} },
    }),
    { hypervisor: 'kvm', efi: { ...efi, snp: '/usr/share/ovmf/OVMF.amdsev.fd' } },
  ),
  golden(
    'encrypted-tdx',
    vmiWith(
      {
        devices: lean,
        features: { acpi: {} },
        firmware: { bootloader: { efi: {} } },
        launchSecurity: { tdx: {} },
      },
      {},
      { annotations: { 'kubevirt.io/qgs-socket-path': '/var/run/tdx-qgs/qgs.socket' } },
    ),
    { hypervisor: 'kvm', efi: { ...efi, tdxSecureBoot: '/usr/share/ovmf/OVMF.inteltdx.secboot.fd' } },
  ),
  golden('arm64', ...onOtherMachine('arm64', { firmware: { bootloader: { efi: { secureBoot: false } } } })),
  golden('s390x', ...onOtherMachine('s390x', { features: { acpi: { enabled: false } } })),
  golden('s390x-secure-execution', ...onOtherMachine('s390x', { launchSecurity: {} })),
  golden('clock-timezone', vmiWith({ devices: lean, clock: { timezone: 'Europe/Vienna' } })),
];
