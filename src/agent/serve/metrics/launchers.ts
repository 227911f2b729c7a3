import type { LauncherClients } from '../../../launcher-client/index.ts';
import type { SampledLaunchers } from './ports.ts';

/** The connections of the VMI loop: figures never open one, which would be remembered on disk. */
export function sampledLaunchers(clients: Pick<LauncherClients, 'peek'>): SampledLaunchers {
  return {
    find: ({ metadata }) => {
      const connection = clients.peek(metadata.uid ?? '');
      if (!connection?.connected) return undefined;
      return {
        domainStats: async (signal) => (await connection.call('getDomainStats', {}, signal)).domainStats,
        filesystems: async (signal) => (await connection.call('getFilesystems', {}, signal)).guestFilesystemsResponse,
        dirtyRate: async (signal) => (await connection.call('getDomainDirtyRateStats', {}, signal)).dirtyRateMbs,
      };
    },
  };
}
