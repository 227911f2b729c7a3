import { mkdir, rename } from 'node:fs/promises';
import path from 'node:path';
import { convert, digestOf, findDisk, maxVirtualBytes, takeBack, type WorkFile } from '../disk-images/index.ts';
import type { ImageDisk, ImageDraft } from './images.ts';

export interface ImageDiskDeps {
  /** For a person who waits: what is done now, and how much of it (0 to 1) where that is known. */
  readonly progress: (doing: string, share?: number) => void;
  readonly signal: AbortSignal;
}

/** What a guest's disk has as its owner in an image: every pod may read it, none may write. */
const imageOwner = { uid: 0, gid: 0 };

/**
 * A file of unknown origin, which is in the draft's work directory, becomes the one disk of the image: unpacked, found out and checked by
 * programs with few rights. Raw and qcow2 stay as they are; what a launcher does not take becomes qcow2. Rejects with NodeError, most of all DISK_REFUSED.
 */
export async function putImageDisk(given: WorkFile, { image }: ImageDraft, deps: ImageDiskDeps): Promise<ImageDisk> {
  const { progress, signal } = deps;
  progress('checksum');
  const digest = await digestOf(path.join(given.dir, given.name), 'sha256', signal);
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
  return { file: name, format, givenAs: kind, virtualBytes, checksum: `sha256:${digest}` };
}

/** Who is not root keeps what it makes. */
function ownerHere(): { readonly uid: number; readonly gid: number } {
  const [uid, gid] = [process.geteuid?.() ?? 0, process.getegid?.() ?? 0];
  return uid === 0 ? imageOwner : { uid, gid };
}
