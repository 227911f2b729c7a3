import type { KubeObject } from '../../api/index.ts';
import { isRecord } from '../../base/index.ts';
import type { ClusterConfig, ClusterConfigSource, SmBios } from '../ports.ts';
import { isMigrationConfigUsable, readMigrationConfig } from './migration-config.ts';
import { readStatusConfig } from './status-config.ts';

export interface KubeVirt extends KubeObject {
  readonly spec?: { readonly configuration?: Configuration };
  readonly status?: { readonly phase?: string };
}

interface Configuration {
  readonly smbios?: SmBios;
  readonly memBalloonStatsPeriod?: number;
  readonly virtualMachineOptions?: {
    readonly disableFreePageReporting?: object;
    readonly disableSerialConsoleLog?: object;
  };
  readonly developerConfiguration?: {
    readonly featureGates?: readonly string[];
    readonly disabledFeatureGates?: readonly string[];
    readonly useEmulation?: boolean;
    readonly minimumReservePVCBytes?: number;
    readonly pvcTolerateLessSpaceUpToPercent?: number;
  };
}

/** Annotation on the CR that keeps VGA for EFI guests. */
const vgaForEfi = 'kubevirt.io/vga-display-efi-x86';

const defaultSmBios: SmBios = { family: 'KubeVirt', manufacturer: 'KubeVirt', product: 'None' };

/** The CR that counts: with a phase, not being deleted; of several the last one (spec 60 §7.1). */
export function activeKubeVirt(candidates: readonly KubeVirt[]): KubeVirt | undefined {
  return candidates.filter(({ status, metadata }) => status?.phase && !metadata.deletionTimestamp).at(-1);
}

/**
 * What the agent takes from the KubeVirt object, with its defaults. A value that cannot be used keeps the whole last good
 * configuration, at start the defaults.
 */
export function readClusterConfig(kubevirt: KubeVirt | undefined, last?: ClusterConfig): ClusterConfig {
  const given = kubevirt?.spec?.configuration;
  const configuration = given === undefined || given === null ? {} : (given as Configuration);
  if (!isReadable(configuration) || !isMigrationConfigUsable(configuration)) return last ?? toClusterConfig({}, {});
  const config = toClusterConfig(configuration, kubevirt?.metadata.annotations ?? {});
  return isUsable(config) ? config : (last ?? toClusterConfig({}, {}));
}

/** Parsed once per version of the object; read by every pass. */
export function clusterConfigSource(candidates: () => readonly KubeVirt[]): ClusterConfigSource {
  let seen: KubeVirt | undefined;
  let config: ClusterConfig | undefined;
  return {
    current: () => {
      const active = activeKubeVirt(candidates());
      if (!config || active !== seen) config = readClusterConfig(active, config);
      seen = active;
      return config;
    },
  };
}

function toClusterConfig(configuration: Configuration, annotations: Record<string, string>): ClusterConfig {
  const developer = configuration.developerConfiguration ?? {};
  const { disableFreePageReporting, disableSerialConsoleLog } = configuration.virtualMachineOptions ?? {};
  const gates = new Set(developer.featureGates ?? []);
  return {
    smbios: { ...defaultSmBios, ...configuration.smbios },
    memBalloonStatsPeriodSeconds: configuration.memBalloonStatsPeriod ?? 10,
    clusterFlags: {
      freePageReportingDisabled: disableFreePageReporting !== undefined,
      bochsDisplayForEfiGuests: annotations[vgaForEfi] === undefined,
      serialConsoleLogDisabled: disableSerialConsoleLog !== undefined,
      pciNumaAwareTopologyEnabled: gates.has('PCINUMAAwareTopology'),
      vgpuLiveMigrationEnabled: gates.has('VGPULiveMigration'),
      graceIoVirtualizationEnabled: gates.has('GraceIOVirtualization'),
    },
    useEmulation: developer.useEmulation === true,
    imageVolume: gates.has('ImageVolume') || !(developer.disabledFeatureGates ?? []).includes('ImageVolume'),
    minimumReservePvcBytes: developer.minimumReservePVCBytes ?? 131_072,
    tolerateLessPvcSpacePercent: developer.pvcTolerateLessSpaceUpToPercent ?? 10,
    status: readStatusConfig(configuration),
    ...readMigrationConfig(configuration),
  };
}

/** The CRD of a cluster may be permissive: what is taken apart below must have the shape for it. */
function isReadable(configuration: unknown): configuration is Configuration {
  if (!isRecord(configuration)) return false;
  const { smbios, virtualMachineOptions, developerConfiguration: developer } = configuration;
  if (
    ![smbios, virtualMachineOptions, developer].every((part) => part === undefined || part === null || isRecord(part))
  )
    return false;
  const { featureGates, disabledFeatureGates } = isRecord(developer) ? developer : {};
  const isWordy = Object.values(isRecord(smbios) ? smbios : {}).every((value) => typeof value === 'string');
  return (
    isWordy &&
    [featureGates, disabledFeatureGates].every((list) => (list ?? undefined) === undefined || Array.isArray(list))
  );
}

function isUsable(config: ClusterConfig): boolean {
  const { memBalloonStatsPeriodSeconds: period, minimumReservePvcBytes: reserve } = config;
  const percent = config.tolerateLessPvcSpacePercent;
  return (
    Number.isInteger(period) &&
    period >= 0 &&
    period <= 0xffff_ffff &&
    Number.isFinite(reserve) &&
    percent >= 0 &&
    percent <= 100
  );
}
