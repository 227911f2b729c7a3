import { rmSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../base/index.ts';
import { lockDirectory } from './directory-lock.ts';
import { readPlainFile, readPlainFileSync } from './plain-file.ts';
import { draftSuffix, replaceFile, replaceFileSync } from './replace-file.ts';

/** Small files of one directory. Rejections are the system's errors with its codes (`ENOSPC`). */
export interface RecordFiles {
  /** Names of the files; the directory is made if absent, drafts of a killed process are gone afterwards. */
  list(): Promise<string[]>;
  /** Rejects for what is no ordinary file or too long. */
  read(name: string, maxBytes: number): Promise<string>;
  /** As a whole or not at all; the directory is made if absent. */
  replace(name: string, content: string): Promise<void>;
  /** Safe when there is none. Also of what is no file in the place of one. */
  remove(name: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
}

/** The same, of several processes that change one file. */
export interface SharedRecordFiles extends RecordFiles {
  /**
   * Replaces what is there by `after`, or removes it, if that is still `before`; undefined: there is no file. No other process that changes
   * the directory in this way comes between the look and the change. False: something else is there.
   */
  exchange(name: string, change: RecordChange): Promise<boolean>;
}

export interface RecordChange {
  readonly before: string | undefined;
  readonly after: string | undefined;
  /** Longer is what neither agent has written. */
  readonly maxBytes: number;
}

const recordMode = 0o600;

/** The real ones. */
export function recordDirectory(directory: string): SharedRecordFiles {
  const pathOf = (name: string) => path.join(directory, name);
  const make = () => mkdir(directory, { recursive: true, mode: 0o700 });
  // A power failure ends the launchers, too. Each start waited four times for the disk, and in a burst for all others.
  const replace = (name: string, content: string) => replaceFile(pathOf(name), content, recordMode, 'process');
  const orMade = async <T>(work: () => Promise<T>) => {
    try {
      return await work();
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw error;
      await make();
      return work();
    }
  };
  // Who exchanges has its draft there for as long as it holds the lock.
  const removeDrafts = async (drafts: readonly string[]) => {
    if (drafts.length === 0) return;
    const lock = await lockDirectory(directory);
    try {
      for (const draft of drafts) rmSync(pathOf(draft), { force: true, recursive: true });
    } finally {
      lock.release();
    }
  };
  return {
    list: async () => {
      await make();
      const names = await readdir(directory);
      await removeDrafts(names.filter(isDraft));
      return names.filter((name) => !isDraft(name));
    },
    read: (name, maxBytes) => readPlainFile(pathOf(name), maxBytes),
    replace: (name, content) => orMade(() => replace(name, content)),
    remove: (name) => rm(pathOf(name), { force: true, recursive: true }),
    rename: (from, to) => rename(pathOf(from), pathOf(to)),
    exchange: async (name, change) => {
      const lock = await orMade(() => lockDirectory(directory));
      try {
        // Nothing is awaited: who holds the lock is done in a moment, whatever else this process has to do.
        return exchangeSync(pathOf(name), change);
      } finally {
        lock.release();
      }
    },
  };
}

function exchangeSync(file: string, { before, after, maxBytes }: RecordChange): boolean {
  const there = textIfThere(file, maxBytes);
  if (there === after) return true;
  if (there !== before) return false;
  if (after === undefined) rmSync(file);
  else replaceFileSync(file, after, recordMode);
  return true;
}

function textIfThere(file: string, maxBytes: number): string | undefined {
  try {
    return readPlainFileSync(file, maxBytes);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function isDraft(name: string): boolean {
  return name.endsWith(draftSuffix);
}
