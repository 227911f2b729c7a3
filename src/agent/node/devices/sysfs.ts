import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../../base/index.ts';

/** Names in a directory, sorted; none when it is not there. Rejects when it cannot be read: that is not the same. */
export async function namesIn(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).sort();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

/** A device may vanish while it is being read: then, as for one that has no such attribute, undefined. */
export async function attribute(...file: string[]): Promise<string | undefined> {
  return readFile(path.join(...file), 'utf8').then(
    (text) => text.trim(),
    () => undefined,
  );
}

/** Last part of where a link points to. */
export async function linkName(...link: string[]): Promise<string | undefined> {
  const target = await linkTarget(...link);
  return target === undefined ? undefined : path.basename(target);
}

export async function linkTarget(...link: string[]): Promise<string | undefined> {
  return readlink(path.join(...link)).catch(() => undefined);
}

/** `KEY=value` lines. */
export async function uevent(directory: string): Promise<ReadonlyMap<string, string>> {
  const lines = ((await attribute(directory, 'uevent')) ?? '').split('\n');
  return new Map(
    lines.flatMap((line): [string, string][] => {
      const at = line.indexOf('=');
      return at > 0 ? [[line.slice(0, at), line.slice(at + 1).trim()]] : [];
    }),
  );
}

/** The NUMA node of a device; undefined: none, or not known. */
export async function numaNodes(device: string): Promise<readonly number[] | undefined> {
  const node = Number((await attribute(device, 'numa_node')) || -1);
  return Number.isInteger(node) && node >= 0 ? [node] : undefined;
}

/** Whether anything is at a path. Rejects when that cannot be known. */
export async function isThere(file: string): Promise<boolean> {
  try {
    await lstat(file);
    return true;
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return false;
    throw error;
  }
}
