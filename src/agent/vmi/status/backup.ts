import { type Domain, trackedDisksOf, type VirtualMachineInstance, type VmiStatus } from '../../../api/index.ts';
import { isRecord } from '../../../base/index.ts';
import { bounds, clip } from './bounds.ts';
import { isTime } from './memory-dump.ts';

type Json = Record<string, unknown>;

/**
 * Progress of the backup that the status names, from the domain's metadata (pkg/virt-handler/cbt.go). Metadata of another
 * backup, distinguished by name and start, are left alone.
 */
export function projectBackup(status: VmiStatus, domain: Domain): void {
  const tracking = status.changedBlockTracking;
  const reported = domain.Spec?.Metadata?.KubeVirt?.Backup;
  if (!isRecord(tracking) || !isRecord(tracking.backupStatus) || !reported) return;
  const known = tracking.backupStatus;
  const isSame = reported.Name === known.backupName && sameInstant(reported.StartTimestamp, known.startTimestamp);
  if (!isSame) return;
  const volumes = parsedList(reported.Volumes);
  const progress: Json = {
    ...(reported.Completed === true && { completed: true }),
    ...(reported.Failed === true && { failed: true }),
    ...(isTime(reported.EndTimestamp) && { endTimestamp: reported.EndTimestamp }),
    ...textOf('backupMsg', reported.BackupMsg, bounds.messageBytes),
    ...textOf('checkpointName', reported.CheckpointName, bounds.guestTextBytes),
    ...textOf('quiesceStatus', reported.QuiesceStatus, bounds.guestTextBytes),
    ...(volumes && { volumes }),
  };
  status.changedBlockTracking = { ...tracking, backupStatus: { ...known, ...progress } };
}

/**
 * Changed blocks are tracked once QEMU has a record beneath every disk that can have one (`HandleChangedBlockTracking` of
 * pkg/virt-handler/cbt.go). Volumes that are no disks do not count: they keep upstream's VMIs from ever coming so far.
 */
export function projectTracking(
  vmi: Partial<Pick<VirtualMachineInstance, 'spec'>>,
  status: VmiStatus,
  domain: Domain,
): void {
  const tracking = status.changedBlockTracking;
  if (!isRecord(tracking) || tracking.state !== 'Initializing') return;
  const recorded = new Set(
    (domain.Spec?.Devices?.Disks ?? []).flatMap(({ Alias, Source }) => (Alias && Source.DataStore ? [Alias.Name] : [])),
  );
  if (recorded.size === 0 && domain.Status.Status !== 'Running') return;
  if (!trackedDisksOf(vmi).every((name) => recorded.has(name))) return;
  status.changedBlockTracking = { ...tracking, state: 'Enabled' };
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
