import { type Key, parseKey } from './keys.ts';
import type { Condition, KubeObject } from './kubernetes.ts';
import { annotations, labels } from './labels.ts';

/**
 * VirtualMachineInstance `kubevirt.io/v1` (`staging/src/kubevirt.io/api/core/v1/types.go`): the fields this project reads or writes. Objects from the API server
 * carry more, and are always changed in place so that nothing unknown is lost.
 */

export type Quantity = string | number;

export type VmiPhase =
  | ''
  | 'Pending'
  | 'Scheduling'
  | 'Scheduled'
  | 'Running'
  | 'Succeeded'
  | 'Failed'
  | 'WaitingForSync'
  | 'Unknown';

export interface FeatureState {
  enabled?: boolean;
}

export interface DiskTarget {
  bus?: 'virtio' | 'sata' | 'scsi' | 'usb';
  readonly?: boolean;
  tray?: 'open' | 'closed';
  pciAddress?: string;
  reservation?: boolean;
}

export interface Disk {
  name: string;
  disk?: DiskTarget;
  lun?: DiskTarget;
  cdrom?: DiskTarget;
  bootOrder?: number;
  serial?: string;
  tag?: string;
  cache?: 'none' | 'writethrough' | 'writeback';
  io?: 'native' | 'threads' | 'default';
  dedicatedIOThread?: boolean;
  shareable?: boolean;
  changedBlockTracking?: boolean;
  blockSize?: {
    custom?: { logical?: number; physical?: number; discardGranularity?: number };
    matchVolume?: FeatureState;
  };
  errorPolicy?: 'stop' | 'ignore' | 'report' | 'enospace';
}

export interface DhcpOptions {
  bootFileName?: string;
  tftpServerName?: string;
  ntpServers?: string[];
  privateOptions?: { option: number; value: string }[];
}

export interface Interface {
  name: string;
  model?: string;
  bridge?: object;
  masquerade?: object;
  sriov?: object;
  passtBinding?: object;
  binding?: { name: string };
  ports?: { name?: string; protocol?: string; port: number }[];
  /** With gate PortRangesSpec. */
  portRanges?: { protocol: string; start: number; end: number }[];
  macAddress?: string;
  pciAddress?: string;
  bootOrder?: number;
  acpiIndex?: number;
  tag?: string;
  dhcpOptions?: DhcpOptions;
  state?: 'up' | 'down' | 'absent';
}

export interface CloudInitSource {
  secretRef?: { name: string };
  userDataBase64?: string;
  userData?: string;
  networkDataSecretRef?: { name: string };
  networkDataBase64?: string;
  networkData?: string;
}

export interface Volume {
  name: string;
  containerDisk?: { image: string; path?: string; imagePullPolicy?: string; imagePullSecret?: string };
  cloudInitNoCloud?: CloudInitSource;
  cloudInitConfigDrive?: CloudInitSource;
  emptyDisk?: { capacity: Quantity };
  hostDisk?: { path: string; type: 'Disk' | 'DiskOrCreate'; capacity?: Quantity; shared?: boolean };
  persistentVolumeClaim?: { claimName: string; readOnly?: boolean; hotpluggable?: boolean };
  dataVolume?: { name: string; hotpluggable?: boolean };
  ephemeral?: { persistentVolumeClaim?: { claimName: string; readOnly?: boolean } };
  configMap?: { name?: string; optional?: boolean; volumeLabel?: string };
  secret?: { secretName?: string; optional?: boolean; volumeLabel?: string };
  serviceAccount?: { serviceAccountName?: string };
  downwardAPI?: object;
  sysprep?: object;
  downwardMetrics?: object;
  memoryDump?: { claimName: string; readOnly?: boolean; hotpluggable?: boolean };
  containerPath?: { path: string; readOnly?: boolean };
}

export interface Network {
  name: string;
  pod?: { vmNetworkCIDR?: string; vmIPv6NetworkCIDR?: string };
  multus?: { networkName: string; default?: boolean };
  resourceClaim?: { claimName?: string; requestName?: string };
}

export interface KernelBoot {
  kernelArgs?: string;
  container?: {
    image: string;
    imagePullSecret?: string;
    imagePullPolicy?: string;
    kernelPath?: string;
    initrdPath?: string;
  };
}

