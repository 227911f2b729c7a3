import { lstat } from 'node:fs/promises';
import path from 'node:path';
import { errorCode, errorMessage } from '../../base/index.ts';
import { openInRoot, type SafePath } from '../../host/index.ts';
import { DiskError } from './errors.ts';

/**
 * The real path of a file in an image, looked up as a process with root directory `root` would see it: links are followed,
 * but never out of the image. The way there is `openInRoot` of src/host; here its failures become what a user reads. Throws `IMAGE_MISSING` (something is not there) or `UNSAFE_PATH` (no ordinary file, links in
 * a circle).
 */
export async function resolveFileInRoot(root: string, relative: string): Promise<string> {
  return resolve(root, relative, 'file');
}

/** The same for a directory. */
export async function resolveDirInRoot(root: string, relative: string): Promise<string> {
  return resolve(root, relative, 'directory');
}

function resolve(root: string, relative: string, kind: 'file' | 'directory'): string {
  const shown = path.join(root, relative);
  const found = opened(root, relative, shown);
  try {
    const stat = found.stat();
    if (kind === 'file' ? stat.isFile() : stat.isDirectory()) return found.currentName();
    throw new DiskError('UNSAFE_PATH', `${shown} is not ${kind === 'file' ? 'an ordinary file' : 'a directory'}`);
  } finally {
    found.close();
  }
}

function opened(root: string, relative: string, shown: string): SafePath {
  try {
    return openInRoot(root, relative);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      throw new DiskError('IMAGE_MISSING', `${shown} does not exist`, { cause: error });
    }
    throw new DiskError('UNSAFE_PATH', `${shown} cannot be looked at: ${errorMessage(error)}`, { cause: error });
  }
}

/** lstat that gives undefined when nothing is there. */
export async function lstatIfThere(file: string) {
  return lstat(file).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
}
