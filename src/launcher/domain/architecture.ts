import type { VirtualMachineInstance } from '../../api/index.ts';

/** What differs between guests of different processors (upstream: `converter/arch`). */
export interface GuestArchitecture {
  /** In Kubernetes spelling. */
  readonly name: 'amd64' | 'arm64' | 's390x';
  /** In QEMU's. */
  readonly osArch: 'x86_64' | 'aarch64' | 's390x';
  readonly machineType: string;
  /** Parts that only PCs have: the port of VMware's tools, hints of KVM, the CPU feature mpx, the hole in PCI space. */
  readonly isPc: boolean;
  /** Else channel devices: no ROMs, no root ports, and one model for each kind of virtio device. */
  readonly hasPci: boolean;
  readonly hasSmbios: boolean;
  readonly hasAcpi: boolean;
  readonly canPlugCpus: boolean;
  /** Of a virtual machine that asks for no screen of its own choice. */
  readonly video: 'vga' | 'virtio';
  /** With or without something on it. */
  readonly usb: 'when used' | 'always' | 'never';
  readonly watchdog: 'i6300esb' | 'diag288' | undefined;
}

const amd64: GuestArchitecture = {
  name: 'amd64',
  osArch: 'x86_64',
  machineType: 'q35',
  isPc: true,
  hasPci: true,
  hasSmbios: true,
  hasAcpi: true,
  canPlugCpus: true,
  video: 'vga',
  usb: 'when used',
  watchdog: 'i6300esb',
};

const arm64: GuestArchitecture = {
  name: 'arm64',
  osArch: 'aarch64',
  machineType: 'virt',
  isPc: false,
  hasPci: true,
  hasSmbios: true,
  hasAcpi: true,
  canPlugCpus: false,
  video: 'virtio',
  usb: 'always',
  watchdog: undefined,
};

const s390x: GuestArchitecture = {
  name: 's390x',
  osArch: 's390x',
  machineType: 's390-ccw-virtio',
  isPc: false,
  hasPci: false,
  hasSmbios: false,
  hasAcpi: false,
  canPlugCpus: true,
  video: 'virtio',
  usb: 'never',
  watchdog: 'diag288',
};

const architectures: ReadonlyMap<string, GuestArchitecture> = new Map(
  [amd64, arm64, s390x].map((each) => [each.name, each]),
);

/** By its name in Kubernetes; undefined: none that guests are made for here. */
export function findArchitecture(name: string): GuestArchitecture | undefined {
  return architectures.get(name);
}

/** Of a guest; virt-api writes it into every VMI. */
export function architectureOf({ spec }: Pick<VirtualMachineInstance, 'spec'>): GuestArchitecture {
  return architectures.get(spec.architecture || 'amd64') ?? amd64;
}
