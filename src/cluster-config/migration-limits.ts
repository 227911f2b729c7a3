import { memberAt } from '../base/index.ts';

/** What virt-controller goes by when it starts migrations, from `spec.configuration.migrations`. */
export interface MigrationLimits {
  readonly perCluster: number;
  /** Of migrations that leave one node. */
  readonly perNode: number;
  /** A node with a taint of this key and the effect NoSchedule is emptied. */
  readonly drainTaintKey: string;
  /** The target pod gets the SELinux level of the source, so that both may open the same files. */
  readonly matchSelinuxLevel: boolean;
  readonly utilityVolumesTimeoutSeconds: number;
  /** All of it with its defaults, as agents read it in `migrationState.migrationConfiguration`. */
  readonly options: Readonly<Record<string, unknown>>;
}

/** Upstream's (`pkg/virt-config/virt-config.go`). */
const defaults = {
  allowAutoConverge: false,
  allowPostCopy: false,
  allowWorkloadDisruption: false,
  bandwidthPerMigration: '0',
  completionTimeoutPerGiB: 150,
  disableTLS: false,
  maxDowntimeMs: 900,
  nodeDrainTaintKey: 'kubevirt.io/drain',
  parallelMigrationsPerCluster: 5,
  parallelOutboundMigrationsPerNode: 2,
  progressTimeout: 150,
  unsafeMigrationOverride: false,
  utilityVolumesTimeout: 150,
} as const;

/** Fields without a default that travel along when they are given. */
const more = ['matchSELinuxLevelOnMigration', 'network', 'experimental'];

/** Fields of a MigrationPolicy that overrule the cluster's. */
const ofPolicies = [
  'allowAutoConverge',
  'bandwidthPerMigration',
  'completionTimeoutPerGiB',
  'maxDowntimeMs',
  'allowPostCopy',
  'allowWorkloadDisruption',
  'experimental',
];

const counts = ['parallelMigrationsPerCluster', 'parallelOutboundMigrationsPerNode', 'utilityVolumesTimeout'] as const;

/** `configuration` has been checked by `unusableMigrationLimits`. */
export function readMigrationLimits(configuration: unknown): MigrationLimits {
  const given = memberAt(configuration, 'migrations');
  const options = withFields(defaults, given, [...Object.keys(defaults), ...more]);
  return {
    perCluster: Number(options.parallelMigrationsPerCluster),
    perNode: Number(options.parallelOutboundMigrationsPerNode),
    drainTaintKey: String(options.nodeDrainTaintKey),
    matchSelinuxLevel: options.matchSELinuxLevelOnMigration !== false,
    utilityVolumesTimeoutSeconds: Number(options.utilityVolumesTimeout),
    options,
  };
}

/** A limit that cannot be read must not silently become its default. */
export function unusableMigrationLimits(configuration: unknown): string[] {
  const wrong = counts.filter((name) => {
    const value = memberAt(configuration, 'migrations', name) ?? 0;
    return !Number.isSafeInteger(value) || Number(value) < 0;
  });
  const key = memberAt(configuration, 'migrations', 'nodeDrainTaintKey') ?? '';
  return [...wrong, ...(typeof key === 'string' ? [] : ['nodeDrainTaintKey'])].map((name) => `migrations.${name}`);
}

/** What the policy says instead of the cluster. */
export function withPolicy(options: MigrationLimits['options'], policySpec: unknown): MigrationLimits['options'] {
  return withFields(options, policySpec, ofPolicies);
}

/** A configuration that names post-copy and not disruption means both. */
function withFields(
  base: MigrationLimits['options'],
  given: unknown,
  names: readonly string[],
): MigrationLimits['options'] {
  const fields = names.map((name) => [name, memberAt(given, name) ?? undefined] as const);
  const named = Object.fromEntries(fields.filter(([, value]) => value !== undefined && value !== ''));
  const both = named.allowPostCopy === undefined ? {} : { allowWorkloadDisruption: named.allowPostCopy };
  return { ...base, ...both, ...named };
}
