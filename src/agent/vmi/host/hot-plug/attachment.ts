import { errorCode, errorMessage } from '../../../../base/index.ts';
import {
  type BlockDevice,
  deviceNumbersOf,
  isPlainFile,
  isProcessAlive,
  listenerOf,
  openInRoot,
  openNoFollow,
  type ProcessId,
  type SafePath,
  type Storage,
  StorageError,
  type StorageUser,
} from '../../../../host/index.ts';
import { HostError } from '../errors.ts';
import { hotPlugDirectory } from './mount-record.ts';

/**
 * The attachment pod: virt-controller makes it for what is plugged, the kubelet mounts its claims, and its one process does nothing
 * but listen. Claims with a file system are at `/<volume>` in it, those of block devices are nodes `/path/<volume>/<claim's UID>`,
 * where `/path` is a directory of the pod.
 */

export interface AttachmentOptions {
  readonly podsDir: string;
  readonly procDir: string;
}

const socketName = 'hp.sock';
/** Where its container has the pod's directory of hot-plugged disks. */
const sharedDirectory = 'path';
const imageName = 'disk.img';
const connectMs = 5_000;
const maxNodes = 64;

/** The pod or its process is not there yet. */
const notYet = new Set(['ENOENT', 'ENOTDIR', 'ECONNREFUSED', 'CLOSED', 'TIMEOUT']);

/** Not there yet and no error: waited for. */
export type Source<T> =
  | { readonly kind: 'found'; readonly source: T }
  | { readonly kind: 'missing'; readonly because: string };

/** For the time of one call. */
export class Attachment {
  readonly #podUid: string;
  readonly #options: AttachmentOptions;
  #process: Promise<Source<ProcessId>> | undefined;

  constructor(podUid: string, options: AttachmentOptions) {
    this.#podUid = podUid;
    this.#options = options;
  }

  /** The node of a block volume. Throws HostError HOTPLUG_SOURCE. */
  device(volume: string): Source<BlockDevice> {
    const directory = this.#open(`/${volume}`);
    if (!directory) return missing(`the attachment pod has no device of volume ${volume} yet`);
    try {
      const device = onlyDevice(directory);
      return device ? found(device) : missing(`the attachment pod has no device of volume ${volume} yet`);
    } catch (cause) {
      throw unusable(volume, cause);
    } finally {
      directory.close();
    }
  }

  /** The process that has the volumes with file systems mounted, asked for once. Rejects with HOTPLUG_SOURCE. */
  process(): Promise<Source<ProcessId>> {
    this.#process ??= this.#findProcess();
    return this.#process;
  }

  async #findProcess(): Promise<Source<ProcessId>> {
    const directory = this.#open('');
    if (!directory) return missing('the attachment pod is not on this node yet');
    try {
      return await this.#listener(directory);
    } finally {
      directory.close();
    }
  }

  async #listener(directory: SafePath): Promise<Source<ProcessId>> {
    let socket: SafePath | undefined;
    try {
      socket = directory.child(socketName);
      if (!socket.stat().isSocket()) throw new HostError('HOTPLUG_SOURCE', `${socket.shown} is no socket`);
      const { pid, startTime } = await listenerOf(socket.socketAddress, connectMs);
      if (!this.#seesDirectory(pid, directory)) {
        const problem = `process ${pid}, which listens on ${socket.shown}, is not the attachment pod's`;
        throw new HostError('HOTPLUG_SOURCE', problem);
      }
      return found({ pid, startTime });
    } catch (cause) {
      if (notYet.has(errorCode(cause) ?? '')) return missing('the attachment pod does not listen yet');
      if (cause instanceof HostError) throw cause;
      throw new HostError('HOTPLUG_SOURCE', `the attachment pod cannot be used: ${errorMessage(cause)}`, { cause });
    } finally {
      socket?.close();
    }
  }

  /** Whoever can write to the directory can put a socket there; no program of the machine, and none of another pod, sees this one. */
  #seesDirectory(pid: number, directory: SafePath): boolean {
    try {
      const seen = openInRoot(`${this.#options.procDir}/${pid}/root`, sharedDirectory);
      try {
        const [one, other] = [seen.identity(), directory.identity()];
        return one.dev === other.dev && one.ino === other.ino;
      } finally {
        seen.close();
      }
    } catch {
      return false;
    }
  }

  #open(below: string): SafePath | undefined {
    try {
      return openNoFollow(this.#options.podsDir, `${this.#podUid}/${hotPlugDirectory}${below}`);
    } catch (cause) {
      if (errorCode(cause) === 'ENOENT' || errorCode(cause) === 'ENOTDIR') return undefined;
      throw new HostError('HOTPLUG_SOURCE', `the attachment pod cannot be used: ${errorMessage(cause)}`, { cause });
    }
  }
}

