import type { EfiFirmware, NetworkLink } from '../../host/index.ts';
import type { HostCell } from './cpu-pool.ts';
import type { ClaimedDevices, DeviceEnvironment } from './given-devices.ts';
import type { LauncherPaths } from './paths.ts';

export type DiskFormat = 'raw' | 'qcow2';
export type DiskCache = 'none' | 'writethrough' | 'writeback';

/** What one volume became on this machine; made by `prepareDisks`. */
export interface ResolvedDisk {
  /** What QEMU opens. */
  readonly path: string;
  readonly format: DiskFormat;
  readonly isBlock: boolean;
  /** True for generated CD images and read-only claims. */
  readonly readonly?: boolean;
  /** libvirt may not give it to QEMU's user while the guest runs, and to root afterwards: it is a file of the host. */
  readonly keepsOwner?: boolean;
  /** Below the overlay at `path`. */
  readonly backing?: { readonly path: string; readonly format: DiskFormat; readonly isBlock: boolean };
  /** This is the record of which blocks change; the guest's data are in this raw image. */
  readonly dataStore?: { readonly path: string; readonly isBlock: boolean };
  readonly cache?: DiskCache;
  readonly io?: 'native' | 'threads' | 'default';
  readonly blockSize?: { readonly logical: number; readonly physical: number; readonly discardGranularity?: number };
}

/** Files of `firmware.kernelBoot.container`, already found inside the image. */
export interface KernelBootFiles {
  readonly kernelPath?: string;
  readonly initrdPath?: string;
}

/** What the agent sends with a VMI (`pkg/virt-handler/options.go`); every field may be absent. */
export interface ConverterOptions {
  readonly smbios?: {
    readonly manufacturer?: string;
    readonly product?: string;
    readonly version?: string;
    readonly sku?: string;
    readonly family?: string;
  };
  readonly memBalloonStatsPeriodSeconds?: number;
  readonly preallocatedVolumes?: readonly string[];
  readonly clusterConfig?: {
    readonly freePageReportingDisabled?: boolean;
    readonly bochsDisplayForEfiGuests?: boolean;
    readonly serialConsoleLogDisabled?: boolean;
    readonly pciNumaAwareTopologyEnabled?: boolean;
  };
  /** Devices of the machine that want a virtual IOMMU of NVIDIA's Grace. */
  readonly graceHostDeviceAliases?: readonly string[];
  /** NUMA cells of the node; absent when the agent does not know them. */
  readonly topology?: readonly HostCell[];
  /** VMI interface name → `tap` or another attachment. */
  readonly interfaceDomainAttachment?: Readonly<Record<string, string>>;
}

/** Everything besides the VMI that decides the domain. Plain data: the same input gives the same document. */
export interface ConverterContext {
  /** `kvm`: guests run on /dev/kvm; `qemu`: software emulation. See `chooseHypervisor`. */
  readonly hypervisor: 'kvm' | 'qemu';
  /** This machine's, in Kubernetes spelling: guests of another one are refused. */
  readonly architecture: string;
  /** libvirt's, as it counts: 9_000_000 is 9.0.0. Absent: any. */
  readonly libvirtVersion?: number;
  readonly paths: LauncherPaths;
  readonly options?: ConverterOptions;
  /** CPUs that the pod may use. */
  readonly cpuSet: readonly number[];
  /** Volume name → file; from `prepareDisks`. */
  readonly disks: ReadonlyMap<string, ResolvedDisk>;
  readonly kernelBoot?: KernelBootFiles;
  /** `user`: QEMU's user networking for masquerade and bridge; `tap`: devices the agent made in the pod. */
  readonly network: 'user' | 'tap';
  /** Network devices of the pod by name; needed with `tap`. */
  readonly links?: ReadonlyMap<string, NetworkLink>;
  /** Containers of the pod change the domain before it is defined. */
  readonly hasHookSidecars?: boolean;
  /** Of the pod: which devices of the machine it was given. */
  readonly deviceEnvironment?: DeviceEnvironment;
  /** Of the pod: which devices its claims got. */
  readonly claimedDevices?: ClaimedDevices;
  /** PCI address by network, of networks that are devices of the machine. */
  readonly networkAddresses?: ReadonlyMap<string, string>;
  /** The guest comes from another node, without network devices of the machine: those of this pod are plugged in when it is here. */
  readonly isIncoming?: boolean;
  /** EFI files of this machine, from `findEfiFirmware`. */
  readonly efi?: EfiFirmware;
}
