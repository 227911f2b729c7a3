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

async function deviceBlockSize(file: string) {
  const { rdev } = await stat(file);
  // Numbers as in sysfs: the kernel's 12 and 20 bits of a dev_t.
  const major = (rdev >> 8) & 0xfff;
  const minor = (rdev & 0xff) | ((rdev >> 12) & 0xfff00);
  const device = await realpath(`/sys/dev/block/${major}:${minor}`);
  // A partition has no queue of its own: the disk above it has.
  for (const dir of [device, path.dirname(device)]) {
    const logical = await queueNumber(dir, 'logical_block_size');
    if (logical === undefined) continue;
    const physical = (await queueNumber(dir, 'physical_block_size')) ?? logical;
    const discardGranularity = await queueNumber(dir, 'discard_granularity');
    return { logical, physical, ...(discardGranularity !== undefined && { discardGranularity }) };
  }
  throw new DiskError('MISSING_SOURCE', `${file}: the kernel tells no block size in ${device}`);
}

async function queueNumber(dir: string, name: string): Promise<number | undefined> {
  const text = await readFile(path.join(dir, 'queue', name), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : Number(text.trim());
}
