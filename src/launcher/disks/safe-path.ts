import { lstat, readlink } from 'node:fs/promises';
import path from 'node:path';
import { errorCode, errorMessage } from '../../base/index.ts';
import { DiskError } from './errors.ts';

const maxLinks = 40;

/**
 * The real path of `relative` inside `root`, as a process whose root directory is `root` would see it: absolute links start
 * at `root` again and `..` never leaves it. Throws `IMAGE_MISSING` (something is not there, with the place) or
 * `UNSAFE_PATH` (links in a circle). The last component is not a link.
 */
export async function resolveInRoot(root: string, relative: string): Promise<string> {
  const waiting = relative.split('/');
  let walked: string[] = [];
  let links = 0;
  for (let part = waiting.shift(); part !== undefined; part = waiting.shift()) {
    if (part === '' || part === '.') continue;
    if (part === '..') {
      walked.pop();
      continue;
    }
    const at = path.join(root, ...walked, part);
    if (!(await statOf(at)).isSymbolicLink()) {
      walked.push(part);
      continue;
    }
    if (++links > maxLinks) throw new DiskError('UNSAFE_PATH', `${path.join(root, relative)}: too many symbolic links`);
    const target = await readlink(at);
    if (path.isAbsolute(target)) walked = [];
    waiting.unshift(...target.split('/'));
  }
  return path.join(root, ...walked);
}

/** As `resolveInRoot`, and the result is an ordinary file (not a device, pipe or directory): `UNSAFE_PATH` else. */
export async function resolveFileInRoot(root: string, relative: string): Promise<string> {
  const file = await resolveInRoot(root, relative);
  if ((await statOf(file)).isFile()) return file;
  throw new DiskError('UNSAFE_PATH', `${file} is not an ordinary file`);
}

async function statOf(file: string) {
  try {
    return await lstat(file);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      throw new DiskError('IMAGE_MISSING', `${file} does not exist`, { cause: error });
    }
    throw new DiskError('UNSAFE_PATH', `${file} cannot be looked at: ${errorMessage(error)}`, { cause: error });
  }
}

/** lstat that gives undefined when nothing is there. */
export async function lstatIfThere(file: string) {
  return lstat(file).catch((error: unknown) => {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  });
}
