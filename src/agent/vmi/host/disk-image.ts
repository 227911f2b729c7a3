import { errorCode } from '../../../base/index.ts';
import { type NewFile, qemuId, type SafePath } from '../../../host/index.ts';
import { HostError } from './errors.ts';

/** Of the image while it is made. A directory belongs to one volume, and so to one image. */
const draft = '.disk-image.new';

/** QEMU's alone: a directory of the host may be open to all of its users. */
const mode = 0o600;

/** File systems without hard links: FAT, and some that are served over a network. */
const noLinks = new Set(['EPERM', 'EOPNOTSUPP', 'ENOTSUP', 'ENOSYS', 'EMLINK', 'EINVAL']);

/** Size of a plain file, undefined when there is none. Throws HostError DISK_REPLACED for anything else of that name, or SafePathError for a link. */
export function imageSize(directory: SafePath, file: string): number | undefined {
  let found: SafePath;
  try {
    found = directory.child(file);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const stats = found.stat();
    if (stats.isFile()) return stats.size;
    throw new HostError('DISK_REPLACED', `${file} is there and no plain file: remove it, so that a disk can be made`);
  } finally {
    found.close();
  }
}

/**
 * Makes a sparse image of the user qemu in a directory that belongs to a tenant, whole or not at all. All is done through the
 * descriptor that the file was made with: what the tenant puts in place of a name meanwhile is never touched. An image that
 * the tenant made meanwhile is left as it is. Throws HostError, or the system's error; nothing of ours is left then.
 */
export function makeImage(directory: SafePath, file: string, sizeBytes: number): void {
  // Under another name first: a crash in between would leave an empty file that is then taken for the disk.
  removeDraft(directory);
  if (!publishDraft(directory, file, sizeBytes)) makeInPlace(directory, file, sizeBytes);
}

/** What a crash left: a draft, or the second name of an image. */
export function removeDraft(directory: SafePath): void {
  try {
    directory.unlink(draft);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}

/** False when this file system gives no file a second name. */
function publishDraft(directory: SafePath, file: string, sizeBytes: number): boolean {
  const image = directory.create(draft, mode);
  try {
    fill(image, sizeBytes);
    // Unlike a rename this replaces no file.
    directory.link(draft, file);
    if (!image.isAt(directory, file)) throw replaced(file);
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST' && imageSize(directory, file) !== undefined) return true;
    if (noLinks.has(errorCode(error) ?? '')) return false;
    throw error;
  } finally {
    removeOwn(directory, draft, image);
    image.close();
  }
}

function makeInPlace(directory: SafePath, file: string, sizeBytes: number): void {
  const image = directory.create(file, mode);
  try {
    fill(image, sizeBytes);
  } catch (error) {
    removeOwn(directory, file, image);
    throw error;
  } finally {
    image.close();
  }
}

function fill(image: NewFile, sizeBytes: number): void {
  image.setSize(sizeBytes);
  image.setOwner(qemuId, qemuId);
}

/** What the tenant put there meanwhile is not ours to remove. */
function removeOwn(directory: SafePath, name: string, image: NewFile): void {
  try {
    if (image.isAt(directory, name)) directory.unlink(name);
  } catch {
    // The next try removes it, or says why not.
  }
}

function replaced(file: string): HostError {
  return new HostError('DISK_REPLACED', `something else was put in the place of ${file} while it was made`);
}
