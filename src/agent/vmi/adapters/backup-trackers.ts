import type { KubeClient } from '../../../kube/index.ts';
import type { BackupTrackers } from '../ports.ts';

/** What it does is read when the first VM is there whose changed blocks are tracked: most clusters have none. */
export function kubeBackupTrackers(client: Pick<KubeClient, 'list' | 'patch'>): BackupTrackers {
  return {
    guestStarted: async (vm, signal) => (await import('./mark-trackers.ts')).markTrackers(client, vm, signal),
  };
}
