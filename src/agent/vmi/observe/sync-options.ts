import type { HostFacts, VirtualMachineInstance } from '../../../api/index.ts';
import type { ClusterConfig } from '../../../cluster-config/index.ts';
import type { HookSyncOptions, SyncOptions } from '../ports.ts';

/**
 * What travels with the launcher calls beside the VMI (pkg/virt-handler/options.go). Plugin objects (`pluginsJson`, gate
 * Plugins) are not supported by this agent: the field stays empty.
 */
export function syncOptionsOf(
  vmi: VirtualMachineInstance | undefined,
  config: ClusterConfig,
  host: HostFacts,
): SyncOptions {
  const volumes = vmi?.status?.volumeStatus ?? [];
  return {
    ...(config.smbios && { smbios: config.smbios }),
    memBalloonStatsPeriodSeconds: config.memBalloonStatsPeriodSeconds,
    preallocatedVolumes: volumes
      .filter(({ persistentVolumeClaimInfo }) => persistentVolumeClaimInfo?.preallocated)
      .map(({ name }) => name),
    ...(host.topology && { topology: host.topology }),
    clusterFlags: config.clusterFlags,
    interfaceDomainAttachment: byInterface(vmi, (given) => attachmentOf(given, config)),
    interfaceMigration: byInterface(vmi, (given) => bindingOf(given, config)?.migrationMethod),
    graceHostDeviceAliases: config.clusterFlags.graceIoVirtualizationEnabled ? graceAliases(vmi, config) : [],
  };
}

/**
 * The same with what hooks gave. They run right before each call that carries it, so a change of theirs needs no sync of its own
 * and the fingerprint is without it.
 */
export function withHostFacts(options: SyncOptions, given: readonly HookSyncOptions[]): SyncOptions {
  if (given.length === 0) return options;
  const preallocated = given.flatMap(({ preallocatedVolumes = [] }) => preallocatedVolumes);
  const attachments = given.map(({ interfaceDomainAttachment }) => interfaceDomainAttachment);
  return {
    ...options,
    preallocatedVolumes: [...new Set([...options.preallocatedVolumes, ...preallocated])],
    interfaceDomainAttachment: Object.assign({}, options.interfaceDomainAttachment, ...attachments),
  };
}

type Interface = NonNullable<NonNullable<VirtualMachineInstance['spec']['domain']['devices']>['interfaces']>[number];

function byInterface(
  vmi: VirtualMachineInstance | undefined,
  wordOf: (given: Interface) => string | undefined,
): Record<string, string> {
  const interfaces = vmi?.spec?.domain?.devices?.interfaces ?? [];
  const entries = interfaces.map((given) => [given.name, wordOf(given)] as const);
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => Boolean(entry[1])));
}

/** The launcher knows no `managedTap`: to the domain it is a tap device like any other. */
function attachmentOf(given: Interface, config: ClusterConfig): string | undefined {
  if (given.masquerade || given.bridge) return 'tap';
  const type = bindingOf(given, config)?.domainAttachmentType;
  return type === 'managedTap' ? 'tap' : type;
}

function bindingOf({ binding }: Interface, { networkBindings }: ClusterConfig) {
  const name: unknown = binding?.name;
  return typeof name === 'string' && Object.hasOwn(networkBindings, name) ? networkBindings[name] : undefined;
}

function graceAliases(vmi: VirtualMachineInstance | undefined, { graceResources }: ClusterConfig): string[] {
  const { gpus, hostDevices } = vmi?.spec?.domain?.devices ?? {};
  return [...aliasesOf('gpu', gpus, graceResources), ...aliasesOf('hostdevice', hostDevices, graceResources)].sort();
}

/** The VMI's shape is not checked here: anything but a list of named devices has no aliases. */
function aliasesOf(prefix: string, devices: unknown, resources: readonly string[]): string[] {
  if (!Array.isArray(devices)) return [];
  return devices
    .filter((device) => resources.includes(device?.deviceName) && typeof device?.name === 'string')
    .map((device) => `${prefix}-${device.name}`);
}
