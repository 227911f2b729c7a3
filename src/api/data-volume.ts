import type { Condition, KubeObject } from './kubernetes.ts';

/** What fills a claim of its own name, by containerized-data-importer (cdi.kubevirt.io/v1beta1). */
export interface DataVolume extends KubeObject {
  spec?: Record<string, unknown>;
  status?: {
    /** As of `Pending`, `ImportInProgress`, `WaitForFirstConsumer`, `PendingPopulation`, `Succeeded`, `Failed`. */
    phase?: string;
    /** Such as `12.50%`; `N/A` where it is not known. */
    progress?: string;
    conditions?: Condition[];
    [field: string]: unknown;
  };
}
