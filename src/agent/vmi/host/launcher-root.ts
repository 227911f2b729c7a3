import type { Stats } from 'node:fs';
import { errorCode } from '../../../base/index.ts';
import { openBelow, openInRoot, openTrusted, qemuId, type SafePath } from '../../../host/index.ts';

/** The file system of one launcher, as its own processes see it. Everything in it belongs to a tenant. */
export class LauncherRoot {
  readonly #root: string;

  constructor(pid: number, procDir = '/proc') {
    this.#root = `${procDir}/${pid}/root`;
  }

  /** Runs `use` on an opened place and closes it; undefined when there is no such place. Links are followed within the root. */
  use<T>(path: string, use: (opened: SafePath) => T): T | undefined {
    return using(() => openInRoot(this.#root, path), use);
  }

  /**
   * The same below `/var/run`, where the launcher itself may write: it could lead a caller that follows its links to any path of
   * its image. A link there is refused with SafePathError SYMLINK.
   */
  useRunning<T>(path: string, use: (opened: SafePath) => T): T | undefined {
    return using(() => openBelow(this.#root, '/var/run', path), use);
  }

  /** Gives a device to the user qemu unless it has it already; false when there is none. */
  giveToQemu(path: string): boolean {
    return this.use(path, giveToQemu) !== undefined;
  }

  /** The standalone node's launchers share the machine's own device directory: its owners are not ours to change. */
  sharesDevicesWith(hostDev: string): boolean {
    const own = statsOf(hostDev);
    // A guarded process 1 hides the machine's devices from a pod; those of a launcher's container are its own anyway.
    if (!own) return false;
    return this.use('/dev', (dev) => dev.stat().dev === own.dev && dev.stat().ino === own.ino) ?? false;
  }
}

export function giveToQemu(opened: SafePath): true {
  const { uid, gid } = opened.stat();
  if (uid !== qemuId || gid !== qemuId) opened.setOwner(qemuId, qemuId);
  return true;
}

function using<T>(open: () => SafePath, use: (opened: SafePath) => T): T | undefined {
  let opened: SafePath;
  try {
    opened = open();
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENOTDIR') return undefined;
    throw error;
  }
  try {
    return use(opened);
  } finally {
    opened.close();
  }
}

function statsOf(directory: string): Stats | undefined {
  try {
    const opened = openTrusted(directory);
    try {
      return opened.stat();
    } finally {
      opened.close();
    }
  } catch {
    return undefined;
  }
}
