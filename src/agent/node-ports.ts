import type { KubeObject } from '../api/index.ts';
import type { ClusterConfig } from './ports.ts';

/** What the agent reads of its own Node: labels and annotations, which others write, too. */
export type Node = KubeObject;

/** This node's object, from a watch of one object. */
export interface OwnNode {
  /** Undefined: not read yet, or deleted. Shared: copy before changing. */
  readonly current: Node | undefined;
  /** Called after each change; the returned function ends it. */
  onChange(listener: () => void): () => void;
}

/** The gates that the agent reads itself (spec 60 §7.3). */
export type GateName =
  | 'ConfigurableHypervisor'
  | 'CPUManager'
  | 'CrossArchitectureVirtualization'
  | 'DisableMDEVConfiguration'
  | 'GraceIOVirtualization'
  | 'ImageVolume'
  | 'IncrementalBackup'
  | 'IOMMUFD'
  | 'KubevirtSeccompProfile'
  | 'MigrationStallDetection'
  | 'PasstBinding'
  | 'PCINUMAAwareTopology'
  | 'Plugins'
  | 'PortRangesSpec'
  | 'VGPULiveMigration'
  | 'VMStatsCollector'
  | 'VSOCK'
  | 'WorkloadEncryptionSEV'
  | 'WorkloadEncryptionTDX';

export interface RateLimitSettings {
  readonly qps: number;
  readonly burst: number;
}

/** `LabelSelector` of Kubernetes, readable throughout. */
export interface LabelSelector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly {
    readonly key: string;
    readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    readonly values?: readonly string[];
  }[];
}

/** What the node's duties read of the KubeVirt object, with its defaults (spec 60 §7.2). Plain data. */
export interface NodeConfig {
  /** On or off, by the rule of spec 60 §7.3. */
  readonly gates: Readonly<Record<GateName, boolean>>;
  /** Of this node: its own value wins over that of all agents. Undefined: nobody has said, `-v` counts. */
  readonly logVerbosity: number | undefined;
  /** Of requests to the API server. */
  readonly rateLimit: RateLimitSettings;
  /** Keys of `obsoleteCPUModels`, sorted; undefined: nobody has said, the built-in list counts. */
  readonly obsoleteCpuModels: readonly string[] | undefined;
  /** As given, of any shape: who uses it takes it apart and says what cannot be used. */
  readonly permittedHostDevices: unknown;
  readonly mediatedDevicesConfiguration: unknown;
  /** `persistentReservationConfiguration.enabled`, and where nobody says so the old gate of that name. */
  readonly persistentReservation: boolean;
  readonly tdxAttestation: { readonly enforced: boolean; readonly qgsSocketPath: string };
  /** `hypervisors[0].name`, `kvm` unless the gate ConfigurableHypervisor lets it be another. */
  readonly hypervisor: string;
  /** Nodes that shall share memory pages; undefined: none. */
  readonly ksmNodes: LabelSelector | undefined;
  readonly clusterProfiler: boolean;
  /** As given. */
  readonly tlsConfiguration: unknown;
}

/** All of the agent's configuration: what the VMI loop reads and what the node's duties read. */
export interface EffectiveConfig extends ClusterConfig {
  readonly node: NodeConfig;
}

/**
 * Where the configuration in use is from. `kept`: there is no newer object that can be read and used. `asOf`: when it was read
 * from the API server, perhaps by an earlier agent of this node.
 */
export type ConfigOrigin =
  | { readonly from: 'defaults' }
  | { readonly from: 'object' | 'kept'; readonly asOf: Date; readonly resourceVersion: string };

/** Effective KubeVirt configuration, parsed once per version of the object. */
export interface ClusterSettings {
  /** The last good one; the defaults while there never was any. */
  readonly current: EffectiveConfig;
  /**
   * What is configured, and what is not, is known: a usable object was read at some time, or the objects were listed and there is
   * none. Nothing is taken back before.
   */
  readonly isKnown: boolean;
  readonly origin: ConfigOrigin;
  /** Why the newest object does not count; undefined: it does, or there is none. */
  readonly problem: string | undefined;
  /**
   * Calls back at once with the selected part, then each time that part is really another one (by value). The returned function
   * ends it.
   */
  select<T>(read: (config: EffectiveConfig) => T, onChange: (value: T) => void): () => void;
}

/** Something for which the node should take no VMIs now. How long it must last is the heartbeat's. */
export interface NodeProblem {
  readonly source: 'agent' | 'api' | 'sockets' | 'devices' | 'libvirt-files';
  /** CamelCase, constant: reason of the event, value of the metric's label. */
  readonly reason: string;
  /** One sentence for people, which says what to do. */
  readonly message: string;
  /** Monotonic. */
  readonly sinceMs: number;
}

export interface ProblemSource {
  problems(): readonly NodeProblem[];
  /** Called after each change; the returned function ends it. */
  onChange(listener: () => void): () => void;
}

/** What the heartbeat last told the cluster, for metrics and for `/state`. */
export interface NodeHealth {
  /** As last written; undefined: nothing could be written yet. */
  readonly schedulable: boolean | undefined;
  /** Those that keep the node unschedulable, and those that do not yet. */
  readonly problems: readonly NodeProblem[];
  /** Monotonic time of the last heartbeat that the API server took. */
  readonly lastSuccessMs: number | undefined;
  readonly failures: number;
}
