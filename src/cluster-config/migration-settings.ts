import { parseQuantity } from '../api/index.ts';
import { memberAt } from '../base/index.ts';

/** How migrations run: the cluster's `spec.configuration.migrations`, overlaid by a VMI's `migrationConfiguration`. */
export interface MigrationSettings {
  /** Quantity of bytes per second; `"0"` is no limit. */
  readonly bandwidth: string;
  readonly progressTimeoutSeconds: number;
  readonly completionTimeoutSecondsPerGiB: number;
  readonly maxDowntimeMs: number;
  readonly unsafe: boolean;
  readonly allowAutoConverge: boolean;
  readonly allowPostCopy: boolean;
  /** Where it is not said it is as `allowPostCopy`. */
  readonly allowWorkloadDisruption: boolean;
  readonly compression?: string;
  readonly stallDetector: StallDetectorSettings;
}

export interface StallDetectorSettings {
  readonly marginPercent: number;
  readonly progressTimeoutSeconds: number;
  readonly switchoverTimeoutSeconds: number;
  readonly ewmaAlpha: number;
  readonly precopyPossibleFactor: number;
  readonly patienceWindowDecayFactor: number;
  readonly searchLocalMinima: boolean;
  readonly completionTimeoutFactor: number;
}

/** What the cluster says of migrations, beside how they run. */
export interface MigrationConfig {
  readonly settings: MigrationSettings;
  /** Gate MigrationStallDetection. */
  readonly stallDetection: boolean;
  /** The streams between nodes go in the clear. Only the cluster says so, on both sides. */
  readonly disableTls: boolean;
}

/** Upstream's (`pkg/virt-config/virt-config.go`). */
export const defaultMigrationSettings: MigrationSettings = {
  bandwidth: '0',
  progressTimeoutSeconds: 150,
  completionTimeoutSecondsPerGiB: 150,
  maxDowntimeMs: 900,
  unsafe: false,
  allowAutoConverge: false,
  allowPostCopy: false,
  allowWorkloadDisruption: false,
  stallDetector: {
    marginPercent: 4,
    progressTimeoutSeconds: 40,
    switchoverTimeoutSeconds: 60,
    ewmaAlpha: 0.4,
    precopyPossibleFactor: 1.5,
    patienceWindowDecayFactor: 0.5,
    searchLocalMinima: true,
    completionTimeoutFactor: 2,
  },
};

/** The value of a field, or undefined when it cannot be used. */
type Read<T> = (value: unknown) => T | undefined;

const flag: Read<boolean> = (value) => (typeof value === 'boolean' ? value : undefined);
const count: Read<number> = (value) => (Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : undefined);
const compression: Read<string> = (value) => (value === 'none' || value === 'zstd' ? value : undefined);

const bandwidth: Read<string> = (value) => {
  const bytes = parseQuantity(value as string | number);
  if (bytes === undefined || bytes < 0) return undefined;
  return bytes === 0 ? '0' : String(value);
};

/** Decimal strings in the objects, with three places at most. */
function factor(least: number, most: number): Read<number> {
  return (value) => {
    const number = parseQuantity(value as string | number);
    if (number === undefined || number < least || number > most) return undefined;
    return Math.round(number * 1_000) / 1_000;
  };
}

const fields = {
  bandwidth: { path: 'bandwidthPerMigration', read: bandwidth },
  progressTimeoutSeconds: { path: 'progressTimeout', read: count },
  completionTimeoutSecondsPerGiB: { path: 'completionTimeoutPerGiB', read: count },
  maxDowntimeMs: { path: 'maxDowntimeMs', read: count },
  unsafe: { path: 'unsafeMigrationOverride', read: flag },
  allowAutoConverge: { path: 'allowAutoConverge', read: flag },
  allowPostCopy: { path: 'allowPostCopy', read: flag },
  allowWorkloadDisruption: { path: 'allowWorkloadDisruption', read: flag },
  compression: { path: 'experimental.compression', read: compression },
} as const;

const tiny = 0.001;
const stallFields = {
  marginPercent: { path: 'experimental.stallDetector.stallMargin', read: count },
  progressTimeoutSeconds: { path: 'experimental.stallDetector.stallProgressTimeout', read: count },
  switchoverTimeoutSeconds: { path: 'experimental.stallDetector.switchoverTimeout', read: count },
  ewmaAlpha: { path: 'experimental.stallDetector.ewmaAlpha', read: factor(tiny, 1) },
  precopyPossibleFactor: { path: 'experimental.stallDetector.precopyPossibleFactor', read: factor(1, 1_000) },
  patienceWindowDecayFactor: { path: 'experimental.stallDetector.patienceWindowDecayFactor', read: factor(tiny, 1) },
  searchLocalMinima: { path: 'experimental.stallDetector.searchLocalMinima', read: flag },
  completionTimeoutFactor: { path: 'experimental.stallDetector.completionTimeoutFactor', read: factor(1, 1_000) },
} as const;

/** What `given` says, over `base`. A value that cannot be used counts as not given. */
export function readMigrationSettings(given: unknown, base: MigrationSettings): MigrationSettings {
  const named = readFields(given, fields);
  // A configuration that names post-copy and not disruption means both.
  const disruption = named.allowPostCopy === undefined ? {} : { allowWorkloadDisruption: named.allowPostCopy };
  return {
    ...base,
    ...disruption,
    ...named,
    stallDetector: { ...base.stallDetector, ...readFields(given, stallFields) },
  };
}

/** Paths of fields that are given and cannot be used. */
export function unusableMigrationFields(given: unknown): string[] {
  return [...Object.values(fields), ...Object.values(stallFields)]
    .filter(
      ({ path, read }) =>
        memberAt(given, ...path.split('.')) !== undefined && read(memberAt(given, ...path.split('.'))) === undefined,
    )
    .map(({ path }) => path);
}

type Fields = Readonly<Record<string, { readonly path: string; readonly read: Read<unknown> }>>;
type ValuesOf<F extends Fields> = { -readonly [K in keyof F]?: NonNullable<ReturnType<F[K]['read']>> };

function readFields<F extends Fields>(given: unknown, table: F): ValuesOf<F> {
  const entries = Object.entries(table).map(
    ([name, { path, read }]) => [name, read(memberAt(given, ...path.split('.')))] as const,
  );
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined)) as ValuesOf<F>;
}
