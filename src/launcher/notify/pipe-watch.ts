import { type FSWatcher, statSync, watch } from 'node:fs';
import path from 'node:path';
import type { Clock } from '../../base/index.ts';

export interface PipeWatchOptions {
  readonly socketPath: string;
  /** A look at the file besides the file system's own news, which some mounts do not give. */
  readonly pollMs: number;
}

/** Calls back when the agent has made a (new) notify pipe. The returned function ends it. */
export function watchPipe(options: PipeWatchOptions, clock: Clock, onAppeared: () => void): () => void {
  const { socketPath, pollMs } = options;
  const name = path.basename(socketPath);
  let inode = inodeOf(socketPath);
  let cancel: (() => void) | undefined;
  const look = () => {
    const now = inodeOf(socketPath);
    const isNew = now !== undefined && now !== inode;
    inode = now;
    if (isNew) onAppeared();
  };
  const poll = () => {
    look();
    cancel = clock.schedule(pollMs, poll);
  };
  const watcher = tryWatch(path.dirname(socketPath), (file) => {
    if (file === name) look();
  });
  cancel = clock.schedule(pollMs, poll);
  return () => {
    cancel?.();
    watcher?.close();
  };
}

/** Inode and creation time: a file system may give a fresh socket the number of the one removed before it. */
function inodeOf(file: string): string | undefined {
  const stat = statSync(file, { throwIfNoEntry: false, bigint: true });
  return stat ? `${stat.ino}/${stat.ctimeNs}` : undefined;
}

function tryWatch(dir: string, onChange: (file: string | null) => void): FSWatcher | undefined {
  try {
    const watcher = watch(dir, (_event, file) => onChange(file));
    watcher.on('error', () => watcher.close());
    return watcher;
  } catch {
    return undefined;
  }
}
