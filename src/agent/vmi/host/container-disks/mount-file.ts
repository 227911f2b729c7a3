import { errorCode, errorMessage } from '../../../../base/index.ts';
import type { HostMounts, SafePath } from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import type { MountEntry } from './mount-records.ts';
import { withOpened } from './sidecar.ts';
import { kernelBootName, type WantedFile } from './wanted-disks.ts';

/** Mounts upon each other: more than any agent makes, and a bound for a kernel that keeps saying so. */
const maxStacked = 64;
/** Entries that are looked at: a tenant may have made any number of them. */
const maxEntries = 4096;
/** A kernel and an initrd, and what a tenant adds. */
const maxArtefacts = 64;

/** `kernel-boot` in the directory of container disks, as upstream's agent makes it. Throws HostError MOUNT_TARGET. */
export function openKernelBoot(directory: SafePath): SafePath {
  return targetOf(directory, kernelBootName, () => {
    ignoring('EEXIST', () => directory.makeDirectory(kernelBootName, 0o755));
    const made = directory.directory(kernelBootName);
    made.setOwner(0, 0, 0o755);
    return made;
  });
}

/**
 * The image appears read-only under its name in a directory that belongs to a tenant. What is mounted there already stays if it is
 * this image, and is replaced if it is another one, as of a side container that was started again. Rejects with HostError
 * MOUNT_TARGET or MountError.
 */
export async function mountFile(
  mounts: HostMounts,
  directory: SafePath,
  file: Pick<WantedFile, 'name' | 'mode'>,
  source: { readonly image: SafePath; readonly pid: number },
): Promise<void> {
  const { name, mode } = file;
  targetOf(directory, name, () => ignoring('EEXIST', () => directory.touch(name, mode)));
  if (isMounted(directory, name, source.image)) {
    // An agent of upstream leaves it writable: Linux ignores MS_RDONLY in the call that binds.
    await useTarget(directory, name, (target) => mounts.protect(target));
    return;
  }
  await unmountAt(mounts, directory, name);
  await useTarget(directory, name, async (target) => {
    if (!target.stat().isFile()) throw new HostError('MOUNT_TARGET', `${target.shown} is no plain file: remove it`);
    await mounts.bind(source.image, target, { readOnly: true, sourcePid: source.pid });
  });
  if (isMounted(directory, name, source.image)) return;
  throw new HostError('MOUNT_TARGET', `something else was put in the place of ${name} while it was mounted`);
}

/**
 * Unmounts all that is mounted on entries of a directory, and of directories in it. Not by the names of a record alone: a tenant
 * whose container does not see the mounts can rename what they are on.
 */
export async function unmountAll(mounts: HostMounts, directory: SafePath, depth = 1): Promise<void> {
  for (const name of directory.someNames(maxEntries)) {
    await unmountAt(mounts, directory, name);
    if (depth === 0) continue;
    const below = openDirectoryIn(directory, name);
    if (!below) continue;
    try {
      await unmountAll(mounts, below, depth - 1);
    } finally {
      below.close();
    }
  }
}

/** What was made for a mount, and the socket of its side container. What does not go now goes with the pod's directory. */
export function removeTraces(directory: SafePath, { target, socket }: Pick<MountEntry, 'target' | 'socket'>): void {
  // Without its socket a side container ends, when the kubelet's signal does not reach it.
  tryTo(() => directory.unlink(socket));
  if (target !== kernelBootName) {
    tryTo(() => directory.unlink(target));
    return;
  }
  const below = openDirectoryIn(directory, target);
  for (const name of below?.someNames(maxArtefacts) ?? []) tryTo(() => below?.unlink(name));
  below?.close();
  tryTo(() => directory.removeDirectory(target));
}

function tryTo(act: () => void): void {
  try {
    act();
  } catch {
    // As said.
  }
}

async function unmountAt(mounts: HostMounts, directory: SafePath, name: string): Promise<void> {
  for (let left = maxStacked; directory.isMountPoint(name); left--) {
    if (left === 0) throw new HostError('MOUNT_TARGET', `${name} in ${directory.shown} stays mounted`);
    const target = directory.child(name);
    try {
      await mounts.unmount(target);
    } catch (error) {
      // By another agent, or with what the tenant removed.
      if (errorCode(error) !== 'NOT_MOUNTED') throw error;
    } finally {
      target.close();
    }
  }
}

function openDirectoryIn(directory: SafePath, name: string): SafePath | undefined {
  try {
    return directory.directory(name);
  } catch {
    return undefined;
  }
}

function isMounted(directory: SafePath, name: string, image: SafePath): boolean {
  if (!directory.isMountPoint(name)) return false;
  return withOpened(directory.child(name), (target) => {
    const [one, other] = [target.identity(), image.identity()];
    return one.dev === other.dev && one.ino === other.ino;
  });
}

async function useTarget(directory: SafePath, name: string, use: (target: SafePath) => Promise<void>): Promise<void> {
  const target = targetOf(directory, name, () => directory.child(name));
  try {
    await use(target);
  } finally {
    target.close();
  }
}

/** A link, or a file where a directory has to be, is the tenant's doing. */
function targetOf<T>(directory: SafePath, name: string, open: () => T): T {
  try {
    return open();
  } catch (cause) {
    const problem = `${name} in ${directory.shown} cannot be mounted on (${errorMessage(cause)})`;
    throw new HostError('MOUNT_TARGET', problem, { cause });
  }
}

function ignoring(code: string, act: () => void): void {
  try {
    act();
  } catch (error) {
    if (errorCode(error) !== code) throw error;
  }
}
