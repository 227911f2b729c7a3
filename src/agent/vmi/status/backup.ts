import type { Domain, VmiStatus } from '../../../api/index.ts';
import { isRecord } from '../../../base/index.ts';
import { bounds, clip } from './bounds.ts';
import { isTime } from './memory-dump.ts';

type Json = Record<string, unknown>;

/**
 * Progress of the backup that the status names, from the domain's metadata (pkg/virt-handler/cbt.go). Metadata of another
 * backup, told by name and start, are left alone.
 */
export function projectBackup(status: VmiStatus, domain: Domain): void {
  const tracking = status.changedBlockTracking;
  const told = domain.Spec?.Metadata?.KubeVirt?.Backup;
  if (!isRecord(tracking) || !isRecord(tracking.backupStatus) || !told) return;
  const known = tracking.backupStatus;
  const isSame = told.Name === known.backupName && sameInstant(told.StartTimestamp, known.startTimestamp);
  if (!isSame) return;
  const volumes = parsedList(told.Volumes);
  const progress: Json = {
    ...(told.Completed === true && { completed: true }),
    ...(told.Failed === true && { failed: true }),
    ...(isTime(told.EndTimestamp) && { endTimestamp: told.EndTimestamp }),
    ...textOf('backupMsg', told.BackupMsg, bounds.messageBytes),
    ...textOf('checkpointName', told.CheckpointName, bounds.guestTextBytes),
    ...textOf('quiesceStatus', told.QuiesceStatus, bounds.guestTextBytes),
    ...(volumes && { volumes }),
  };
  status.changedBlockTracking = { ...tracking, backupStatus: { ...known, ...progress } };
}

function sameInstant(left: unknown, right: unknown): boolean {
  return isTime(left) && isTime(right) && Date.parse(left) === Date.parse(right);
}

function textOf(name: string, value: unknown, maxBytes: number): Json {
  return typeof value === 'string' && value !== '' ? { [name]: clip(value, maxBytes) } : {};
}

const maxVolumesText = 64 * 1024;

/** A JSON list inside a string; anything else is nothing. */
function parsedList(text: unknown): unknown[] | undefined {
  if (typeof text !== 'string' || text === '' || text.length > maxVolumesText) return undefined;
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list : undefined;
  } catch {
    return undefined;
  }
}
