import { type LabelSelector, type LiveUpdateSettings, parseQuantity, readLabelSelector } from '../api/index.ts';
import { listOf, memberAt } from '../base/index.ts';
import type { KubeVirt } from './active-kubevirt.ts';
import type { ConfigReader, ConfigReading } from './config-reader.ts';
import { type ExporterPodSettings, readExporterPodSettings } from './export-settings.ts';
import { readGates } from './feature-gates.ts';
import { type LauncherPodSettings, readLauncherPodSettings } from './launcher-pod-settings.ts';
import { readLiveUpdate } from './live-update.ts';
import { bindingsOf, type NetworkBinding } from './migration-config.ts';
import { type MigrationLimits, readMigrationLimits, unusableMigrationLimits } from './migration-limits.ts';
import { type RateLimitSettings, rateLimitOf } from './rate-limit.ts';
import { whyUnusable } from './unusable-fields.ts';

/** What virt-controller takes from the KubeVirt object, with its defaults filled in. */
export interface ControllerConfig extends LiveUpdateSettings {
  readonly launcherImage: string;
  /** Empty: none. */
  readonly imagePullSecret: string;
  /** A launcher gives up when its guest has not started by then; up to 119 s more. */
  readonly qemuTimeoutSeconds: number;
  /** Group of the files of launcher pods. */
  readonly launcherGroup: number;
  /** Keys that VMIs get from the templates of their VMs, and pods from VMIs, also later; `a.io/*`: all that begins so. */
  readonly synced: { readonly annotations: readonly string[]; readonly labels: readonly string[] };
  readonly imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  readonly useEmulation: boolean;
  readonly memoryOvercommitPercent: number;
  readonly cpuAllocationRatio: number;
  readonly nodeSelectors: Readonly<Record<string, string>>;
  /** In hertz, for guests that need to be told one; undefined: the lowest of the cluster. */
  readonly minimumTscFrequency: number | undefined;
  readonly machineType: string;
  /** Where launchers find the firmware of guests, by their architecture. */
  readonly ovmfPaths: Readonly<Record<string, string>>;
  readonly cpuModel: string;
  readonly architecture: string;
  readonly evictionStrategy: string | undefined;
  readonly defaultInterfaceBinding: 'bridge' | 'masquerade';
  /** Network plug-ins by name. */
  readonly networkBindings: Readonly<Record<string, NetworkBinding>>;
  readonly diskMemoryLimitBytes: number;
  readonly launcherVerbosity: number;
  readonly overheadRatio: number;
  /** Namespaces in which each guest gets a limit of its CPUs. */
  readonly cpuLimitedNamespaces: LabelSelector | undefined;
  readonly defaultRuntimeClass: string;
  /** Of claims that keep TPMs and EFI variables; empty: the cluster's default. */
  readonly vmStateStorageClass: string;
  readonly launcherPods: LauncherPodSettings;
  readonly exporterImage: string;
  readonly exporterPods: ExporterPodSettings;
  /** User the launcher runs as: 107, or 0 with the gate Root. */
  readonly runtimeUser: number;
  /** Gate ImageVolume, on by default since 1.9: images are volumes of the pod, and not side containers. */
  readonly imageVolume: boolean;
  /** Volumes of a VM's template are plugged into its running VMI. The gate that was there before this one turns it off. */
  readonly declarativeHotplug: boolean;
  /** What becomes of a VM that refers to an instance type or preference. */
  readonly referencePolicy: ReferencePolicy;
  readonly migrations: MigrationLimits;
  /** Why no guest moves between two VMI objects, in words; undefined: it may. */
  readonly noDecentralisedMigration: string | undefined;
  /** Where virt-synchronization-controller of this cluster is, as virt-operator or an administrator says. */
  readonly synchronizationAddresses: readonly string[];
  /** Of requests to the API server. */
  readonly rateLimit: RateLimitSettings;
  /** Undefined: it is not said, `-v` counts. */
  readonly logVerbosity: number | undefined;
  /** Which VMs have the blocks recorded that their guests change, where the gate IncrementalBackup is on. */
  readonly changeTracking: { readonly isEnabled: boolean; readonly vms: LabelSelector | undefined };
  /** Fields that say something about VMs which nothing here does yet. */
  readonly unused: readonly string[];
  /** As given: of the server of health and metrics. */
  readonly tlsConfiguration: unknown;
}

