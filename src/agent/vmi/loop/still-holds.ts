import { labels, type MigrationState, type VirtualMachineInstance } from '../../../api/index.ts';

/** What routes and rules decide by: a change of any of these by another writer makes the decision a thing of the past. */
const decisive: readonly (keyof MigrationState)[] = [
  'migrationUid',
  'startTimestamp',
  'endTimestamp',
  'abortRequested',
  'completed',
  'failed',
];

/** What the decision was based on is as it was, so that its outcome may be put on the newest object. */
export function stillHolds(before: VirtualMachineInstance, newest: VirtualMachineInstance): boolean {
  return (
    before.metadata.uid === newest.metadata.uid &&
    before.status?.phase === newest.status?.phase &&
    before.status?.nodeName === newest.status?.nodeName &&
    Boolean(before.metadata.deletionTimestamp) === Boolean(newest.metadata.deletionTimestamp) &&
    isSameLabel(before, newest, labels.nodeName) &&
    isSameLabel(before, newest, labels.migrationTargetNodeName) &&
    decisive.every((field) => isSameField(before.status?.migrationState, newest.status?.migrationState, field))
  );
}

function isSameLabel(before: VirtualMachineInstance, newest: VirtualMachineInstance, label: string): boolean {
  return (before.metadata.labels?.[label] ?? '') === (newest.metadata.labels?.[label] ?? '');
}

/** Absent, null, false and empty are one to every reader. */
function isSameField(
  before: MigrationState | undefined,
  newest: MigrationState | undefined,
  field: keyof MigrationState,
): boolean {
  return (before?.[field] || undefined) === (newest?.[field] || undefined);
}
