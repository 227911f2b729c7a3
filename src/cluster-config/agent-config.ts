import { parseQuantity } from '../api/index.ts';
import { memberAt } from '../base/index.ts';
import { type KubeVirt, vgaForEfi } from './active-kubevirt.ts';
import type { ConfigReader, ConfigReading } from './config-reader.ts';
import { readGates } from './feature-gates.ts';
import { type MigrationSection, readMigrationConfig } from './migration-config.ts';
import { type NodeConfig, readNodeConfig } from './node-config.ts';
import { readStatusConfig, type StatusConfig } from './status-config.ts';
import { whyUnusable } from './unusable-fields.ts';

export interface SmBios {
  readonly manufacturer?: string;
  readonly product?: string;
  readonly version?: string;
  readonly sku?: string;
  readonly family?: string;
}

/** Cluster-wide switches that travel with SyncVirtualMachine, in the proto's `VirtualMachineOptions.clusterConfig`. */
export interface ClusterFlags {
  readonly freePageReportingDisabled: boolean;
  readonly bochsDisplayForEfiGuests: boolean;
  readonly serialConsoleLogDisabled: boolean;
  readonly pciNumaAwareTopologyEnabled: boolean;
  readonly vgpuLiveMigrationEnabled: boolean;
  readonly graceIoVirtualizationEnabled: boolean;
}

/** What the agent's VMI loop reads. */
export interface ClusterConfig extends MigrationSection {
  readonly smbios?: SmBios;
  readonly memBalloonStatsPeriodSeconds: number;
  readonly clusterFlags: ClusterFlags;
  readonly useEmulation: boolean;
  /** Gate ImageVolume, on by default since 1.9. */
  readonly imageVolume: boolean;
  /** Gate PortRangesSpec. */
  readonly portRanges: boolean;
  /** Gate Plugins. */
  readonly plugins: boolean;
  readonly minimumReservePvcBytes: number;
  readonly tolerateLessPvcSpacePercent: number;
  /** Factor on what a guest costs beyond its memory. */
  readonly overheadRatio: number;
  readonly status: StatusConfig;
}

/** All of the agent's configuration: what the VMI loop reads and what the node's duties read. */
export interface AgentConfig extends ClusterConfig {
  readonly node: NodeConfig;
}

/** Shape of what has no unusable fields. */
interface Configuration {
  readonly smbios?: SmBios | null;
  readonly memBalloonStatsPeriod?: number | null;
  readonly additionalGuestMemoryOverheadRatio?: string | null;
  readonly developerConfiguration?: {
    readonly useEmulation?: boolean | null;
    readonly minimumReservePVCBytes?: number | null;
    readonly pvcTolerateLessSpaceUpToPercent?: number | null;
  } | null;
}

const defaultSmBios: SmBios = { family: 'KubeVirt', manufacturer: 'KubeVirt', product: 'None' };

/** What the agent of the node `nodeName` takes from the KubeVirt object. */
export function agentConfigReader(nodeName: string): ConfigReader<AgentConfig> {
  const toConfig = (given: unknown, annotations: Annotations): AgentConfig => ({
    ...toClusterConfig(given, annotations),
    node: readNodeConfig(given, nodeName),
  });
  return {
    defaults: toConfig({}, {}),
    read: (kubevirt: KubeVirt): ConfigReading<AgentConfig> => {
      const given = kubevirt.spec?.configuration ?? {};
      const problem = whyUnusable(given);
      if (problem !== undefined) return { kind: 'unusable', problem };
      return { kind: 'usable', config: toConfig(given, kubevirt.metadata.annotations ?? {}) };
    },
  };
}

type Annotations = Readonly<Record<string, string>>;

function toClusterConfig(given: unknown, annotations: Annotations): ClusterConfig {
  const configuration = given as Configuration;
  const developer = configuration.developerConfiguration ?? {};
  const gates = readGates(given);
  const isGiven = (...path: string[]) => memberAt(given, ...path) !== undefined;
  return {
    smbios: { ...defaultSmBios, ...configuration.smbios },
    memBalloonStatsPeriodSeconds: configuration.memBalloonStatsPeriod ?? 10,
    clusterFlags: {
      freePageReportingDisabled: isGiven('virtualMachineOptions', 'disableFreePageReporting'),
      bochsDisplayForEfiGuests: annotations[vgaForEfi] === undefined,
      serialConsoleLogDisabled: isGiven('virtualMachineOptions', 'disableSerialConsoleLog'),
      pciNumaAwareTopologyEnabled: gates.PCINUMAAwareTopology,
      vgpuLiveMigrationEnabled: gates.VGPULiveMigration,
      graceIoVirtualizationEnabled: gates.GraceIOVirtualization,
    },
    useEmulation: developer.useEmulation === true,
    imageVolume: gates.ImageVolume,
    portRanges: gates.PortRangesSpec,
    plugins: gates.Plugins,
    minimumReservePvcBytes: developer.minimumReservePVCBytes ?? 131_072,
    tolerateLessPvcSpacePercent: developer.pvcTolerateLessSpaceUpToPercent ?? 10,
    overheadRatio: parseQuantity(configuration.additionalGuestMemoryOverheadRatio) ?? 1,
    status: readStatusConfig(given, gates),
    ...readMigrationConfig(given, gates),
  };
}
