import { listOf, memberAt, parseGoDurationMs } from '../../base/index.ts';
import type { KubeVirt } from '../../cluster-config/index.ts';

/** `spec.workloadUpdateStrategy` of the KubeVirt object: what the administrator allows. */
export interface Strategy {
  readonly mayMigrate: boolean;
  readonly mayEvict: boolean;
  /** Evictions at once, and the time until the next ones. */
  readonly batchSize: number;
  readonly batchIntervalMs: number;
}

/** Upstream's (pkg/virt-controller/watch/workload-updater). */
const defaults = { batchSize: 10, batchIntervalMs: 60_000 };

/** Undefined: nothing is updated, since nothing is allowed or KubeVirt itself is being updated. */
export function readStrategy(kubevirt: KubeVirt | undefined): Strategy | undefined {
  const { status, spec } = kubevirt ?? {};
  const isUpdating = memberAt(status, 'observedDeploymentID') !== memberAt(status, 'targetDeploymentID');
  if (status?.phase !== 'Deployed' || isUpdating) return undefined;
  const given = memberAt(spec, 'workloadUpdateStrategy');
  const methods = listOf(memberAt(given, 'workloadUpdateMethods'));
  const strategy = {
    mayMigrate: methods.includes('LiveMigrate'),
    mayEvict: methods.includes('Evict'),
    batchSize: countOf(memberAt(given, 'batchEvictionSize')) ?? defaults.batchSize,
    batchIntervalMs:
      parseGoDurationMs(String(memberAt(given, 'batchEvictionInterval') ?? '')) ?? defaults.batchIntervalMs,
  };
  return strategy.mayMigrate || strategy.mayEvict ? strategy : undefined;
}

function countOf(value: unknown): number | undefined {
  return Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : undefined;
}