/**
 * `reference`: it keeps revisions of them. `expand`: what they say is written into a VM that has no revision yet; `expandAll`: into
 * every VM.
 */
export type ReferencePolicy = 'reference' | 'expand' | 'expandAll';

/** What the command line says. */
export interface ControllerConfigBase {
  readonly launcherImage: string;
  /** `virt-exportserver` unless given. */
  readonly exporterImage?: string;
  readonly imagePullSecret?: string;
  readonly qemuTimeoutSeconds?: number;
  readonly launcherGroup?: number;
  readonly synced?: ControllerConfig['synced'];
  /** Nothing here carries the states of migrations between two VMI objects, whatever gates are on. */
  readonly lacksSynchronization?: boolean;
  /** For VMIs that say nothing, without the gate Root. */
  readonly runtimeUser: number;
  /** Kubernetes' name of this machine's architecture: `amd64`. */
  readonly architecture: string;
}

const notBuilt = ['changedBlockTrackingLabelSelectors.namespaceLabelSelector'] as const;

/** Upstream's (pkg/virt-config/virt-config.go). */
const defaultRateLimit: RateLimitSettings = { qps: 200, burst: 400 };

const perArchitecture: Readonly<Record<string, { machineType: string; ovmfPath: string }>> = {
  amd64: { machineType: 'q35', ovmfPath: '/usr/share/edk2/ovmf' },
  arm64: { machineType: 'virt', ovmfPath: '/usr/share/AAVMF' },
  s390x: { machineType: 's390-ccw-virtio', ovmfPath: '' },
};

function whyNoDecentralised(isGateOn: boolean, { lacksSynchronization }: ControllerConfigBase): string | undefined {
  if (lacksSynchronization) return 'no virt-synchronization-controller runs on a standalone node';
  return isGateOn ? undefined : 'the feature gate DecentralizedLiveMigration of the KubeVirt object is not on';
}

/** What virt-controller takes from the KubeVirt object. */
export function controllerConfigReader(base: ControllerConfigBase): ConfigReader<ControllerConfig> {
  return {
    defaults: toConfig({}, base, base.architecture),
    read: (kubevirt: KubeVirt): ConfigReading<ControllerConfig> => {
      const given = kubevirt.spec?.configuration ?? {};
      const problem = whyUnusable(given) ?? whyNotForPods(given) ?? whyNotForMigrations(given);
      if (problem !== undefined) return { kind: 'unusable', problem };
      return {
        kind: 'usable',
        config: {
          ...toConfig(given, base, kubevirt.status?.defaultArchitecture || base.architecture),
          ...exporterPods(given, memberAt(kubevirt, 'spec', 'certificateRotateStrategy')),
          synchronizationAddresses: listOf(kubevirt.status?.synchronizationAddresses).filter(
            (each): each is string => typeof each === 'string',
          ),
        },
      };
    },
  };
}

function exporterPods(given: unknown, strategy: unknown): Pick<ControllerConfig, 'exporterPods'> {
  return { exporterPods: readExporterPodSettings(readLauncherPodSettings(given, readGates(given)), strategy) };
}

/** Upstream removed the binding itself and still takes its name; no launcher could start what it makes. */
function whyNotForPods(configuration: unknown): string | undefined {
  if (memberAt(configuration, 'network', 'defaultNetworkInterface') !== 'slirp') return undefined;
  return 'spec.configuration of the KubeVirt object cannot be used: network.defaultNetworkInterface slirp does not exist any more: use masquerade or bridge';
}

function whyNotForMigrations(configuration: unknown): string | undefined {
  const fields = unusableMigrationLimits(configuration);
  if (fields.length === 0) return undefined;
  return `spec.configuration of the KubeVirt object cannot be used: ${fields.join(', ')} has a value that does not fit`;
}

