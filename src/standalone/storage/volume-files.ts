import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import {
  copyFile,
  type FileHandle,
  lstat,
  mkdir,
  open,
  readdir,
  rename,
  rm,
  statfs,
  writeFile,
} from 'node:fs/promises';
import path from 'node:path';
import { errorCode, errorMessage, Turn } from '../../base/index.ts';
import { syncDirectory } from '../../host/index.ts';
import { NodeError } from '../errors.ts';
import { isHandle } from './driver.ts';

export interface VolumeFilesOptions {
  /** Holds a directory per volume, by its handle. */
  readonly volumesDir: string;
  /** Holds a file per snapshot. */
  readonly snapshotsDir: string;
  /** QEMU's user, to whom volumes with a file system belong. */
  readonly owner: { readonly uid: number; readonly gid: number };
}

export interface VolumeShape {
  readonly sizeBytes: number;
  /** Pods have a device of it, and never its file. */
  readonly isBlock: boolean;
}

export type CopySource = { readonly volume: string } | { readonly snapshot: string };

/** How a disk is copied that may be written to. */
export interface CopyOptions {
  readonly signal: AbortSignal;
  /** Rejects when a pod has the volume. No pod gets it from now on until the copy is made. */
  readonly requireUnused: () => Promise<void>;
}

const imageName = 'disk.img';
const drafts = /^\..+\.(?:new|deleted)$/;

/**
 * What volumes and snapshots hold, on disk: `<volumes>/<handle>/disk.img` and `<snapshots>/<handle>.img`, sparse files. Each appears whole, by a
 * rename after its data is on the disk, and goes by a rename, too: what was begun and not finished has a name that no volume has. A pod may put
 * anything in the place of its disk: links are never followed. Rejects with NodeError VOLUME_DAMAGED, NOT_FOUND, or the system's error.
 */
export class VolumeFiles {
  readonly #options: VolumeFilesOptions;
  #canShare: Promise<boolean> | undefined;
  /** Handles of volumes that no pod may get now. */
  readonly #copied: string[] = [];
  /** What changes the size of a disk, and what replaces one. */
  readonly #sizes = new Turn();

  constructor(options: VolumeFilesOptions) {
    this.#options = options;
  }

  /** Removes what an earlier process had begun. Before anything else is asked for. */
  async sweep(): Promise<void> {
    const { volumesDir, snapshotsDir } = this.#options;
    for (const dir of [volumesDir, snapshotsDir]) {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      for (const name of await readdir(dir)) {
        if (drafts.test(name)) await rm(path.join(dir, name), { recursive: true, force: true });
      }
    }
  }

