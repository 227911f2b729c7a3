import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { binaryQuantity } from '../../api/index.ts';
import {
  type Checksum,
  convert,
  type Download,
  download,
  findDisk,
  giveToImport,
  isNoSpace,
  makeWorkDirectory,
  requireSpace,
  takeBack,
  verify,
} from '../disk-images/index.ts';
import { NodeError } from '../errors.ts';
import type { Filling } from './fillings.ts';
import type { ClaimPlace } from './ports.ts';

/** What a claim is filled with, all that it takes read already. */
export type FillSource =
  | { readonly kind: 'blank' }
  | {
      readonly kind: 'download';
      readonly wish: Omit<Download, 'maxBytes'>;
      readonly checksum: Checksum | undefined;
      readonly what: string;
    }
  /** A disk of any form, on this machine. */
  | { readonly kind: 'image'; readonly file: string; readonly what: string }
  /** It is in the work directory already. */
  | { readonly kind: 'given'; readonly name: string; readonly what: string };

export interface FillDeps {
  /** Puts the disk in its place, by a rename. Rejects when it must not be there now. */
  readonly put: (disk: string) => Promise<void>;
  /** The disk has been looked at, and is one. */
  readonly accepted?: () => void;
}

/** Of all that is done the download is the most. */
const downloadShare = 0.8;
const mib = 2 ** 20;

/**
 * Puts a whole disk of the claim's size in its place, synced, by one rename. Until then the claim is as it was. The work directory is gone
 * afterwards, whatever happens. Rejects with NodeError: as `findDisk` and `download`, NO_SPACE, DISK_REFUSED with both sizes.
 */
export async function fill(
  source: FillSource,
  place: ClaimPlace,
  work: string,
  filling: Filling,
  deps: FillDeps,
): Promise<void> {
  try {
    if (source.kind !== 'given') await makeWorkDirectory(work);
    const name = await makeDisk(source, place, work, filling, deps);
    await putDisk(path.join(work, name), deps);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function makeDisk(
  source: FillSource,
  place: ClaimPlace,
  work: string,
  filling: Filling,
  deps: FillDeps,
): Promise<string> {
  switch (source.kind) {
    case 'blank':
      await open(path.join(work, 'blank'), 'wx', 0o600).then((handle) => handle.close());
      return 'blank';
    case 'image':
      await copyImage(source, path.join(work, 'image'), filling.signal);
      await giveToImport(path.join(work, 'image'));
      return rawDisk({ name: 'image', what: source.what, from: 0 }, place, work, filling, deps);
    case 'given':
      await giveToImport(path.join(work, source.name));
      return rawDisk({ ...source, from: 0 }, place, work, filling, deps);
    case 'download': {
      const { wish, checksum, what } = source;
      const { signal } = filling;
      const onProgress = (share: number) => filling.onProgress(share * downloadShare);
      const name = await download(work, { ...wish, maxBytes: mostBytes(place.sizeBytes) }, { signal, onProgress });
      if (checksum) await verify(path.join(work, name), checksum, what, signal);
      return rawDisk({ name, what, from: downloadShare }, place, work, filling, deps);
    }
  }
}

/** The file as a raw disk that fits. */
async function rawDisk(
  given: { readonly name: string; readonly what: string; readonly from: number },
  { sizeBytes }: ClaimPlace,
  work: string,
  { signal, onProgress }: Filling,
  { accepted }: FillDeps,
): Promise<string> {
  const { name, what, from } = given;
  const { file, info } = await findDisk({ dir: work, name, what }, { maxBytes: mostBytes(sizeBytes) }, signal);
  requireFit(info.virtualBytes, sizeBytes, what);
  accepted?.();
  const progress = (share: number) => onProgress(from + share * (1 - from));
  return (await convert(file, info, { to: 'raw', signal, onProgress: progress })).name;
}

/** A file whose disk fits; a qcow2 that holds the whole disk is a bit larger than that. */
export function mostBytes(sizeBytes: number): number {
  return Math.ceil(sizeBytes * 1.05) + 64 * mib;
}

function requireFit(bytes: number, sizeBytes: number, what: string): void {
  if (bytes <= sizeBytes) return;
  const text = `${what} is a disk of ${shown(bytes)}, and the claim has ${shown(sizeBytes)}: ask for ${binaryQuantity(Math.ceil(bytes / mib) * mib)} or more`;
  throw new NodeError('DISK_REFUSED', text);
}

function shown(bytes: number): string {
  return `${binaryQuantity(bytes)} (${bytes} bytes)`;
}

/** By `cp`, which shares blocks where the file system can do so, and keeps holes. */
async function copyImage(
  { file, what }: { readonly file: string; readonly what: string },
  target: string,
  signal: AbortSignal,
): Promise<void> {
  const from = await openPlain(file, what);
  try {
    const { size, blocks } = await from.stat();
    await requireSpace(path.dirname(target), Math.min(size, blocks * 512), what);
    await runCopy(from.fd, target, what, signal);
  } finally {
    await from.close();
  }
}

async function openPlain(file: string, what: string): Promise<FileHandle> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  const found = await handle.stat();
  if (found.isFile() && found.nlink === 1) return handle;
  await handle.close();
  throw new NodeError('DISK_REFUSED', `${what}: ${file} is no ordinary file of its own`);
}

function runCopy(descriptor: number, target: string, what: string, signal: AbortSignal): Promise<void> {
  const argv = ['--sparse=always', '--reflink=auto', '--dereference', '/proc/self/fd/0', target];
  const child = spawn('cp', argv, { stdio: [descriptor, 'ignore', 'pipe'], signal, killSignal: 'SIGKILL' });
  let words = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    words += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => {
      const isFull = words.includes('No space left');
      const problem = isFull ? 'the disk of this machine is full: free some space' : words.trim();
      if (code === 0) resolve();
      else reject(new NodeError(isFull ? 'NO_SPACE' : 'CHILD_FAILED', `${what} cannot be copied: ${problem}`));
    });
  });
}

async function putDisk(disk: string, { put }: FillDeps): Promise<void> {
  try {
    await takeBack(disk, { uid: 0, gid: 0 }, 0o600);
    await put(disk);
  } catch (error) {
    if (!isNoSpace(error)) throw error;
    throw new NodeError('NO_SPACE', 'the disk of this machine is full: free some space', { cause: error });
  }
}

/** The one disk of an image of the node. Rejects with NodeError IMAGE_INVALID. */
export async function diskOfImage(dir: string, image: string): Promise<string> {
  const disks = (await readdir(path.join(dir, 'disk')).catch(() => [])).filter((name) => !name.startsWith('.'));
  const [only, ...others] = disks;
  const file = path.join(dir, 'disk', only ?? '');
  const isPlain = only !== undefined && others.length === 0 && (await lstat(file)).isFile();
  if (isPlain) return file;
  const text = `image ${image} has ${disks.length} files in its directory /disk: a claim is filled with the one that there has to be`;
  throw new NodeError('IMAGE_INVALID', text);
}