/** `given` has no unusable fields. An empty text counts as not given. */
function toConfig(given: unknown, base: ControllerConfigBase, architecture: string): ControllerConfig {
  const at = (path: string) => memberAt(given, ...path.split('.'));
  const text = (path: string, fallback: string) => (at(path) as string | undefined) || fallback;
  const number = (path: string, fallback: number) => parseQuantity(at(path) as string | number) ?? fallback;
  const unknown = { machineType: 'q35', ovmfPath: '' };
  const forArchitecture = (name: string, field: 'machineType' | 'ovmfPath') => {
    const known = (perArchitecture[name] ?? unknown)[field];
    // What is said without an architecture is about the cluster's own.
    const usual = name === architecture ? text(field, known) : known;
    return text(`architectureConfiguration.${name}.${field}`, usual);
  };
  const gates = readGates(given);
  return {
    launcherImage: base.launcherImage,
    imagePullSecret: base.imagePullSecret ?? '',
    qemuTimeoutSeconds: base.qemuTimeoutSeconds ?? 240,
    launcherGroup: base.launcherGroup ?? 107,
    synced: base.synced ?? { annotations: [], labels: [] },
    imagePullPolicy: text('imagePullPolicy', 'IfNotPresent') as ControllerConfig['imagePullPolicy'],
    useEmulation: at('developerConfiguration.useEmulation') === true,
    memoryOvercommitPercent: number('developerConfiguration.memoryOvercommit', 100),
    cpuAllocationRatio: number('developerConfiguration.cpuAllocationRatio', 10),
    nodeSelectors: (at('developerConfiguration.nodeSelectors') ?? {}) as Readonly<Record<string, string>>,
    minimumTscFrequency: at('developerConfiguration.minimumClusterTSCFrequency') as number | undefined,
    machineType: forArchitecture(architecture, 'machineType'),
    ovmfPaths: Object.fromEntries(
      [architecture, ...Object.keys(perArchitecture)].map((name) => [name, forArchitecture(name, 'ovmfPath')]),
    ),
    cpuModel: text('cpuModel', architecture === 'arm64' ? 'host-passthrough' : 'host-model'),
    architecture,
    evictionStrategy: text('evictionStrategy', '') || undefined,
    defaultInterfaceBinding: text('network.defaultNetworkInterface', 'bridge') as 'bridge' | 'masquerade',
    networkBindings: bindingsOf(at('network.binding')),
    diskMemoryLimitBytes: number('developerConfiguration.diskVerification.memoryLimit', 2_097_152_000),
    launcherVerbosity: number('developerConfiguration.logVerbosity.virtLauncher', 2),
    overheadRatio: number('additionalGuestMemoryOverheadRatio', 1),
    cpuLimitedNamespaces: readLabelSelector(at('autoCPULimitNamespaceLabelSelector') ?? undefined),
    defaultRuntimeClass: text('defaultRuntimeClass', ''),
    vmStateStorageClass: text('vmStateStorageClass', ''),
    launcherPods: readLauncherPodSettings(given, gates),
    exporterImage: base.exporterImage ?? 'virt-exportserver',
    ...exporterPods(given, undefined),
    ...readLiveUpdate(given),
    runtimeUser: gates.Root ? 0 : base.runtimeUser,
    imageVolume: gates.ImageVolume,
    referencePolicy: text('instancetype.referencePolicy', 'reference') as ReferencePolicy,
    migrations: readMigrationLimits(given),
    noDecentralisedMigration: whyNoDecentralised(gates.DecentralizedLiveMigration, base),
    synchronizationAddresses: [],
    rateLimit: rateLimitOf(given, 'controllerConfiguration', defaultRateLimit),
    logVerbosity: at('developerConfiguration.logVerbosity.virtController') as number | undefined,
    tlsConfiguration: at('tlsConfiguration'),
    unused: notBuilt.filter((path) => (at(path) ?? undefined) !== undefined),
    changeTracking: {
      isEnabled: gates.IncrementalBackup,
      vms: readLabelSelector(at('changedBlockTrackingLabelSelectors.virtualMachineLabelSelector') ?? undefined),
    },
    declarativeHotplug: gates.DeclarativeHotplugVolumes && !gates.HotplugVolumes,
  };
}