/** Given out by a device plug-in under a name, or by a claim. */
export interface MachineDevice {
  name: string;
  deviceName?: string;
  claimName?: string;
  requestName?: string;
  tag?: string;
  /** Of GPUs. */
  virtualGPUOptions?: { display?: { enabled?: boolean; ramFB?: FeatureState } };
}

export interface Devices {
  disks?: Disk[];
  interfaces?: Interface[];
  autoattachPodInterface?: boolean;
  autoattachGraphicsDevice?: boolean;
  autoattachSerialConsole?: boolean;
  autoattachMemBalloon?: boolean;
  autoattachInputDevice?: boolean;
  autoattachVSOCK?: boolean;
  logSerialConsole?: boolean;
  disableHotplug?: boolean;
  blockMultiQueue?: boolean;
  networkInterfaceMultiqueue?: boolean;
  useVirtioTransitional?: boolean;
  rng?: object;
  watchdog?: { name: string; i6300esb?: { action?: string }; diag288?: { action?: string } };
  inputs?: { name: string; type: string; bus?: string }[];
  tpm?: { enabled?: boolean; persistent?: boolean };
  video?: { type?: string };
  sound?: { name: string; model?: string };
  gpus?: MachineDevice[];
  hostDevices?: MachineDevice[];
  filesystems?: { name: string; virtiofs?: object }[];
  downwardMetrics?: object;
  clientPassthrough?: object;
  panicDevices?: { model?: string }[];
}

export interface DomainSpecInput {
  resources?: {
    requests?: Record<string, Quantity>;
    limits?: Record<string, Quantity>;
    overcommitGuestOverhead?: boolean;
  };
  cpu?: {
    cores?: number;
    sockets?: number;
    threads?: number;
    maxSockets?: number;
    model?: string;
    features?: { name: string; policy?: string }[];
    dedicatedCpuPlacement?: boolean;
    isolateEmulatorThread?: boolean;
    numa?: { guestMappingPassthrough?: object };
    realtime?: { mask?: string };
  };
  memory?: {
    guest?: Quantity;
    maxGuest?: Quantity;
    hugepages?: { pageSize?: string };
    reservedOverhead?: { addedOverhead?: Quantity; memLock?: string };
  };
  machine?: { type?: string };
  firmware?: {
    uuid?: string;
    serial?: string;
    bootloader?: { bios?: { useSerial?: boolean }; efi?: { secureBoot?: boolean; persistent?: boolean } };
    kernelBoot?: KernelBoot;
    acpi?: { slicNameRef?: string; msdmNameRef?: string };
  };
  clock?: {
    utc?: { offsetSeconds?: number };
    timezone?: string;
    timer?: Record<string, { present?: boolean; tickPolicy?: string; track?: string } | undefined>;
  };
  features?: Record<string, unknown> & { acpi?: FeatureState; apic?: FeatureState & { endOfInterrupt?: boolean } };
  ioThreadsPolicy?: string;
  ioThreads?: { supplementalPoolThreadCount?: number };
  chassis?: { manufacturer?: string; version?: string; serial?: string; asset?: string; sku?: string };
  launchSecurity?: LaunchSecurity;
  rebootPolicy?: 'Reboot' | 'Terminate';
  devices?: Devices;
}

/** Encryption of the guest's memory. On s390x one without members is Secure Execution. */
export interface LaunchSecurity {
  sev?: {
    policy?: { encryptedState?: boolean };
    /** Base64, of the guest's owner: what binds the guest to whom it trusts. */
    session?: string;
    dhCert?: string;
    attestation?: object;
  };
  snp?: object;
  tdx?: object;
}

/** A claim that the launcher pod has, by its own name or made from a template. */
export interface VmiResourceClaim {
  name: string;
  resourceClaimName?: string;
  resourceClaimTemplateName?: string;
}

export interface VmiSpec {
  domain: DomainSpecInput;
  /** Devices that drivers give out (dynamic resource allocation). */
  resourceClaims?: VmiResourceClaim[];
  volumes?: Volume[];
  networks?: Network[];
  terminationGracePeriodSeconds?: number;
  evictionStrategy?: string;
  startStrategy?: 'Paused';
  hostname?: string;
  subdomain?: string;
  nodeSelector?: Record<string, string>;
  architecture?: string;
  accessCredentials?: object[];
  [field: string]: unknown;
}

