import { resources, type VirtualMachineBackupTracker } from '../../../api/index.ts';
import { isKubeError, type KubeClient, orMissing, writeIfThere } from '../../../kube/index.ts';
import type { BackupTrackers } from '../ports.ts';

type Vm = Parameters<BackupTrackers['guestStarted']>[0];

const requestTimeoutMs = 10_000;

/** See `BackupTrackers`. Nothing of trackers is kept, where upstream's agent follows all of the cluster (pkg/virt-handler/cbt.go). */
export async function markTrackers(
  client: Pick<KubeClient, 'list' | 'patch'>,
  { namespace, name }: Vm,
  signal: AbortSignal,
): Promise<string | undefined> {
  const options = { signal, timeoutMs: requestTimeoutMs };
  try {
    const type = resources.virtualMachineBackupTrackers;
    const listing = client.list<VirtualMachineBackupTracker>(type, { ...options, ...(namespace && { namespace }) });
    for (const { spec, status, metadata } of (await orMissing(listing))?.items ?? []) {
      const isToBeTold = status?.latestCheckpoint && status.checkpointRedefinitionRequired !== true;
      if (spec?.source?.name !== name || !isToBeTold) continue;
      const body = { metadata: { uid: metadata.uid }, status: { checkpointRedefinitionRequired: true } };
      // One that is gone needs nothing.
      await writeIfThere(client.patch(type, metadata, body, 'merge', { ...options, subresource: 'status' }));
    }
    return undefined;
  } catch (error) {
    // A server that answers, if not for trackers, may take the rest of the status.
    if (!isKubeError(error, 'FORBIDDEN', 'INVALID', 'SERVER_ERROR')) throw error;
    return `backup trackers of VM ${namespace}/${name} cannot be told that its guest was started: ${error.status?.message ?? error.message}`;
  }
}
