import { keyOf, resources, type VirtualMachineBackupTracker } from '../../api/index.ts';
import { type KubeClient, writeIfThere } from '../../kube/index.ts';
import type { ReadYourWrites } from '../../reconcile/index.ts';

/** Its checkpoint is of no use before the launcher of the guest that runs now was told of it. */
export function isAwaited({ status }: VirtualMachineBackupTracker): boolean {
  return status?.checkpointRedefinitionRequired === true && Boolean(status.latestCheckpoint?.name);
}

/** Changes its status; false: it is gone, or another one by now. */
export function patchTracker(
  tracker: VirtualMachineBackupTracker,
  status: object,
  { client, trackers }: { client: Pick<KubeClient, 'patch'>; trackers: ReadYourWrites<VirtualMachineBackupTracker> },
  signal: AbortSignal,
): Promise<boolean> {
  const { metadata } = tracker;
  const body = { metadata: { uid: metadata.uid }, status };
  const patching = client
    .patch<VirtualMachineBackupTracker>(resources.virtualMachineBackupTrackers, metadata, body, 'merge', {
      subresource: 'status',
      signal,
    })
    .then((newer) => trackers.patched(keyOf(tracker), tracker, newer));
  return writeIfThere(patching);
}
