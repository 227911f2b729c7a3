import { errorCode, errorMessage } from '../../../../base/index.ts';
import {
  isProcessAlive,
  listenerOf,
  openInRoot,
  type ProcessId,
  type SafePath,
  SafePathError,
} from '../../../../host/index.ts';
import { HostError } from '../errors.ts';

/** Where a side container has the pod's directory of container disks, by the VMI's UID. */
const sharedDirectory = '/var/run/kubevirt/container-disks';
const defaultImageDirectory = 'disk';
const connectMs = 5_000;

/** It is not there yet, or does not listen yet: no error for a while. */
const notYet = new Set(['ENOENT', 'ECONNREFUSED', 'CLOSED', 'TIMEOUT']);

export interface SidecarOptions {
  readonly procDir: string;
  readonly vmiUid: string;
}

/** A process whose root directory is an image. */
export interface Sidecar extends ProcessId {
  readonly what: string;
}

/**
 * The side container that listens on a socket in the pod's directory of container disks, from the kernel and not from what it says;
 * undefined while there is none. The tenant can put any socket there, so the process must see that very directory as a side
 * container does: neither the machine's programs nor other pods' do. Throws HostError DISK_CONTAINER.
 */
export async function findSidecar(
  directory: SafePath,
  socket: string,
  what: string,
  options: SidecarOptions,
): Promise<Sidecar | undefined> {
  const process = await listenerIn(directory, socket, what);
  if (!process) return undefined;
  if (!seesDirectory(process, directory, options)) {
    const problem = `${what}: process ${process.pid}, which listens on ${socket}, is no side container of this pod`;
    throw new HostError('DISK_CONTAINER', problem);
  }
  return { ...process, what };
}

async function listenerIn(directory: SafePath, socket: string, what: string): Promise<ProcessId | undefined> {
  let opened: SafePath | undefined;
  try {
    opened = directory.child(socket);
    if (!opened.stat().isSocket()) throw new HostError('DISK_CONTAINER', `${what}: ${opened.shown} is no socket`);
    const { pid, startTime } = await listenerOf(opened.socketAddress, connectMs);
    return { pid, startTime };
  } catch (cause) {
    if (notYet.has(errorCode(cause) ?? '')) return undefined;
    if (cause instanceof HostError) throw cause;
    throw new HostError('DISK_CONTAINER', `${what}: ${socket} cannot be used: ${errorMessage(cause)}`, { cause });
  } finally {
    opened?.close();
  }
}

function seesDirectory({ pid }: ProcessId, directory: SafePath, { procDir, vmiUid }: SidecarOptions): boolean {
  try {
    return withOpened(openInRoot(`${procDir}/${pid}/root`, `${sharedDirectory}/${vmiUid}`), (seen) => {
      const [one, other] = [seen.identity(), directory.identity()];
      return one.dev === other.dev && one.ino === other.ino;
    });
  } catch (cause) {
    if (errorCode(cause) !== 'EACCES' && errorCode(cause) !== 'EPERM') return false;
    const advice = 'this agent needs CAP_SYS_PTRACE in the host pid namespace';
    const problem = `process ${pid} of this pod cannot be looked into (${errorMessage(cause)}): ${advice}`;
    throw new HostError('DISK_CONTAINER', problem, { cause });
  }
}

/**
 * Opens the image of a side container: a plain file of the image itself, found by links that stay within it. What else is
 * mounted in the container, such as /proc, is not looked into. Throws HostError DISK_IMAGE or DISK_CONTAINER.
 */
export function openImage(sidecar: Sidecar, imagePath: string | undefined, { procDir }: SidecarOptions): SafePath {
  const root = `${procDir}/${sidecar.pid}/root`;
  const image = opened(() => openInRoot(root, imagePath ?? onlyDisk(root, sidecar.what)), sidecar.what, imagePath);
  try {
    if (!image.stat().isFile()) throw unusable(sidecar.what, `${image.shown} is no plain file`);
    if (!withOpened(openInRoot(root, '/'), (top) => image.isOnMountOf(top))) {
      throw unusable(sidecar.what, `${image.shown} is not of the image, but mounted in its container`);
    }
    // What was opened by its pid is its root only if it lived until now.
    if (!isProcessAlive(sidecar))
      throw new HostError('DISK_CONTAINER', `${sidecar.what}: its side container has ended`);
    return image;
  } catch (error) {
    image.close();
    throw error;
  }
}

function opened(open: () => SafePath, what: string, imagePath = `/${defaultImageDirectory}`): SafePath {
  try {
    return open();
  } catch (cause) {
    if (cause instanceof HostError) throw cause;
    const isMissing = errorCode(cause) === 'ENOENT' || errorCode(cause) === 'ENOTDIR';
    const reason = cause instanceof SafePathError || !isMissing ? errorMessage(cause) : 'it is not there';
    throw unusable(what, `${imagePath} cannot be opened in the image: ${reason}`, cause);
  }
}

function onlyDisk(root: string, what: string): string {
  const names = withOpened(openInRoot(root, defaultImageDirectory), (directory) => directory.someNames(2));
  const [only, ...others] = names;
  if (only === undefined) throw unusable(what, `/${defaultImageDirectory} of the image is empty`);
  if (others.length === 0) return `${defaultImageDirectory}/${only}`;
  throw unusable(what, `/${defaultImageDirectory} of the image has more than one file: set path to one of them`);
}

function unusable(what: string, problem: string, cause?: unknown): HostError {
  return new HostError('DISK_IMAGE', `${what}: ${problem}`, { cause });
}

export function withOpened<T>(opened: SafePath, use: (opened: SafePath) => T): T {
  try {
    return use(opened);
  } finally {
    opened.close();
  }
}
