import type { Devices, Disk, DiskTarget, DomainSpecInput, Interface, MachineDevice, Quantity } from '../api/index.ts';

/** VirtualMachineInstancetype and VirtualMachinePreference, `instancetype.kubevirt.io/v1beta1` (`staging/src/kubevirt.io/api/instancetype/v1beta1/types.go`). */

type Cpu = NonNullable<DomainSpecInput['cpu']>;
type Firmware = NonNullable<DomainSpecInput['firmware']>;
type Input = NonNullable<Devices['inputs']>[number];

export interface InstancetypeSpec {
  nodeSelector?: Record<string, string>;
  schedulerName?: string;
  cpu: {
    /** vCPUs. */
    guest: number;
    model?: string;
    dedicatedCPUPlacement?: boolean;
    isolateEmulatorThread?: boolean;
    numa?: Cpu['numa'];
    realtime?: Cpu['realtime'];
    maxSockets?: number;
  };
  memory: {
    guest: Quantity;
    hugepages?: { pageSize?: string };
    /** By how much less than the guest has the pod asks for. */
    overcommitPercent?: number;
    maxGuest?: Quantity;
  };
  gpus?: MachineDevice[];
  hostDevices?: MachineDevice[];
  ioThreadsPolicy?: string;
  ioThreads?: DomainSpecInput['ioThreads'];
  launchSecurity?: DomainSpecInput['launchSecurity'];
  annotations?: Record<string, string>;
}

export interface DevicePreferences {
  preferredDisableHotplug?: boolean;
  preferredVirtualGPUOptions?: object;
  preferredSoundModel?: string;
  preferredInputBus?: Input['bus'];
  preferredInputType?: Input['type'];
  preferredDiskBus?: DiskTarget['bus'];
  preferredLunBus?: DiskTarget['bus'];
  preferredCdromBus?: DiskTarget['bus'];
  preferredDiskDedicatedIoThread?: boolean;
  preferredDiskCache?: Disk['cache'];
  preferredDiskIO?: Disk['io'];
  preferredDiskBlockSize?: Disk['blockSize'];
  preferredInterfaceModel?: string;
  preferredInterfaceMasquerade?: Interface['masquerade'];
  preferredPanicDeviceModel?: string;
}

/** The members that are only copied have no type here, see `apply-preference.ts`. */
export interface PreferenceSpec {
  clock?: { preferredClockOffset?: Pick<NonNullable<DomainSpecInput['clock']>, 'utc' | 'timezone'> };
  cpu?: {
    preferredCPUTopology?: string;
    spreadOptions?: { across?: string; ratio?: number };
    preferredCPUFeatures?: NonNullable<Cpu['features']>;
  };
  devices?: DevicePreferences;
  features?: { preferredAcpi?: object; preferredHyperv?: Record<string, unknown> };
  firmware?: {
    preferredUseBios?: boolean;
    preferredUseBiosSerial?: boolean;
    /** Of old preferences. */
    preferredUseEfi?: boolean;
    /** Of old preferences. */
    preferredUseSecureBoot?: boolean;
    preferredEfi?: NonNullable<Firmware['bootloader']>['efi'];
  };
  requirements?: { cpu?: { guest: number }; memory?: { guest: Quantity }; architecture?: string };
  annotations?: Record<string, string>;
  /** Of old preferences, in place of `cpu.spreadOptions.ratio`. */
  preferSpreadSocketToCoreRatio?: number;
}

/** `spec.instancetype` or `spec.preference` of a VM. */
export interface Matcher {
  name?: string;
  kind?: string;
  revisionName?: string;
  inferFromVolume?: string;
  inferFromVolumeFailurePolicy?: string;
}

/** `status.instancetypeRef` or `status.preferenceRef` of a VM. */
export interface StatusRef {
  name?: string;
  kind?: string;
  controllerRevisionRef?: { name?: string };
  inferFromVolume?: string;
  inferFromVolumeFailurePolicy?: string;
}

export type MatcherField = 'instancetype' | 'preference';

/** What a VM refers to, found. */
export interface InstancetypeAndPreference {
  readonly instancetype?: InstancetypeSpec;
  readonly preference?: PreferenceSpec;
}
