import { lstat, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { LauncherError } from '../errors.ts';

/** A file that a dump goes to. */
export interface DumpFile {
  /** Absolute. */
  readonly file: string;
  /** What tells one dump from another. */
  readonly name: string;
}

/** Names that upstream's agent and ours give: `<vmi>-<volume>-<time>.memory.dump`. */
const suffix = '.memory.dump';

/**
 * `dumpPath` as a file directly in the directory of a volume that was plugged in. Throws INVALID_REQUEST for every other place: the
 * launcher, which may be root in its pod, writes there and deletes older dumps.
 */
export function dumpFileOf(dumpPath: string, hotplugDir: string): DumpFile {
  const relative = path.relative(hotplugDir, dumpPath);
  const [volume = '', name = '', ...deeper] = relative.split('/');
  const isPlain = path.isAbsolute(dumpPath) && path.normalize(dumpPath) === dumpPath && !/[\0\n]/.test(dumpPath);
  if (isPlain && !relative.startsWith('..') && volume !== '' && name.endsWith(suffix) && deeper.length === 0) {
    return { file: dumpPath, name };
  }
  throw new LauncherError(
    'INVALID_REQUEST',
    `${JSON.stringify(dumpPath)} is no place for a memory dump: it must be ${path.join(hotplugDir, `<volume>/<name>${suffix}`)}`,
  );
}

/**
 * Makes room: earlier dumps are deleted, as upstream does, and whatever else has the new one's name, which may be a link that a user of
 * the claim has put there. Throws INVALID_REQUEST when the volume is not there, SETUP_FAILED with the file that cannot be deleted.
 */
export async function makeRoom({ file }: DumpFile): Promise<void> {
  const directory = path.dirname(file);
  const stats = await lstat(directory).catch(() => undefined);
  if (!stats?.isDirectory()) {
    const why = stats
      ? 'is no file system: the claim of a memory dump needs volumeMode Filesystem'
      : 'is not there yet';
    throw new LauncherError('INVALID_REQUEST', `volume ${path.basename(directory)} ${why}`);
  }
  for (const name of await readdir(directory)) {
    if (!name.includes('memory.dump')) continue;
    try {
      await rm(path.join(directory, name));
    } catch (cause) {
      const why = `the earlier memory dump ${name} cannot be deleted from volume ${path.basename(directory)}`;
      throw new LauncherError('SETUP_FAILED', why, { cause });
    }
  }
}
