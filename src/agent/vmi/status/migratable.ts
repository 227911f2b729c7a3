import { annotations, tscFrequencyOf, tscNeed, type VirtualMachineInstance } from '../../../api/index.ts';
import { isRecord } from '../../../base/index.ts';
import type { StatusFacts } from '../observe/index.ts';
import { classifyVolumes } from './migration-volumes.ts';

/** What forbids a live migration; reasons and texts are upstream's (pkg/virt-handler/vm.go): tools match on them. */
export interface MigrationObstacle {
  readonly reason: string;
  readonly text: string;
}

export interface MigrationFacts {
  readonly nodeName: string;
  /** Gate VGPULiveMigration. */
  readonly vgpuMigration: boolean;
  /** Why no migration can begin from this node whatever the guest; undefined: it can. */
  readonly nodeObstacle: string | undefined;
  readonly status: StatusFacts;
}

export interface Migratability {
  readonly method: 'BlockMigration' | 'LiveMigration';
  readonly live: MigrationObstacle | undefined;
  /** All of them. */
  readonly storage: readonly MigrationObstacle[];
}

type Check = (vmi: VirtualMachineInstance, facts: MigrationFacts) => MigrationObstacle | undefined;

/** In the order in which pkg/virt-handler/vm.go checks. */
export function classifyMigration(vmi: VirtualMachineInstance, facts: MigrationFacts): Migratability {
  const volumes = classifyVolumes(vmi);
  const first = firstOf(forLive, vmi, facts);
  const disks = volumes.obstacle && { reason: 'DisksNotLiveMigratable', text: volumes.obstacle };
  const node = facts.nodeObstacle && { reason: nodeReason, text: facts.nodeObstacle };
  const storage = forStorage.flatMap((check) => check(vmi, facts) ?? []);
  return {
    method: volumes.method,
    // What upstream would say comes first: with other agents on other nodes it is still true.
    live: first ?? (disks || node || undefined),
    storage: storage.length === 0 && node ? [node] : storage,
  };
}

const nodeReason = 'NodeAgentNotLiveMigratable';

function firstOf(
  checks: readonly Check[],
  vmi: VirtualMachineInstance,
  facts: MigrationFacts,
): MigrationObstacle | undefined {
  for (const check of checks) {
    const obstacle = check(vmi, facts);
    if (obstacle) return obstacle;
  }
  return undefined;
}

const when = (is: unknown, reason: string, text: string): MigrationObstacle | undefined =>
  is ? { reason, text } : undefined;

const interfaces: Check = (vmi, facts) => {
  const text = interfaceObstacle(vmi, facts.status.config.migratableBindings);
  return when(text, 'InterfaceNotLiveMigratable', text ?? '');
};

/** As pkg/network/vmispec has it: only the pod network's binding decides. */
function interfaceObstacle(vmi: VirtualMachineInstance, bindings: readonly string[]): string | undefined {
  const attached = vmi.spec.domain?.devices?.interfaces ?? [];
  const network = vmi.spec.networks?.find(({ pod }) => pod);
  if (attached.length === 0 || !network) return undefined;
  const primary = attached.find(({ name }) => name === network.name);
  if (!primary) return `no primary interface found for network ${network.name}`;
  if (primary.masquerade || primary.passtBinding) return undefined;
  const isAllowed = vmi.metadata.annotations?.[annotations.allowPodBridgeMigration] !== undefined;
  if (primary.bridge && isAllowed) return undefined;
  if (primary.binding && bindings.includes(primary.binding.name)) return undefined;
  return 'cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network';
}

const cpuModel: Check = (vmi, { nodeName, status }) =>
  when(
    vmi.spec.domain?.cpu?.model === 'host-model' && status.hostModel === '',
    'CPUModeLiveMigratable',
    `the node "${nodeName}" does not allow migration with host-model`,
  );

const hostDevices: Check = (vmi, { vgpuMigration, status }) => {
  const reason = 'HostDeviceNotLiveMigratable';
  const { hostDevices: generic = [], gpus = [] } = vmi.spec.domain?.devices ?? {};
  if (generic.length > 0) return { reason, text: 'VMI specifies non-migratable generic PCI host device' };
  if (gpus.length > 1) return { reason, text: 'VMI specifies too many GPUs' };
  const [gpu] = gpus;
  if (!gpu) return undefined;
  if (!vgpuMigration) return { reason, text: 'VMI specifies a GPU but feature gate VGPULiveMigration is not enabled' };
  const isMediated = gpu.deviceName !== undefined && status.config.mediatedDevices.includes(gpu.deviceName);
  return when(!isMediated, reason, 'VMI specifies non-migratable GPU device');
};

const sev: Check = ({ spec }) => {
  const security = spec.domain?.launchSecurity;
  return when(security?.sev || security?.snp, 'SEVNotLiveMigratable', 'VMI uses SEV');
};

const tdx: Check = ({ spec }) => when(spec.domain?.launchSecurity?.tdx, 'TDXNotLiveMigratable', 'VMI uses TDX');

const secureExecution: Check = ({ spec }, { status }) =>
  when(
    spec.domain?.launchSecurity && (spec.architecture || status.architecture) === 's390x',
    'SecureExecutionNotLiveMigratable',
    'VMI uses Secure Execution',
  );

const tscFrequency: Check = (vmi) => {
  const need = tscFrequencyOf(vmi) === undefined ? tscNeed(vmi) : undefined;
  const reason = 'NoTSCFrequencyNotLiveMigratable';
  // Upstream's controller starts no such guest without one; QEMU moves none.
  const invariant = 'VMIs with the CPU feature invtsc cannot migrate when TSC Frequency is not exposed on the cluster';
  if (need === 'boot') return when(true, reason, invariant);
  return when(
    need === 'migration',
    reason,
    'HyperV Reenlightenment VMIs cannot migrate when TSC Frequency is not exposed on the cluster: guest timers might be inconsistent',
  );
};

const hypervPassthrough: Check = ({ spec }) =>
  when(
    isOn(spec.domain?.features?.hypervPassthrough),
    'HypervPassthroughNotLiveMigratable',
    'VMI uses hyperv passthrough',
  );

const persistentReservation: Check = ({ spec }) =>
  when(
    spec.domain?.devices?.disks?.some(({ lun }) => lun?.reservation === true),
    'PersistentReservationNotLiveMigratable',
    'VMI uses SCSI persistent reservation',
  );

const sevOrTdx: Check = (vmi, facts) => sev(vmi, facts) ?? tdx(vmi, facts);

const forLive: readonly Check[] = [
  interfaces,
  cpuModel,
  hostDevices,
  sev,
  tdx,
  secureExecution,
  tscFrequency,
  hypervPassthrough,
];
const forStorage: readonly Check[] = [
  interfaces,
  cpuModel,
  hostDevices,
  sevOrTdx,
  persistentReservation,
  tscFrequency,
  hypervPassthrough,
];

/** A feature is on when it is there and does not say otherwise. Upstream's process dies on one without the field. */
function isOn(feature: unknown): boolean {
  return isRecord(feature) && feature.enabled !== false;
}
