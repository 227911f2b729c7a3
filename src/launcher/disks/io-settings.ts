import { constants } from 'node:fs';
import { open, readFile, realpath, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import type { Disk } from '../../api/index.ts';
import { errorCode } from '../../base/index.ts';
import { deviceNumbersOf } from '../../host/index.ts';
import type { DiskCache, ResolvedDisk } from '../domain/index.ts';
import { DiskError } from './errors.ts';

/**
 * Can the file be opened past the page cache? tmpfs and some network file systems cannot. A pipe in its place does not block the
 * open.
 */
async function supportsDirectIo(file: string): Promise<boolean> {
  try {
    const handle = await open(file, constants.O_RDONLY | constants.O_DIRECT | constants.O_NONBLOCK);
    await handle.close();
    return true;
  } catch (error) {
    if (errorCode(error) === 'EINVAL') return false;
    throw error;
  }
}

/**
 * Cache and I/O mode of a disk as upstream's `converter.go` chooses them: none where O_DIRECT works on the file and on what is
 * below it, and native I/O on top of that for block devices and fully allocated raw files. Throws `DIRECT_IO_UNSUPPORTED`.
 */
export async function withCacheMode(disk: Disk, resolved: ResolvedDisk): Promise<ResolvedDisk> {
  const asked = disk.cache;
  const files = [resolved.path, ...(resolved.backing ? [resolved.backing.path] : [])];
  let direct = true;
  for (const file of files) direct = direct && (await supportsDirectIo(file));
  if (asked === 'none' && !direct) {
    throw new DiskError(
      'DIRECT_IO_UNSUPPORTED',
      `spec.domain.devices.disks[${disk.name}].cache: none needs direct I/O, which the file system of ${files.join(' or ')} ` +
        'has not: use "writethrough" or "writeback", or leave it out',
    );
  }
  const cache: DiskCache = asked ?? (direct ? 'none' : 'writethrough');
  const native = cache === 'none' && !disk.io && (resolved.isBlock || (await isFullyAllocated(resolved)));
  return { ...resolved, cache, ...(native && { io: 'native' as const }) };
}

async function isFullyAllocated(resolved: ResolvedDisk): Promise<boolean> {
  if (resolved.format !== 'raw' || resolved.backing) return false;
  const { size, blocks } = await stat(resolved.path);
  return blocks * 512 >= size;
}

/** Block sizes for `blockSize.matchVolume`: the device's own, or the file system's block. */
export async function withBlockSize(disk: Disk, resolved: ResolvedDisk): Promise<ResolvedDisk> {
  const match = disk.blockSize?.matchVolume;
  if (!match || match.enabled === false) return resolved;
  if (resolved.isBlock) return { ...resolved, blockSize: await deviceBlockSize(resolved.path) };
  const { bsize } = await statfs(resolved.path);
  return { ...resolved, blockSize: { logical: bsize, physical: bsize, discardGranularity: bsize } };
}

async function deviceBlockSize(file: string) {
  const { rdev } = await stat(file);
  const { major, minor } = deviceNumbersOf(rdev);
  const device = await realpath(`/sys/dev/block/${major}:${minor}`);
  // A partition has no queue of its own: the disk above it has.
  for (const dir of [device, path.dirname(device)]) {
    const logical = await queueNumber(dir, 'logical_block_size');
    if (logical === undefined) continue;
    const physical = (await queueNumber(dir, 'physical_block_size')) ?? logical;
    const discardGranularity = await queueNumber(dir, 'discard_granularity');
    return { logical, physical, ...(discardGranularity !== undefined && { discardGranularity }) };
  }
  throw new DiskError('MISSING_SOURCE', `${file}: the kernel has no block size in ${device}`);
}

async function queueNumber(dir: string, name: string): Promise<number | undefined> {
  const text = await readFile(path.join(dir, 'queue', name), 'utf8').catch(() => undefined);
  return text === undefined ? undefined : Number(text.trim());
}
