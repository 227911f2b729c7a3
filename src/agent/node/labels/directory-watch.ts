import { type FSWatcher, statSync, watch } from 'node:fs';
import path from 'node:path';
import type { Clock } from '../../../base/index.ts';

export interface DirectoryWatchDeps {
  readonly clock: Clock;
  readonly onChange: () => void;
}

/** After the last change: a file that is being written is read once. */
const quietMs = 200;
/** After the first change: writing without end does not keep the reader away. */
const latestMs = 2_000;

/**
 * Calls back after something in a directory has changed, once for many changes. A directory that is not there yet, or is
 * replaced by another, is waited for at its nearest parent. A watch that fails is tried again by the next `follow`.
 */
export class DirectoryWatch {
  readonly #dir: string;
  readonly #deps: DirectoryWatchDeps;
  #watchers: FSWatcher[] = [];
  #followed = '';
  #isRunning = false;
  #firstMs: number | undefined;
  #cancel: (() => void) | undefined;

  constructor(options: { readonly dir: string }, deps: DirectoryWatchDeps) {
    this.#dir = path.resolve(options.dir);
    this.#deps = deps;
  }

  start(): void {
    this.#isRunning = true;
    this.follow();
  }

  stop(): void {
    this.#isRunning = false;
    this.#cancel?.();
    this.#close();
  }

  /** Looks whether the right directories are watched. To be called before the directory is read, so that no change is missed. */
  follow(): void {
    if (!this.#isRunning) return;
    const watched = watchedOf(this.#dir);
    const wanted = watched.map(({ directory, inode }) => `${directory} ${inode}`).join('\n');
    if (wanted === this.#followed) return;
    this.#close();
    this.#followed = wanted;
    for (const { directory, only } of watched) this.#watch(directory, only);
  }

  #watch(directory: string, only: string | undefined): void {
    try {
      const watcher = watch(directory, (_event, name) => {
        if (only === undefined || name === null || name === only) this.#changed();
      });
      watcher.on('error', () => this.#lost());
      this.#watchers.push(watcher);
    } catch {
      this.#followed = '';
    }
  }

  #lost(): void {
    this.#close();
    this.#changed();
  }

  #changed(): void {
    if (!this.#isRunning) return;
    const { clock, onChange } = this.#deps;
    const nowMs = clock.monotonicMs();
    this.#firstMs ??= nowMs;
    this.#cancel?.();
    this.#cancel = clock.schedule(Math.min(quietMs, Math.max(0, this.#firstMs + latestMs - nowMs)), () => {
      this.#firstMs = undefined;
      this.#cancel = undefined;
      this.follow();
      onChange();
    });
  }

  #close(): void {
    for (const watcher of this.#watchers.splice(0)) watcher.close();
    this.#followed = '';
  }
}

interface Watched {
  readonly directory: string;
  readonly inode: number;
  /** The one entry that counts there. */
  readonly only: string | undefined;
}

/** The directory, and its parent for the case that it is replaced; what of it is there, else the nearest parent. */
function watchedOf(dir: string): Watched[] {
  const parent = path.dirname(dir);
  const inode = inodeOf(dir);
  const up = parent === dir ? [] : nearest(parent, path.basename(dir));
  return inode === undefined ? up : [{ directory: dir, inode, only: undefined }, ...up];
}

function nearest(dir: string, only: string): Watched[] {
  const inode = inodeOf(dir);
  if (inode !== undefined) return [{ directory: dir, inode, only }];
  const parent = path.dirname(dir);
  return parent === dir ? [] : nearest(parent, path.basename(dir));
}

function inodeOf(dir: string): number | undefined {
  try {
    const stats = statSync(dir);
    return stats.isDirectory() ? stats.ino : undefined;
  } catch {
    return undefined;
  }
}
