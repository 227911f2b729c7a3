import path from 'node:path';
import type { LauncherTarget } from '../api/index.ts';
import { errorCode, errorMessage } from '../base/index.ts';
import { openNoFollow, openTrusted, type SafePath, SafePathError } from '../host/index.ts';
import { LauncherClientError } from './errors.ts';

/** Of a pod's directory, as upstream's `pkg/virt-handler/cmd-client/client.go` has it. */
export const socketsDirectory = 'volumes/kubernetes.io~empty-dir/sockets';
const socketName = 'launcher-sock';
const unresponsiveName = 'launcher-unresponsive';

export interface SocketOptions {
  /** Where the pods' directories are: `/pods` in upstream's DaemonSet. */
  readonly podsDir: string;
  /** Name of this node; pods of other nodes are not looked at. Empty: every pod counts. */
  readonly nodeName: string;
}

/** Paths of the sockets of a VMI's pods on this node that exist, found without following a link. */
export function findSockets(target: LauncherTarget, { podsDir, nodeName }: SocketOptions): string[] {
  const found = Object.entries(target.activePods)
    .filter(([podUid, node]) => isOneElement(podUid) && (nodeName === '' || node === nodeName))
    .map(([podUid]) => path.join(podsDir, podUid, socketsDirectory, socketName))
    .filter((socketFile) => exists(() => openSocket(socketFile, podsDir)));
  if (found.length > 0 || target.socketFile === undefined || hasPodDirectory(target, { podsDir })) return found;
  return [target.socketFile];
}

/** A UID is what the object says: one with `..` in it would lead to sockets of others, beside the pods. */
export function isOneElement(podUid: string): boolean {
  const isName = podUid !== '' && podUid !== '.' && podUid !== '..' && !/[/\0]/.test(podUid);
  return isName && Buffer.byteLength(podUid) <= longestName;
}

/** Of an entry of a directory. */
const longestName = 255;

const podSocket = /\/([^/]+)\/volumes\/kubernetes\.io~empty-dir\/sockets\/[^/]+$/;

/** UID of the pod that a socket belongs to, by its path; undefined elsewhere. */
export function podOfSocket(socketFile: string): string | undefined {
  return podSocket.exec(socketFile)?.[1];
}

/** Sockets of all pods of this node, whatever VMI they are of. Empty when the pods' directory cannot be read. */
export function findAllSockets({ podsDir }: Pick<SocketOptions, 'podsDir'>): string[] {
  return podDirectories(podsDir)
    .map((podUid) => path.join(podsDir, podUid, socketsDirectory, socketName))
    .filter((socketFile) => isThere(() => openSocket(socketFile, podsDir)));
}

/** Any active pod counts, whatever its node, as in upstream's FindPodDirOnHost. */
export function hasPodDirectory(target: LauncherTarget, { podsDir }: Pick<SocketOptions, 'podsDir'>): boolean {
  return Object.keys(target.activePods).some(
    (podUid) => isOneElement(podUid) && exists(() => openNoFollow(podsDir, path.join(podUid, socketsDirectory))),
  );
}

/**
 * Opens a launcher's socket so that it can be dialled by `socketAddress` of the result, whatever is put in its place later.
 * Throws the system's error (ENOENT), SafePathError, or LauncherClientError NO_SOCKET when it is something else.
 */
export function openSocket(socketFile: string, podsDir: string): SafePath {
  const opened = openDirectory(socketFile, podsDir);
  try {
    const socket = opened.child(path.basename(socketFile));
    if (socket.stat().isSocket()) return socket;
    socket.close();
    throw new LauncherClientError('NO_SOCKET', `${socketFile} is not a socket`);
  } finally {
    opened.close();
  }
}

/** The socket's directory: below the pods it belongs to a tenant, elsewhere the path is our own record's. */
function openDirectory(socketFile: string, podsDir: string): SafePath {
  const directory = path.dirname(socketFile);
  const below = path.relative(podsDir, directory);
  if (below === '' || below.startsWith('..') || path.isAbsolute(below)) return openTrusted(directory);
  return openNoFollow(podsDir, below);
}

/** Leaves the mark that upstream's agent understands, too. The mark dies with the pod's volume. */
export function markUnresponsive(socketFile: string, podsDir: string): void {
  const directory = openDirectory(socketFile, podsDir);
  try {
    directory.touch(unresponsiveName, 0o666);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  } finally {
    directory.close();
  }
}

/** False when the pods' directory is not there or empty: then a missing socket proves nothing (a mount may be missing). */
export function hasAnyPod(podsDir: string): boolean {
  return podDirectories(podsDir).length > 0;
}

/** None when the directory cannot be read. */
function podDirectories(podsDir: string): string[] {
  try {
    const opened = openTrusted(podsDir);
    try {
      return opened.names();
    } finally {
      opened.close();
    }
  } catch {
    return [];
  }
}

export function noSocket(target: LauncherTarget): LauncherClientError {
  return new LauncherClientError('NO_SOCKET', `No command socket found for vmi ${target.uid}`);
}

export function multipleSockets({ key }: LauncherTarget): LauncherClientError {
  const text = `Found multiple sockets for vmi ${key}. waiting for only one to exist`;
  return new LauncherClientError('MULTIPLE_SOCKETS', text);
}

/** Throws for anything but "not there": it proves nothing. */
function exists(open: () => SafePath): boolean {
  try {
    open().close();
    return true;
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'NO_SOCKET' || error instanceof SafePathError) return false;
    throw new LauncherClientError('NO_SOCKET', `cannot look for the socket: ${errorMessage(error)}`, { cause: error });
  }
}

/** One pod that cannot be looked into hides no other. */
function isThere(open: () => SafePath): boolean {
  try {
    return exists(open);
  } catch {
    return false;
  }
}
