import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../base/index.ts';
import { readPlainFile } from './plain-file.ts';
import { draftSuffix, replaceFile } from './replace-file.ts';

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

/** The real ones. */
export function recordDirectory(directory: string): RecordFiles {
  const pathOf = (name: string) => path.join(directory, name);
  const make = () => mkdir(directory, { recursive: true, mode: 0o700 });
  // A power failure ends the launchers, too. Each start waited four times for the disk, and in a burst for all others.
  const replace = (name: string, content: string) => replaceFile(pathOf(name), content, 0o600, 'process');
  return {
    list: async () => {
      await make();
      const names = await readdir(directory);
      for (const draft of names.filter(isDraft)) await rm(pathOf(draft), { force: true, recursive: true });
      return names.filter((name) => !isDraft(name));
    },
    read: (name, maxBytes) => readPlainFile(pathOf(name), maxBytes),
    replace: async (name, content) => {
      try {
        await replace(name, content);
      } catch (error) {
        if (errorCode(error) !== 'ENOENT') throw error;
        await make();
        await replace(name, content);
      }
    },
    remove: (name) => rm(pathOf(name), { force: true, recursive: true }),
    rename: (from, to) => rename(pathOf(from), pathOf(to)),
  };
}

function isDraft(name: string): boolean {
  return name.endsWith(draftSuffix);
}
