import { errorCode } from '../../../../base/index.ts';
import { qemuId, type SafePath } from '../../../../host/index.ts';

/** As upstream leaves the files that it shares with launchers: the user qemu reads them as others do. */
const fileMode = 0o604;

/**
 * Replaces a file of a directory whole or not at all, as the user qemu's. What is in its place, a link or a pipe, goes. Throws the
 * system's error; the draft is then gone.
 */
export function replaceInPlace(directory: SafePath, name: string, text: string): void {
  const draft = `.${name}.new`;
  removeFile(directory, draft);
  const file = directory.create(draft, 0o600);
  try {
    file.write(text);
    file.setOwner(qemuId, qemuId, fileMode);
    directory.rename(draft, name);
  } catch (error) {
    removeFile(directory, draft);
    throw error;
  } finally {
    file.close();
  }
}

/** Safe when there is none. */
export function removeFile(directory: SafePath, name: string): void {
  try {
    directory.unlink(name);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}
