import path from 'node:path';
import { openNoFollow } from '../host/index.ts';
import { isOneElement, type LauncherTarget, type SocketOptions, socketsDirectory } from './sockets.ts';

/**
 * Tells when something appears in the directories in which a launcher will make its socket, so that a start waits for no
 * timer. A directory that is not there yet, or that cannot be watched, is left to the caller's retry.
 */
export class SocketWatch {
  readonly #watchers: { close(): void }[];

  constructor(target: LauncherTarget, { podsDir, nodeName }: SocketOptions, onAppeared: () => void) {
    this.#watchers = Object.entries(target.activePods)
      .filter(([podUid, node]) => isOneElement(podUid) && (nodeName === '' || node === nodeName))
      .flatMap(([podUid]) => watchDirectory(podsDir, path.join(podUid, socketsDirectory), onAppeared) ?? []);
  }

  /** Safe to call twice. */
  close(): void {
    for (const watcher of this.#watchers.splice(0)) watcher.close();
  }
}

function watchDirectory(podsDir: string, relative: string, onAppeared: () => void): { close(): void } | undefined {
  try {
    const directory = openNoFollow(podsDir, relative);
    try {
      return directory.watchNames(onAppeared);
    } finally {
      directory.close();
    }
  } catch {
    return undefined;
  }
}
