import { errorCode, errorMessage, type Logger, memberAt } from '../../../base/index.ts';
import { readPlainFile } from '../../../host/index.ts';

/** Its entries are one line per container with CPUs of its own. */
const maxBytes = 4 * 1024 * 1024;

/**
 * Whether the kubelet's CPU manager gives CPUs away for good: by the first of these state files that is there. One
 * that cannot be read or understood says no.
 */
export async function hasCpuManager(files: readonly string[], log: Logger): Promise<boolean> {
  for (const file of files) {
    try {
      return memberAt(JSON.parse(await readPlainFile(file, maxBytes)), 'policyName') === 'static';
    } catch (error) {
      if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') continue;
      log.debug({ file, reason: errorMessage(error) }, 'the state of the CPU manager cannot be read');
      return false;
    }
  }
  return false;
}
