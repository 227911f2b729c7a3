import type { VirtualMachineInstance } from '../../../api/index.ts';
import type { MigrationOptions } from '../../migration-ports.ts';

type Given = Readonly<Record<string, unknown>>;

/** Spec 11 §4.1, with the defaults of the cluster for what the VMI's `migrationConfiguration` does not say. */
export function migrationOptionsOf(vmi: VirtualMachineInstance): MigrationOptions {
  const given = (vmi.status?.migrationState?.migrationConfiguration ?? {}) as Given;
  const allowPostCopy = given.allowPostCopy === true;
  const { cpu, resources } = vmi.spec.domain as { cpu?: Given; resources?: { limits?: Record<string, unknown> } };
  const hasCpuLimit = Number.parseFloat(String(resources?.limits?.cpu ?? 0)) > 0;
  return {
    Bandwidth: String(given.bandwidthPerMigration ?? '0'),
    ProgressTimeout: Number(given.progressTimeout ?? 150),
    CompletionTimeoutPerGiB: Number(given.completionTimeoutPerGiB ?? 150),
    MaxDowntimeMs: Number(given.maxDowntimeMs ?? 900),
    UnsafeMigration: given.unsafeMigrationOverride === true,
    AllowAutoConverge: given.allowAutoConverge === true,
    AllowPostCopy: allowPostCopy,
    ParallelMigrationThreads: hasCpuLimit || cpu?.dedicatedCpuPlacement === true ? null : 8,
    AllowWorkloadDisruption: (given.allowWorkloadDisruption ?? allowPostCopy) === true,
    StallDetectorOptions: null,
    Compression: null,
  };
}
