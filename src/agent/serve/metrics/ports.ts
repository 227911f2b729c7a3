import type { VirtualMachineInstance } from '../../../api/index.ts';

/** The figures of a VM come from these questions, none of which waits for another; the last one only while it migrates. */
export const sampleSources = ['stats', 'filesystems', 'dirty-rate', 'migration'] as const;
export type SampleSource = (typeof sampleSources)[number];

/** One launcher, over the connection that the VMI loop has. All reject when it does not answer in time. */
export interface SampledLauncher {
  /** DomainStats JSON; empty: none. */
  domainStats(signal: AbortSignal): Promise<string>;
  filesystems(signal: AbortSignal): Promise<string>;
  /** MiB/s; the launcher measures for a second. */
  dirtyRate(signal: AbortSignal): Promise<bigint>;
}

export interface SampledLaunchers {
  /** Undefined: there is no open connection now. Nothing is dialled for figures. */
  find(vmi: VirtualMachineInstance): SampledLauncher | undefined;
}