export interface VmiInterfaceStatus {
  name?: string;
  mac?: string;
  ipAddress?: string;
  ipAddresses?: string[];
  interfaceName?: string;
  podInterfaceName?: string;
  infoSource?: string;
  queueCount?: number;
  linkState?: string;
}

/** What the agent and the launcher know of a claim: they may not read claims themselves. */
export interface PersistentVolumeClaimInfo {
  claimName?: string;
  accessModes?: string[];
  volumeMode?: string;
  capacity?: Record<string, Quantity>;
  requests?: Record<string, Quantity>;
  preallocated?: boolean;
  /** A share of the claim, in decimal digits: `0.055`. */
  filesystemOverhead?: string;
  [field: string]: unknown;
}

export interface VolumeStatus {
  name: string;
  target: string;
  phase?: string;
  reason?: string;
  message?: string;
  size?: number;
  persistentVolumeClaimInfo?: PersistentVolumeClaimInfo;
  hotplugVolume?: { attachPodName?: string; attachPodUID?: string };
  [field: string]: unknown;
}

export interface MigrationState {
  migrationUid?: string;
  startTimestamp?: string;
  endTimestamp?: string;
  sourceNode?: string;
  sourcePod?: string;
  targetNode?: string;
  targetPod?: string;
  completed?: boolean;
  failed?: boolean;
  failureReason?: string;
  mode?: string;
  abortRequested?: boolean;
  abortStatus?: string;
  /** Written by the target's agent: where its listeners are, and TCP port → role. */
  targetNodeAddress?: string;
  targetDirectMigrationNodePorts?: Record<string, number>;
  targetNodeDomainDetected?: boolean;
  targetNodeDomainReadyTimestamp?: string;
  targetMemoryOverhead?: Quantity;
  /** Of a migration between two VMI objects: what the other side is told of the source, … */
  sourceState?: MigrationSourceState;
  /** … and of the target; a migration within a cluster may have a copy of some fields here, too. */
  targetState?: MigrationTargetState;
  [field: string]: unknown;
}

/** One end of a migration between two VMI objects. */
interface MigrationEnd {
  node?: string;
  pod?: string;
  /** Of the migration object on this end. */
  migrationUID?: string;
  virtualMachineInstanceUID?: string;
  domainName?: string;
  domainNamespace?: string;
  /** Where the synchronization controller of this end is; an end lacks its own. */
  syncAddress?: string;
  persistentStatePVCName?: string;
  selinuxContext?: string;
  [field: string]: unknown;
}

export interface MigrationSourceState extends MigrationEnd {
  /** Labels of the source's node that the target's node must fit. */
  nodeSelectors?: Record<string, string>;
}

export interface MigrationTargetState extends MigrationEnd {
  nodeAddress?: string;
  directMigrationNodePorts?: Record<string, number>;
  domainDetected?: boolean;
  domainReadyTimestamp?: string;
  attachmentPodUID?: string;
  cpuSet?: number[];
  nodeTopology?: string;
}

export interface VmiStatus {
  phase?: VmiPhase;
  /** In hertz; 0: no node tells one. */
  topologyHints?: { tscFrequency?: number };
  reason?: string;
  conditions?: Condition[];
  phaseTransitionTimestamps?: { phase: VmiPhase; phaseTransitionTimestamp: string }[];
  nodeName?: string;
  /** Pod UID → node name. */
  activePods?: Record<string, string>;
  interfaces?: VmiInterfaceStatus[];
  guestOSInfo?: Record<string, string>;
  migrationState?: MigrationState;
  /** The node that the VMI is to leave, as an eviction of its pod asked. */
  evacuationNodeName?: string;
  migrationMethod?: string;
  migrationTransport?: string;
  qosClass?: string;
  launcherContainerImageVersion?: string;
  volumeStatus?: VolumeStatus[];
  fsFreezeStatus?: string;
  virtualMachineRevisionName?: string;
  runtimeUser?: number;
  selinuxContext?: string;
  machine?: { type?: string };
  VSOCKCID?: number;
  currentCPUTopology?: { cores?: number; sockets?: number; threads?: number };
  memory?: { guestAtBoot?: Quantity; guestCurrent?: Quantity; guestRequested?: Quantity; memoryOverhead?: Quantity };
  [field: string]: unknown;
}

