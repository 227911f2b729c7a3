import { execFile } from 'node:child_process';
import { mkdir, readFile, rename, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorCode, errorMessage, rfc3339 } from '../../base/index.ts';
import {
  checksumForms,
  convert,
  digestOf,
  download,
  findDisk,
  giveToImport,
  isNoSpace,
  makeWorkDirectory,
  maxVirtualBytes,
  parseChecksum,
  requireSpace,
  shownUrl,
  takeBack,
  verify,
  type WorkFile,
} from '../disk-images/index.ts';
import { NodeError } from '../errors.ts';
import type { ImageDraft, ImageRecord, ImageStore } from '../pod-runner/index.ts';

export interface ImageWish {
  readonly reference: string;
  /** File, directory, or address (http, https). */
  readonly source: string;
  /** Of the file as it is given: `sha256:…`. */
  readonly checksum: string | undefined;
  /** PEM of authorities besides those of the system. */
  readonly caFile: string | undefined;
}

export interface ImageAddDeps {
  readonly images: ImageStore;
  /** For a person who waits: what is done now, and how much of it (0 to 1) where that is known. */
  readonly progress: (doing: string, share?: number) => void;
  readonly signal: AbortSignal;
  readonly now?: () => Date;
}

/** What a guest's disk has as its owner and mode in an image: every pod may read it, none may write. */
const imageOwner = { uid: 0, gid: 0 };
const run = promisify(execFile);

/**
 * An image of this reference from a disk of any form, or from a directory as it is. Nothing is there before all of it is, checked and synced, and
 * what failed leaves nothing. Resolves with what is known of it. Rejects with NodeError, whose message says what to do.
 */
export async function addImage(wish: ImageWish, deps: ImageAddDeps): Promise<ImageRecord> {
  const { reference, source, checksum } = wish;
  const { images, now = () => new Date() } = deps;
  // Before anything is made for it.
  images.directoryOf(reference);
  const expected = checksum === undefined ? undefined : parseChecksum(checksum);
  if (checksum !== undefined && !expected) {
    throw new NodeError('USAGE', `--checksum: ${JSON.stringify(checksum)} is none: give ${checksumForms}`);
  }
  const kind = await kindOf(source);
  const stamp = { source: kind === 'url' ? shownUrl(source) : path.resolve(source), addedAt: rfc3339(now()) };
  let record: ImageRecord = stamp;
  if (kind === 'directory') {
    if (expected) throw new NodeError('USAGE', '--checksum: a directory has none');
    await images.put(reference, async ({ image }) => {
      await copy(['-R', '--preserve=timestamps', '--no-dereference', `${source}/.`, image], source);
      return record;
    });
    return record;
  }
  await images.put(reference, async (draft) => {
    await makeWorkDirectory(draft.work);
    const what = kind === 'url' ? stamp.source : source;
    const file = { dir: draft.work, what, name: await bring(kind, wish, draft, deps) };
    if (expected) await verify(path.join(file.dir, file.name), expected, what, deps.signal);
    deps.progress('checksum');
    const digest = await digestOf(path.join(file.dir, file.name), 'sha256', deps.signal);
    record = { ...stamp, disk: { ...(await placeDisk(file, draft, deps)), checksum: `sha256:${digest}` } };
    return record;
  });
  return record;
}

async function kindOf(source: string): Promise<'url' | 'file' | 'directory'> {
  if (/^https?:\/\//i.test(source)) return 'url';
  const [, scheme] = /^([a-z][a-z0-9+.-]*):\/\//i.exec(source) ?? [];
  if (scheme !== undefined) {
    throw new NodeError(
      'USAGE',
      `${source}: ${scheme} is not spoken here: give a file, or an address of http or https`,
    );
  }
  const found = await stat(source).catch((cause: unknown) => {
    throw new NodeError('NOT_FOUND', `${source} cannot be read (${errorCode(cause) ?? 'unknown'})`, { cause });
  });
  if (found.isDirectory()) return 'directory';
  if (found.isFile()) return 'file';
  throw new NodeError('DISK_REFUSED', `${source} is neither a file nor a directory`);
}

/** The file as it is given, in the work directory. */
async function bring(
  kind: 'url' | 'file',
  { source, caFile }: ImageWish,
  { work }: ImageDraft,
  { progress, signal }: ImageAddDeps,
): Promise<string> {
  if (kind === 'url') {
    const authorities = caFile === undefined ? undefined : await readAuthorities(caFile);
    const wish = { url: source, maxBytes: maxVirtualBytes, ...(authorities !== undefined && { authorities }) };
    return download(work, wish, { signal, onProgress: (share) => progress('download', share) });
  }
  progress('copy');
  const { blocks, size } = await stat(source);
  await requireSpace(work, Math.min(size, blocks * 512), source);
  const name = 'given';
  await copy(['--sparse=always', '--reflink=auto', source, path.join(work, name)], source);
  await giveToImport(path.join(work, name));
  return name;
}

async function readAuthorities(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((cause: unknown) => {
    throw new NodeError('NOT_FOUND', `--ca-file: ${file} cannot be read (${errorCode(cause) ?? 'unknown'})`, { cause });
  });
}

/** By `cp`, which keeps holes and shares blocks where the file system can do so. */
async function copy(args: readonly string[], source: string): Promise<void> {
  await run('cp', [...args]).catch((cause: unknown) => {
    const text = errorMessage(cause);
    const isFull = isNoSpace(cause) || text.includes('No space left');
    throw new NodeError(isFull ? 'NO_SPACE' : 'CHILD_FAILED', `${source} cannot be copied: ${text}`, { cause });
  });
}

/** Raw and qcow2 stay as they are; what a launcher does not take becomes qcow2. */
async function placeDisk(given: WorkFile, { image }: ImageDraft, { progress, signal }: ImageAddDeps) {
  progress('check');
  const { file, info } = await findDisk(given, { maxBytes: maxVirtualBytes }, signal);
  const { kind, virtualBytes } = info;
  const format = kind === 'raw' || kind === 'iso' ? 'raw' : 'qcow2';
  const isTaken = format === 'raw' || kind === 'qcow2';
  const onProgress = (share: number) => progress(`convert ${kind} to qcow2`, share);
  const final = isTaken ? file : await convert(file, info, { to: 'qcow2', signal, onProgress });
  const name = `disk/disk.${format === 'raw' ? 'img' : 'qcow2'}`;
  await mkdir(path.join(image, 'disk'));
  await takeBack(path.join(final.dir, final.name), ownerHere(), 0o644);
  await rename(path.join(final.dir, final.name), path.join(image, name));
  return { file: name, format, givenAs: kind, virtualBytes } as const;
}

/** Who is not root keeps what it makes. */
function ownerHere(): { readonly uid: number; readonly gid: number } {
  const [uid, gid] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0];
  return uid === 0 ? imageOwner : { uid, gid };
}
