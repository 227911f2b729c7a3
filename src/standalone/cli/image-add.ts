import { execFile } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { errorCode, errorMessage, rfc3339 } from '../../base/index.ts';
import {
  checksumForms,
  download,
  giveToImport,
  isNoSpace,
  makeWorkDirectory,
  maxVirtualBytes,
  parseChecksum,
  requireSpace,
  shownUrl,
  verify,
} from '../disk-images/index.ts';
import { NodeError } from '../errors.ts';
import { type ImageDraft, type ImageRecord, type ImageStore, putImageDisk } from '../pod-runner/index.ts';

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
    record = { ...stamp, disk: await putImageDisk(file, draft, deps) };
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