  directory(handle: string): string {
    return path.join(this.#options.volumesDir, checked(handle));
  }

  image(handle: string): string {
    return path.join(this.directory(handle), imageName);
  }

  /** What is wrong with the data of a volume, in words that follow "its data"; undefined: it is there. */
  async problem(handle: string): Promise<string | undefined> {
    for (const file of [this.directory(handle), this.image(handle)]) {
      const found = await lstat(file).catch((error: unknown) => error);
      if (found instanceof Error) return `is gone: ${file} cannot be looked at (${errorCode(found) ?? found.message})`;
    }
    return undefined;
  }

  /** It is copied block by block, so that nobody may write to it. */
  isBeingCopied(handle: string): boolean {
    return this.#copied.includes(handle);
  }

  async sizeOf(source: CopySource): Promise<number> {
    const handle = await openDisk(this.#fileOf(source), constants.O_RDONLY);
    try {
      return (await handle.stat()).size;
    } finally {
      await handle.close();
    }
  }

  /** Makes the volume, unless it is there. With a source it begins with all that is in that. */
  async create(
    handle: string,
    shape: VolumeShape,
    source: CopySource | undefined,
    options: CopyOptions,
  ): Promise<void> {
    const dir = this.directory(handle);
    if (await lstat(this.image(handle)).catch(() => undefined)) return;
    const isThere = await lstat(dir).catch(() => undefined);
    const draft = draftIn(this.#options.volumesDir);
    await mkdir(draft, { mode: 0o700 });
    try {
      await this.#fill(path.join(draft, imageName), shape, source, options);
      // Of an older version, which left the disk to the first guest.
      if (isThere?.isDirectory()) await rename(path.join(draft, imageName), this.image(handle));
      else {
        await this.#open(draft, shape);
        await rename(draft, dir);
      }
      await syncDirectory(isThere ? dir : this.#options.volumesDir);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
  }

  /** Makes a disk larger; QEMU may have it open. One that is as large already stays. */
  grow(handle: string, sizeBytes: number): Promise<void> {
    return this.#sizes.take(async () => {
      const disk = await openDisk(this.image(handle), constants.O_RDWR);
      try {
        if ((await disk.stat()).size >= sizeBytes) return;
        await disk.truncate(sizeBytes);
        await disk.sync();
      } finally {
        await disk.close();
      }
    });
  }

  /**
   * Puts another disk, a file on the same file system, in the place of the volume's, which nobody has open: whole and synced, by one rename. It has
   * `sizeBytes`, or as many as the volume has by then, and belongs to whom that belongs to.
   */
  replace(handle: string, disk: string, sizeBytes: number): Promise<void> {
    return this.#sizes.take(async () => {
      const file = this.image(handle);
      // A link that a guest's QEMU made is replaced, never followed.
      const { uid, gid, size } = await lstat(file);
      const made = await openDisk(disk, constants.O_RDWR);
      try {
        await made.truncate(Math.max(sizeBytes, size));
        await made.chmod(0o600);
        await made.chown(uid, gid);
        await made.sync();
      } finally {
        await made.close();
      }
      await rename(disk, file);
      await syncDirectory(this.directory(handle));
    });
  }

  /** libvirt takes a disk back from QEMU's user when its VM ends. */
  async giveToQemu(handle: string): Promise<void> {
    const disk = await openDisk(this.image(handle), constants.O_RDONLY);
    const { uid, gid } = this.#options.owner;
    await disk.chown(uid, gid).finally(() => disk.close());
  }

  async remove(handle: string): Promise<void> {
    await removeWhole(this.#options.volumesDir, checked(handle));
  }

  /** Size of the snapshot in bytes. One that is there already stays as it is. */
  async snapshot(volume: string, handle: string, options: CopyOptions): Promise<number> {
    const file = this.#fileOf({ snapshot: handle });
    if (!(await lstat(file).catch(() => undefined))) {
      const draft = draftIn(this.#options.snapshotsDir);
      try {
        await this.#copy({ volume }, draft, options);
        const made = await open(draft, constants.O_RDONLY | constants.O_NOFOLLOW);
        try {
          await made.chmod(0o600);
          await made.sync();
        } finally {
          await made.close();
        }
        await rename(draft, file);
        await syncDirectory(this.#options.snapshotsDir);
      } finally {
        await rm(draft, { force: true });
      }
    }
    return this.sizeOf({ snapshot: handle });
  }

  async removeSnapshot(handle: string): Promise<void> {
    await removeWhole(this.#options.snapshotsDir, `${checked(handle)}.img`);
  }

  /** Free for this program, in bytes. */
  async freeBytes(): Promise<number> {
    const { bavail, bsize } = await statfs(this.#options.volumesDir);
    return bavail * bsize;
  }

  /** Do two files share what they have in common (FICLONE)? Then a copy is of one moment, and made at once. */
  canShare(): Promise<boolean> {
    this.#canShare ??= probeSharing(this.#options.snapshotsDir).catch((error: unknown) => {
      this.#canShare = undefined;
      throw error;
    });
    return this.#canShare;
  }

  async #fill(
    file: string,
    { sizeBytes, isBlock }: VolumeShape,
    source: CopySource | undefined,
    options: CopyOptions,
  ): Promise<void> {
    if (source) await this.#copy(source, file, options);
    const disk = await open(file, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
    try {
      if ((await disk.stat()).size < sizeBytes) await disk.truncate(sizeBytes);
      const { uid, gid } = this.#options.owner;
      await disk.chmod(0o600);
      if (!isBlock) await disk.chown(uid, gid);
      await disk.sync();
    } finally {
      await disk.close();
    }
  }

  async #copy(source: CopySource, target: string, { signal, requireUnused }: CopyOptions): Promise<void> {
    if ('snapshot' in source || (await this.canShare())) return copy(this.#fileOf(source), target, signal);
    this.#copied.push(source.volume);
    try {
      // Only now: a pod that comes later finds the mark, and one that came before is seen.
      await requireUnused();
      await copy(this.#fileOf(source), target, signal);
    } finally {
      this.#copied.splice(this.#copied.indexOf(source.volume), 1);
    }
  }

  /** QEMU is in the group of /dev/kvm, and not in its own. */
  async #open(dir: string, { isBlock }: VolumeShape): Promise<void> {
    const handle = await open(dir, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    try {
      const { uid, gid } = this.#options.owner;
      if (!isBlock) {
        await handle.chown(uid, gid);
        await handle.chmod(0o770);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
  }

  #fileOf(source: CopySource): string {
    if ('volume' in source) return this.image(source.volume);
    return path.join(this.#options.snapshotsDir, `${checked(source.snapshot)}.img`);
  }
}

/** Of a name of its own: a copy that outlived its node may still write to an older one. */
function draftIn(dir: string): string {
  return path.join(dir, `.${randomUUID()}.new`);
}

function checked(handle: string): string {
  if (isHandle(handle)) return handle;
  throw new NodeError('VOLUME_DAMAGED', `${JSON.stringify(handle)} is no handle of a volume`);
}

async function openDisk(file: string, mode: number): Promise<FileHandle> {
  const flags = mode | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const handle = await open(file, flags).catch((cause: unknown) => {
    const code = errorCode(cause);
    if (code === 'ENOENT') throw new NodeError('NOT_FOUND', `${file} is gone: put it back`, { cause });
    if (code !== 'ELOOP') throw cause;
    throw new NodeError('VOLUME_DAMAGED', `${file} is a symbolic link: put the disk itself there`, { cause });
  });
  const found = await handle.stat();
  if (found.isFile() && found.nlink === 1) return handle;
  await handle.close();
  const what = found.isFile() ? `has ${found.nlink} names (hard links)` : 'is not an ordinary file';
  throw new NodeError('VOLUME_DAMAGED', `${file} ${what}: put a disk of its own there`);
}

/** By what was opened, so that the name may change meanwhile. Holes stay holes; what the file system can share is shared. */
async function copy(source: string, target: string, signal: AbortSignal): Promise<void> {
  const handle = await openDisk(source, constants.O_RDONLY);
  try {
    await handle.sync();
    await runCopy(handle.fd, target, signal);
  } finally {
    await handle.close();
  }
}

function runCopy(descriptor: number, target: string, signal: AbortSignal): Promise<void> {
  const args = ['--reflink=auto', '--sparse=always', '--no-preserve=all', '--', '/proc/self/fd/0', target];
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C' };
  return new Promise((resolve, reject) => {
    const child = spawn('cp', args, { stdio: [descriptor, 'ignore', 'pipe'], env, signal, killSignal: 'SIGKILL' });
    let complaint = '';
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      complaint = `${complaint}${text}`.slice(0, 1_000);
    });
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve();
      else
        reject(new NodeError('VOLUME_DAMAGED', `the copy has failed: ${complaint.trim() || `cp ended with ${code}`}`));
    });
  });
}

/** Its name goes first and at once: nobody finds a half of it. */
async function removeWhole(dir: string, name: string): Promise<void> {
  const gone = path.join(dir, `.${name}.deleted`);
  await rm(gone, { recursive: true, force: true });
  try {
    await rename(path.join(dir, name), gone);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  await rm(gone, { recursive: true, force: true });
  await syncDirectory(dir);
}

async function probeSharing(dir: string): Promise<boolean> {
  const [one, other] = [draftIn(dir), draftIn(dir)];
  try {
    await writeFile(one, 'x', { mode: 0o600 });
    await copyFile(one, other, constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch (error) {
    if (['ENOTSUP', 'EOPNOTSUPP', 'EINVAL', 'ENOSYS', 'ENOTTY', 'EXDEV'].includes(errorCode(error) ?? '')) return false;
    throw new NodeError('VOLUME_DAMAGED', `${dir} cannot be written to: ${errorMessage(error)}`, { cause: error });
  } finally {
    await rm(one, { force: true });
    await rm(other, { force: true });
  }
}
