import type { VirtualMachineInstance } from '../../../api/index.ts';
import { isRecord, unreachable } from '../../../base/index.ts';
import type { SampledLauncher, SampleSource } from './ports.ts';
import { bareVmLabels, vmLabels } from './vm-labels.ts';
import { dirtyRateLines, filesystemLines, type Lines, migrationLines, statsLines } from './vm-lines.ts';

export interface SampleJob {
  readonly source: SampleSource;
  readonly vmi: VirtualMachineInstance;
  readonly launcher: SampledLauncher;
  readonly signal: AbortSignal;
}

/** One question and what its answer looks like in an exposition. Undefined: there is nothing to publish. */
export async function sampleOnce({ source, vmi, launcher, signal }: SampleJob): Promise<Lines | undefined> {
  const labels = vmLabels(vmi);
  switch (source) {
    case 'stats': {
      const json = await launcher.domainStats(signal);
      return json === '' ? undefined : statsLines(json, labels);
    }
    case 'filesystems':
      return filesystemLines(await launcher.filesystems(signal), labels);
    case 'dirty-rate':
      return dirtyRateLines(await launcher.dirtyRate(signal), labels);
    case 'migration': {
      const json = await launcher.domainStats(signal);
      return json === '' ? undefined : migrationLines(json, bareVmLabels(vmi));
    }
    default:
      return unreachable(source);
  }
}

/** As upstream's dirty_rate_scrapper.go: running, and not being migrated, which dirties memory of its own. */
export function isMeasurable({ status }: VirtualMachineInstance): boolean {
  const state: unknown = status?.migrationState;
  if (status?.phase !== 'Running') return false;
  return !isRecord(state) || !state.startTimestamp || state.completed === true || state.failed === true;
}

/** There is a migration, and it is not over. */
export function isMigrating({ status }: VirtualMachineInstance): boolean {
  const state: unknown = status?.migrationState;
  return isRecord(state) && state.completed !== true && state.failed !== true;
}