export interface VirtualMachineInstance extends KubeObject {
  spec: VmiSpec;
  status?: VmiStatus;
}

export interface VolumeRequest {
  addVolumeOptions?: {
    name: string;
    disk?: Omit<Disk, 'name'>;
    volumeSource?: Pick<Volume, 'persistentVolumeClaim' | 'dataVolume'>;
    [field: string]: unknown;
  };
  removeVolumeOptions?: { name: string; [field: string]: unknown };
}

export type RunStrategy = 'Always' | 'Halted' | 'Manual' | 'RerunOnFailure' | 'Once' | 'WaitAsReceiver';

export interface VolumeSnapshotStatus {
  name: string;
  enabled: boolean;
  /** Why it is not. */
  reason?: string;
}

export interface VirtualMachine extends KubeObject {
  spec: {
    running?: boolean;
    runStrategy?: RunStrategy;
    template: {
      metadata?: { labels?: Record<string, string>; annotations?: Record<string, string> };
      spec: VmiSpec;
    };
    [field: string]: unknown;
  };
  status?: {
    created?: boolean;
    ready?: boolean;
    printableStatus?: string;
    runStrategy?: RunStrategy;
    conditions?: Condition[];
    stateChangeRequests?: { action: 'Start' | 'Stop'; data?: Record<string, string>; uid?: string }[];
    startFailure?: { consecutiveFailCount?: number; lastFailedVMIUID?: string; retryAfterTimestamp?: string };
    observedGeneration?: number;
    desiredGeneration?: number;
    /** What `addvolume` and `removevolume` asked for; gone when the template has it. */
    volumeRequests?: VolumeRequest[];
    /** Of each volume of the template, and of what the VM's firmware keeps: whether a snapshot has it. */
    volumeSnapshotStatuses?: VolumeSnapshotStatus[];
    memoryDumpRequest?: {
      claimName: string;
      phase?: string;
      remove?: boolean;
      message?: string;
      endTimestamp?: string;
      [field: string]: unknown;
    };
    [field: string]: unknown;
  };
}

/** A migration of it has begun and is not over. */
export function isMigrating({ status }: VirtualMachineInstance): boolean {
  const { startTimestamp, endTimestamp } = status?.migrationState ?? {};
  return Boolean(startTimestamp) && !endTimestamp;
}

export function isFinal(vmi: VirtualMachineInstance): boolean {
  const phase = vmi.status?.phase;
  return phase === 'Succeeded' || phase === 'Failed';
}

export function isBeingDeleted(object: Pick<KubeObject, 'metadata'>): boolean {
  return Boolean(object.metadata.deletionTimestamp);
}

/** By hand-over label or by status. */
export function isOwnedByNode(vmi: VirtualMachineInstance, node: string): boolean {
  return vmi.metadata.labels?.[labels.nodeName] === node || vmi.status?.nodeName === node;
}

/** Its launcher does not run as root. */
export function isNonRoot(vmi: VirtualMachineInstance): boolean {
  return (vmi.status?.runtimeUser ?? 0) !== 0 || vmi.metadata.annotations?.[annotations.nonroot] !== undefined;
}

/** Its CPUs or its memory are its own: nothing is to be saved at its cost. */
export function isHighPerformance({ spec }: VirtualMachineInstance): boolean {
  const { cpu, memory } = spec.domain;
  return Boolean(cpu?.dedicatedCpuPlacement || cpu?.realtime || memory?.hugepages);
}

/** `spec.domain.cpu.dedicatedCpuPlacement`: the guest has CPUs of its own. Also of a VMI whose spec has a wrong shape. */
export function hasDedicatedCpus(vmi: VirtualMachineInstance | undefined): boolean {
  return vmi?.spec?.domain?.cpu?.dedicatedCpuPlacement === true;
}

/** For calls about a VMI that is no more: its launcher finds the domain by namespace and name. */
export function placeholderVmi(key: Key, uid: string): VirtualMachineInstance {
  const { namespace, name } = parseKey(key) ?? { namespace: '', name: key };
  return {
    apiVersion: 'kubevirt.io/v1',
    kind: 'VirtualMachineInstance',
    metadata: { namespace, name, uid },
    spec: { domain: {} },
  };
}