export interface VolumeSource {
  readonly process: ProcessId;
  readonly volume: string;
  readonly isDirectory: boolean;
  readonly user: StorageUser;
}

/**
 * A mounted volume of the attachment pod's process: its directory, or the image in it. Links are not followed: what they say is the
 * content of a claim, whose storage may not answer. Rejects with HostError HOTPLUG_SOURCE or StorageError. Who gets it closes it.
 */
export async function openVolume(
  { process, volume, isDirectory, user }: VolumeSource,
  { storage, procDir }: { readonly storage: Storage; readonly procDir: string },
): Promise<Source<SafePath>> {
  const directory = mountedVolume(process, volume, procDir);
  if (!directory) return missing(`the attachment pod has no volume ${volume} yet`);
  let opened: SafePath | undefined;
  try {
    // Both kinds: what does not answer now would hold QEMU, too.
    await storage.answers(directory, user);
    opened = isDirectory ? directory : await imageIn(directory, storage, user);
    // What was opened by its pid is of it only if it lived until now.
    if (!isProcessAlive(process)) {
      opened?.close();
      return missing('the attachment pod has ended');
    }
    return opened ? found(opened) : missing(`volume ${volume} has no ${imageName} yet`);
  } catch (cause) {
    opened?.close();
    directory.close();
    throw unusable(volume, cause);
  } finally {
    if (opened !== directory) directory.close();
  }
}

/** Asks no server: what is mounted is opened by its name alone. */
function mountedVolume(process: ProcessId, volume: string, procDir: string): SafePath | undefined {
  const root = openInRoot(`${procDir}/${process.pid}/root`, '/');
  try {
    // A directory of its image would be no claim.
    return root.isMountPoint(volume) ? root.directory(volume) : undefined;
  } catch (cause) {
    throw unusable(volume, cause);
  } finally {
    root.close();
  }
}

async function imageIn(directory: SafePath, storage: Storage, user: StorageUser): Promise<SafePath | undefined> {
  let image: SafePath | undefined;
  try {
    image = await storage.child(directory, imageName, user);
    if (isPlainFile(await storage.stat(image, user)) && image.isOnMountOf(directory)) return image;
    throw new HostError('HOTPLUG_SOURCE', `${image.shown} is no plain file of the volume`);
  } catch (error) {
    image?.close();
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function onlyDevice(directory: SafePath): BlockDevice | undefined {
  const devices = directory.someNames(maxNodes).flatMap((name) => {
    const entry = directory.entry(name);
    try {
      const stat = entry.stat();
      return stat.isBlockDevice() ? deviceNumbersOf(stat.rdev) : [];
    } finally {
      entry.close();
    }
  });
  if (devices.length <= 1) return devices[0];
  throw new HostError('HOTPLUG_SOURCE', `${directory.shown} has ${devices.length} devices, and one of them is meant`);
}

function found<T>(source: T): Source<T> {
  return { kind: 'found', source };
}

function missing(because: string): { readonly kind: 'missing'; readonly because: string } {
  return { kind: 'missing', because };
}

function unusable(volume: string, cause: unknown): HostError | StorageError {
  if (cause instanceof HostError || cause instanceof StorageError) return cause;
  const problem = `volume ${volume} of the attachment pod cannot be used: ${errorMessage(cause)}`;
  return new HostError('HOTPLUG_SOURCE', problem, { cause });
}
