import { type KubeObject, parseQuantity } from '../api/index.ts';

/** What the controller takes from the KubeVirt CR (spec 60 §7), with its defaults filled in. */
export interface ClusterConfig {
  readonly launcherImage: string;
  readonly imagePullPolicy: 'Always' | 'IfNotPresent' | 'Never';
  readonly useEmulation: boolean;
  readonly memoryOvercommitPercent: number;
  readonly cpuAllocationRatio: number;
  readonly nodeSelectors: Readonly<Record<string, string>>;
  readonly machineType: string;
  readonly ovmfPath: string;
  readonly cpuModel: string;
  readonly architecture: string;
  readonly evictionStrategy: string | undefined;
  readonly defaultInterfaceBinding: 'bridge' | 'masquerade';
  readonly diskMemoryLimitBytes: number;
  readonly launcherVerbosity: number;
  readonly overheadRatio: number;
  readonly defaultRuntimeClass: string;
  readonly liveUpdateRatio: number;
  /** User the launcher runs as: 107, or 0 with the gate Root. */
  readonly runtimeUser: number;
  /** `spec.configuration…` could not be used: what is wrong. The last good configuration stays. */
  readonly problem?: string;
}

export interface ConfigBase {
  readonly launcherImage: string;
  /** For VMIs that say nothing, without the gate Root. */
  readonly runtimeUser: number;
  /** Kubernetes' name of this machine's architecture: `amd64`. */
  readonly architecture: string;
}

export interface KubeVirt extends KubeObject {
  readonly spec?: { readonly configuration?: Readonly<Record<string, unknown>> };
  readonly status?: { readonly phase?: string; readonly defaultArchitecture?: string };
}

const perArchitecture: Readonly<Record<string, { machineType: string; ovmfPath: string }>> = {
  amd64: { machineType: 'q35', ovmfPath: '/usr/share/edk2/ovmf' },
  arm64: { machineType: 'virt', ovmfPath: '/usr/share/AAVMF' },
  s390x: { machineType: 's390-ccw-virtio', ovmfPath: '' },
};

/** The CR that counts: with a phase, not being deleted; of several the last one (spec 60 §7.1). */
export function activeKubeVirt(candidates: readonly KubeVirt[]): KubeVirt | undefined {
  return candidates.filter((cr) => cr.status?.phase && !cr.metadata.deletionTimestamp).at(-1);
}

/** Defaults overlaid by the CR. `last` is kept, with `problem` set, when the CR holds a value that cannot be used. */
export function readClusterConfig(
  kubevirt: KubeVirt | undefined,
  base: ConfigBase,
  last?: ClusterConfig,
): ClusterConfig {
  const read = new ConfigReader(kubevirt?.spec?.configuration ?? {});
  const architecture = kubevirt?.status?.defaultArchitecture || base.architecture;
  const known = perArchitecture[architecture] ?? { machineType: 'q35', ovmfPath: '' };
  const forArch = `architectureConfiguration.${architecture}`;
  const config: ClusterConfig = {
    launcherImage: base.launcherImage,
    imagePullPolicy: read.oneOf('imagePullPolicy', ['IfNotPresent', 'Always', 'Never']),
    useEmulation: read.boolean('developerConfiguration.useEmulation', false),
    memoryOvercommitPercent: read.positive('developerConfiguration.memoryOvercommit', 100),
    cpuAllocationRatio: read.positive('developerConfiguration.cpuAllocationRatio', 10),
    nodeSelectors: read.strings('developerConfiguration.nodeSelectors'),
    machineType: read.text(`${forArch}.machineType`, read.text('machineType', known.machineType)),
    ovmfPath: read.text(`${forArch}.ovmfPath`, read.text('ovmfPath', known.ovmfPath)),
    cpuModel: read.text('cpuModel', architecture === 'arm64' ? 'host-passthrough' : 'host-model'),
    architecture,
    evictionStrategy: read.text('evictionStrategy', '') || undefined,
    defaultInterfaceBinding: read.oneOf('network.defaultNetworkInterface', ['bridge', 'masquerade']),
    diskMemoryLimitBytes: read.positive('developerConfiguration.diskVerification.memoryLimit', 2_097_152_000),
    launcherVerbosity: read.number('developerConfiguration.logVerbosity.virtLauncher', 2),
    overheadRatio: read.positive('additionalGuestMemoryOverheadRatio', 1),
    defaultRuntimeClass: read.text('defaultRuntimeClass', ''),
    liveUpdateRatio: read.positive('liveUpdateConfiguration.maxHotplugRatio', 4),
    runtimeUser: read.gates().includes('Root') ? 0 : base.runtimeUser,
  };
  if (read.problems.length === 0) return config;
  return { ...(last ?? readClusterConfig(undefined, base)), problem: read.problems.join('; ') };
}

/** Reads dotted paths and notes what does not fit. */
class ConfigReader {
  readonly #root: unknown;
  readonly problems: string[] = [];

  constructor(root: unknown) {
    this.#root = root;
  }

  gates(): string[] {
    const on = this.#value('developerConfiguration.featureGates');
    const off = this.#value('developerConfiguration.disabledFeatureGates');
    const list = (value: unknown) => (Array.isArray(value) ? value.map(String) : []);
    return list(on).filter((gate) => on === off || !list(off).includes(gate));
  }

  boolean(path: string, fallback: boolean): boolean {
    const value = this.#value(path) ?? fallback;
    return typeof value === 'boolean' ? value : this.#wrong(path, 'true or false', fallback);
  }

  text(path: string, fallback: string): string {
    const value = this.#value(path) ?? fallback;
    return typeof value === 'string' ? value || fallback : this.#wrong(path, 'a string', fallback);
  }

  number(path: string, fallback: number): number {
    const value = this.#value(path);
    if (value === undefined || value === null) return fallback;
    const parsed = parseQuantity(value as string | number);
    return parsed === undefined ? this.#wrong(path, 'a number', fallback) : parsed;
  }

  positive(path: string, fallback: number): number {
    const value = this.number(path, fallback);
    return value > 0 ? value : this.#wrong(path, 'above 0', fallback);
  }

  oneOf<const T extends string>(path: string, values: readonly [T, ...T[]]): T {
    const value = this.text(path, values[0]);
    return values.find((known) => known === value) ?? this.#wrong(path, `one of ${values.join(', ')}`, values[0]);
  }

  strings(path: string): Record<string, string> {
    const value = this.#value(path) ?? {};
    if (typeof value !== 'object' || Array.isArray(value)) return this.#wrong(path, 'a map of strings', {});
    return Object.fromEntries(Object.entries(value as object).map(([key, text]) => [key, String(text)]));
  }

  #value(path: string): unknown {
    let value = this.#root;
    for (const step of path.split('.')) {
      if (typeof value !== 'object' || value === null) return undefined;
      value = Object.hasOwn(value, step) ? (value as Record<string, unknown>)[step] : undefined;
    }
    return value;
  }

  #wrong<T>(path: string, expected: string, fallback: T): T {
    this.problems.push(`spec.configuration.${path} must be ${expected}`);
    return fallback;
  }
}
