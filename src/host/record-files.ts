import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { readPlainFile } from './plain-file.ts';
import { draftSuffix, replaceFile } from './replace-file.ts';

/** Small files of one directory. Rejections are the system's errors with its codes (`ENOSPC`). */
export interface RecordFiles {
  /** Names of the files; the directory is made if absent, drafts of a killed process are gone afterwards. */
  list(): Promise<string[]>;
  /** Rejects for what is no ordinary file or too long. */
  read(name: string, maxBytes: number): Promise<string>;
  /** As a whole or not at all. */
  replace(name: string, content: string): Promise<void>;
  /** Safe when there is none. */
  remove(name: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
}

/** The real ones. */
export function recordDirectory(directory: string): RecordFiles {
  const pathOf = (name: string) => path.join(directory, name);
  return {
    list: async () => {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const names = await readdir(directory);
      for (const draft of names.filter(isDraft)) await rm(pathOf(draft), { force: true });
      return names.filter((name) => !isDraft(name));
    },
    read: (name, maxBytes) => readPlainFile(pathOf(name), maxBytes),
    // A power failure ends the launchers, too. Each start waited four times for the disk, and in a burst for all others.
    replace: (name, content) => replaceFile(pathOf(name), content, 0o600, 'process'),
    remove: (name) => rm(pathOf(name), { force: true }),
    rename: (from, to) => rename(pathOf(from), pathOf(to)),
  };
}

function isDraft(name: string): boolean {
  return name.endsWith(draftSuffix);
}
