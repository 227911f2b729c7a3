import type { SnapshotError, VirtualMachineSnapshotContent, VolumeSnapshot } from '../../api/index.ts';
import { rfc3339 } from '../../base/index.ts';
import { freezeLimit } from '../snapshot-source/index.ts';
import type { ContentDecision } from './decide.ts';
import type { PresentContent } from './observe.ts';

type Status = NonNullable<VirtualMachineSnapshotContent['status']>;

/** The status as it shall be stored now. `failure`: of a step, in words. Pure. */
export function contentStatusOf(
  { content, backups, now }: PresentContent,
  { problem, isTakenNow }: ContentDecision,
  failure: string | undefined,
): Status {
  const { error: old, ...rest } = content.status ?? {};
  const { creationTime } = rest;
  const isTaken = Boolean(creationTime) || (isTakenNow === true && failure === undefined);
  const isReady = isTaken && backups.every(({ taken }) => taken?.status?.readyToUse === true);
  const error = errorOf(old, failure ?? problem, { isTaken, isReady }, rfc3339(now));
  const statuses = backups.flatMap(({ taken }) => (taken ? [statusOf(taken)] : []));
  return {
    ...rest,
    ...(isTaken && { creationTime: creationTime || rfc3339(now) }),
    readyToUse: isReady,
    ...(statuses.length > 0 && { volumeSnapshotStatus: statuses }),
    ...(error && { error }),
  };
}

/** What was said of a freeze that was cut short stays until all is taken. */
function errorOf(
  old: SnapshotError | undefined,
  message: string | undefined,
  { isTaken, isReady }: { readonly isTaken: boolean; readonly isReady: boolean },
  time: string,
): SnapshotError | undefined {
  if (!isTaken && old?.message?.includes(freezeLimit)) return old;
  if (message === undefined || isReady) return undefined;
  return old?.message === message ? old : { message, time };
}

function statusOf({ metadata, status }: VolumeSnapshot): NonNullable<Status['volumeSnapshotStatus']>[number] {
  const { readyToUse, creationTime, error } = status ?? {};
  return {
    volumeSnapshotName: metadata.name,
    ...(readyToUse !== undefined && { readyToUse }),
    ...(creationTime && { creationTime }),
    ...(error?.message && { error: { message: error.message, ...(error.time && { time: error.time }) } }),
  };
}
