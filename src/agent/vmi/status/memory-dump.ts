import type { Domain, VirtualMachineInstance, VolumeStatus } from '../../../api/index.ts';
import { isRecord, rfc3339 } from '../../../base/index.ts';
import type { StatusFacts } from '../observe/index.ts';
import { bounds, clip } from './bounds.ts';

/**
 * Phases of a volume that takes a memory dump (pkg/virt-handler/vm.go). A dump begins only where the build can mount its
 * volume; one that the launcher reports is followed everywhere.
 */
export function projectMemoryDump(
  volume: VolumeStatus,
  vmi: VirtualMachineInstance,
  domain: Domain | undefined,
  { mountedVolumes }: StatusFacts,
  now: Date,
): VolumeStatus {
  const { memoryDumpVolume: dump, name, phase } = volume;
  if (!isRecord(dump)) return volume;
  if (phase === 'MountedToPod' && mountedVolumes) {
    const targetFileName = `${vmi.metadata.name}-${name}-${fileTime(now)}.memory.dump`;
    const message = `Memory dump Volume ${name} is attached, getting memory dump`;
    const memoryDumpVolume = { ...dump, targetFileName };
    return { ...volume, phase: 'MemoryDumpInProgress', reason: 'VolumeMountedToPod', message, memoryDumpVolume };
  }
  const reported = domain?.Spec?.Metadata?.KubeVirt?.MemoryDump;
  if (phase !== 'MemoryDumpInProgress' || !reported || reported.FileName !== dump.targetFileName) return volume;
  return ended(volume, dump, reported);
}

function ended(
  volume: VolumeStatus,
  dump: Readonly<Record<string, unknown>>,
  reported: Readonly<Record<string, unknown>>,
): VolumeStatus {
  const start = isTime(reported.StartTimestamp) ? { startTimestamp: reported.StartTimestamp } : {};
  if (!isTime(reported.EndTimestamp)) return { ...volume, memoryDumpVolume: { ...dump, ...start } };
  const memoryDumpVolume = { ...dump, ...start, endTimestamp: reported.EndTimestamp };
  if (reported.Failed === true) {
    const why = typeof reported.FailureReason === 'string' ? clip(reported.FailureReason, bounds.reasonBytes) : '';
    const message = `Memory dump to volume ${volume.name} failed: ${why}`;
    return { ...volume, phase: 'MemoryDumpFailed', reason: 'VolumeMountedToPod', message, memoryDumpVolume };
  }
  if (reported.Completed !== true) return { ...volume, memoryDumpVolume: { ...dump, ...start } };
  const message = `Memory dump to volume ${volume.name} has completed successfully`;
  return { ...volume, phase: 'MemoryDumpCompleted', reason: 'VolumeReady', message, memoryDumpVolume };
}

/** `20260102-030405`. */
function fileTime(now: Date): string {
  return rfc3339(now).replace(/[-:Z]/g, '').replace('T', '-');
}

/** What a program of a tenant's pod calls a time goes into an object only if it is one. */
export function isTime(value: unknown): value is string {
  return typeof value === 'string' && value.length <= 40 && !Number.isNaN(Date.parse(value));
}
