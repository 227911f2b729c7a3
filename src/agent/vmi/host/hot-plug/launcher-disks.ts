import type { HotPlugKind } from '../../../../api/index.ts';
import { errorCode } from '../../../../base/index.ts';
import { type BlockDevice, deviceNumbersOf, type HostMounts, type SafePath } from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import { LauncherRoot } from '../launcher-root.ts';
import { hotPlugDirectory } from './mount-record.ts';

/** Where the launcher sees it, below `/var/run`. */
const launchersDirectory = 'kubevirt/hotplug-disks';
/** What was mounted over and over, by whomever. */
const maxMountsOfOne = 16;

export interface LauncherDisksOptions {
  readonly mounts: HostMounts;
  readonly machinePodsDir: string;
  readonly procDir: string;
}

/** What is in the place of one volume. */
export type Plugged =
  | { readonly kind: 'block'; readonly device: BlockDevice }
  | { readonly kind: 'mounted' }
  /** A file or directory on which nothing is mounted. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'none' }
  /** Neither this agent nor upstream's makes such a thing. */
  | { readonly kind: 'foreign' };

export function nameOf(kind: HotPlugKind, volume: string): string {
  return kind === 'file' ? `${volume}.img` : volume;
}

/**
 * The directory of hot-plugged disks of one launcher's pod, opened in the mount namespace of the machine: what is mounted there
 * comes into the launcher. Its owner may put anything into it, so nothing in it is followed.
 */
export class LauncherDisks {
  readonly podUid: string;
  readonly #directory: SafePath;
  readonly #mounts: HostMounts;

  constructor(podUid: string, directory: SafePath, mounts: HostMounts) {
    this.podUid = podUid;
    this.#directory = directory;
    this.#mounts = mounts;
  }

  close(): void {
    this.#directory.close();
  }

  get directory(): SafePath {
    return this.#directory;
  }

  /** What is mounted is not looked at itself: a file system whose server is gone would hold this whole process. */
  at(name: string): Plugged {
    if (this.#directory.isMountPoint(name)) return { kind: 'mounted' };
    return this.#using(name, (place) => {
      const stat = place.stat();
      if (stat.isBlockDevice()) return { kind: 'block', device: deviceNumbersOf(stat.rdev) };
      return { kind: stat.isFile() || stat.isDirectory() ? 'empty' : 'foreign' };
    });
  }

  /** The volume is there, in whatever form. */
  has(volume: string): boolean {
    const node = this.at(volume).kind;
    return node === 'block' || node === 'mounted' || this.at(`${volume}.img`).kind === 'mounted';
  }

  /**
   * Takes it away, mounts first; a tenant's own directory with files in it is left. It is busy where this agent's own namespace has a
   * copy of the mount: upstream's DaemonSet gives its agent the pods' directory without propagation, with all that is mounted there when
   * the agent starts. Rejects with MountError, or the system's error.
   */
  async remove(name: string): Promise<void> {
    for (let count = 0; this.#directory.isMountPoint(name); count++) {
      if (count === maxMountsOfOne) {
        throw new HostError('MOUNT_TARGET', `${this.#directory.shown}/${name} is mounted over and over: unmount it`);
      }
      await this.#unmount(name);
    }
    try {
      if (this.#isDirectory(name)) this.#directory.removeDirectory(name);
      else this.#directory.unlink(name);
    } catch (error) {
      const code = errorCode(error) ?? '';
      if (code === 'EBUSY') return this.#mounts.remove(this.#directory, name);
      if (!['ENOENT', 'ENOTEMPTY'].includes(code)) throw error;
    }
  }

  async #unmount(name: string): Promise<void> {
    const target = this.#directory.entry(name);
    try {
      await this.#mounts.unmount(target);
    } catch (error) {
      // Another one was quicker.
      if (errorCode(error) !== 'NOT_MOUNTED') throw error;
    } finally {
      target.close();
    }
  }

  #isDirectory(name: string): boolean {
    const place = this.#directory.entry(name);
    try {
      return place.stat().isDirectory();
    } finally {
      place.close();
    }
  }

  /** A link is looked at itself: it is foreign. */
  #using(name: string, look: (place: SafePath) => Plugged): Plugged {
    let place: SafePath;
    try {
      place = this.#directory.entry(name);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return { kind: 'none' };
      throw error;
    }
    try {
      return look(place);
    } finally {
      place.close();
    }
  }
}

/** Of one pod; undefined when it has none, as without hot-plug (`disableHotplug`), or is gone. */
export function openDisksOf(
  podUid: string,
  { mounts, machinePodsDir }: LauncherDisksOptions,
): LauncherDisks | undefined {
  try {
    return new LauncherDisks(podUid, mounts.open(machinePodsDir, `${podUid}/${hotPlugDirectory}`), mounts);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'NOT_CLEAN'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}

/**
 * Of the launcher itself: of the VMI's pods the one whose directory its process sees. Upstream takes the only pod that has one here
 * and does nothing while an old pod is still to go.
 */
export function openLauncherDisks(
  podUids: readonly string[],
  launcherPid: number,
  options: LauncherDisksOptions,
): LauncherDisks | undefined {
  const root = new LauncherRoot(launcherPid, options.procDir);
  const seen = root.useRunning(launchersDirectory, (place) => place.identity());
  if (!seen) return undefined;
  for (const podUid of podUids) {
    const disks = openDisksOf(podUid, options);
    const identity = disks?.directory.identity();
    if (identity?.dev === seen.dev && identity.ino === seen.ino) return disks;
    disks?.close();
  }
  return undefined;
}
