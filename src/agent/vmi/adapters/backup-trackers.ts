import { resources, type VirtualMachineBackupTracker } from '../../../api/index.ts';
import { isKubeError, type KubeClient, orMissing, writeIfThere } from '../../../kube/index.ts';
import type { BackupTrackers } from '../ports.ts';

const requestTimeoutMs = 10_000;

/**
 * Trackers are listed when a guest that has one may have started, in its namespace only: nothing of them is kept, where upstream's agent
 * follows all of the cluster (pkg/virt-handler/cbt.go).
 */
export function kubeBackupTrackers(client: Pick<KubeClient, 'list' | 'patch'>): BackupTrackers {
  return {
    guestStarted: async ({ namespace, name }, signal) => {
      const options = { signal, timeoutMs: requestTimeoutMs };
      try {
        const type = resources.virtualMachineBackupTrackers;
        const listing = client.list<VirtualMachineBackupTracker>(type, { ...options, ...(namespace && { namespace }) });
        for (const tracker of (await orMissing(listing))?.items ?? []) {
          const { spec, status, metadata } = tracker;
          const isToBeTold = status?.latestCheckpoint && status.checkpointRedefinitionRequired !== true;
          if (spec?.source?.name !== name || !isToBeTold) continue;
          const body = { metadata: { uid: metadata.uid }, status: { checkpointRedefinitionRequired: true } };
          // One that is gone needs nothing.
          await writeIfThere(client.patch(type, metadata, body, 'merge', { ...options, subresource: 'status' }));
        }
        return undefined;
      } catch (error) {
        if (!isKubeError(error, 'FORBIDDEN', 'INVALID')) throw error;
        return `backup trackers of VM ${namespace}/${name} cannot be told that its guest was started: ${error.status?.message ?? error.message}`;
      }
    },
  };
}
