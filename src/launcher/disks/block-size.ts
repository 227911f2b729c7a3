import { readFile, realpath, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import type { Disk } from '../../api/index.ts';
import type { ResolvedDisk } from '../domain/index.ts';
import { DiskError } from './errors.ts';

/** Block sizes for `blockSize.matchVolume` (spec 72 §6): the device's own, or the file system's block. */
export async function withBlockSize(disk: Disk, resolved: ResolvedDisk): Promise<ResolvedDisk> {
  const match = disk.blockSize?.matchVolume;
  if (!match || match.enabled === false) return resolved;
  if (resolved.isBlock) return { ...resolved, blockSize: await deviceBlockSize(resolved.path) };
  const { bsize } = await statfs(resolved.path);
  return { ...resolved, blockSize: { logical: bsize, physical: bsize, discardGranularity: bsize } };
}

async function deviceBlockSize(device: string) {
  const { rdev } = await stat(device);
  // Numbers as in sysfs: the kernel's 12 and 20 bits of a dev_t.
  const major = (rdev >> 8) & 0xfff;
  const minor = (rdev & 0xff) | ((rdev >> 12) & 0xfff00);
  const dir = await realpath(`/sys/dev/block/${major}:${minor}`);
  // A partition has its queue one directory up.
  const logical =
    (await sysfsNumber(dir, 'logical_block_size')) ?? (await sysfsNumber(path.dirname(dir), 'logical_block_size'));
  if (logical === undefined)
    throw new DiskError('MISSING_SOURCE', `${device}: the kernel tells no block size in ${dir}`);
  const queue = (await sysfsNumber(dir, 'logical_block_size')) === undefined ? path.dirname(dir) : dir;
  const physical = (await sysfsNumber(queue, 'physical_block_size')) ?? logical;
  const discardGranularity = await sysfsNumber(queue, 'discard_granularity');
  return { logical, physical, ...(discardGranularity !== undefined && { discardGranularity }) };
}

async function sysfsNumber(dir: string, name: string): Promise<number | undefined> {
  const text = await readFile(path.join(dir, 'queue', name), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : Number(text.trim());
}
