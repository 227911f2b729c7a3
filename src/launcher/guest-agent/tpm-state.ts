import { errorCode } from '../../base/index.ts';
import { syncTree } from '../../host/index.ts';

const tries = 3;

/**
 * What swtpm has written is on the disk, so that a copy of a frozen guest's claims has its TPM, too (upstream: `FSFreeze` in
 * pkg/virt-launcher/virtwrap/storage). swtpm replaces its file by a rename, which may come in between. Rejects with the system's error.
 */
export async function syncTpm(directory: string): Promise<void> {
  for (let left = tries; ; left--) {
    try {
      return await syncTree(directory);
    } catch (error) {
      if (left <= 1 || errorCode(error) !== 'ENOENT') throw error;
    }
  }
}
