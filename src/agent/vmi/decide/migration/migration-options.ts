import { hasDedicatedCpus, parseQuantity, type VirtualMachineInstance } from '../../../../api/index.ts';
import {
  type MigrationConfig,
  readMigrationSettings,
  type StallDetectorSettings,
} from '../../../../cluster-config/index.ts';
import type { MigrationOptions, StallDetectorOptions } from '../../../migration-proxy/ports.ts';

/** Upstream's figure for multifd. */
const parallelThreads = 8;

/**
 * As in pkg/virt-handler/migration-source.go: the VMI's `migrationConfiguration` (the cluster's and its policy's, resolved at
 * hand-off) over the cluster's.
 */
export function migrationOptionsOf(vmi: VirtualMachineInstance, cluster: MigrationConfig): MigrationOptions {
  const settings = readMigrationSettings(vmi.status?.migrationState?.migrationConfiguration, cluster.settings);
  return {
    Bandwidth: settings.bandwidth,
    ProgressTimeout: settings.progressTimeoutSeconds,
    CompletionTimeoutPerGiB: settings.completionTimeoutSecondsPerGiB,
    MaxDowntimeMs: settings.maxDowntimeMs,
    UnsafeMigration: settings.unsafe,
    AllowAutoConverge: settings.allowAutoConverge,
    AllowPostCopy: settings.allowPostCopy,
    ParallelMigrationThreads: hasCpuBudget(vmi) ? null : parallelThreads,
    AllowWorkloadDisruption: settings.allowWorkloadDisruption,
    StallDetectorOptions: cluster.stallDetection ? stallOptions(settings.stallDetector) : null,
    Compression: settings.compression ?? null,
  };
}

/** More threads would be taken from a guest whose CPU time is limited, or bound to CPUs of its own. */
function hasCpuBudget(vmi: VirtualMachineInstance): boolean {
  return (parseQuantity(vmi.spec.domain.resources?.limits?.cpu) ?? 0) > 0 || hasDedicatedCpus(vmi);
}

function stallOptions(stall: StallDetectorSettings): StallDetectorOptions {
  return {
    StallMargin: stall.marginPercent / 100,
    StallProgressTimeout: stall.progressTimeoutSeconds,
    SwitchoverTimeout: stall.switchoverTimeoutSeconds,
    EwmaAlpha: stall.ewmaAlpha,
    PrecopyPossibleFactor: stall.precopyPossibleFactor,
    PatienceWindowDecayFactor: stall.patienceWindowDecayFactor,
    SearchLocalMinima: stall.searchLocalMinima,
    CompletionTimeoutFactor: stall.completionTimeoutFactor,
  };
}
