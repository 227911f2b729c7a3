import { realpath } from 'node:fs/promises';
import { errorCode, errorMessage } from '../base/index.ts';
import { readPlainFile } from '../host/index.ts';
import { ExportError } from './answer.ts';

/** What a Secret or ConfigMap can hold. */
const maxBytes = 1024 * 1024;
/** A kubelet that exchanges the files swaps a link. */
const tries = 3;

/** A key of a Secret or ConfigMap that is mounted, as it is now. Rejects with ExportError NOT_FOUND or UNAVAILABLE. */
export async function readMounted(file: string): Promise<string> {
  for (let tried = 1; ; tried++) {
    try {
      // A kubelet has links there; the mount is trusted.
      return await readPlainFile(await realpath(file), maxBytes);
    } catch (cause) {
      const isMissing = errorCode(cause) === 'ENOENT';
      if (isMissing && tried < tries) continue;
      if (isMissing) throw new ExportError('NOT_FOUND', `${file} is not there`, { cause });
      throw new ExportError('UNAVAILABLE', `${file} cannot be read: ${errorMessage(cause)}`, { cause });
    }
  }
}

/** The same; undefined: it is not there. */
export async function readMountedIfThere(file: string): Promise<string | undefined> {
  try {
    return await readMounted(file);
  } catch (error) {
    if (error instanceof ExportError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}
