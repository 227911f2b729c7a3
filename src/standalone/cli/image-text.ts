import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { fileSize } from '../../web/index.ts';
import { NodeError } from '../errors.ts';
import type { NodePaths } from '../paths.ts';
import type { ImageRecord, ImageStore } from '../pod-runner/index.ts';
import { type ImageUsers, imageUsers, refuseUsed } from './image-users.ts';
import { didYouMean } from './suggest.ts';

export interface ImageDeps {
  readonly paths: NodePaths;
  readonly images: ImageStore;
}

interface ShownImage {
  readonly reference: string | undefined;
  readonly name: string;
  readonly usedBytes: number;
  readonly changedAt: Date;
  readonly record: ImageRecord | undefined;
}

const oldName = '(directory of an older version: the first reference that fits gets it)';

/** A table of the images of the node; with `quiet` only their references. */
export async function listImages({ images }: ImageDeps, quiet: boolean): Promise<string[]> {
  const stored = await images.list();
  if (quiet) return stored.flatMap(({ reference }) => reference ?? []);
  if (stored.length === 0) return ['no images yet: virt-node image add NAME FILE|URL'];
  const shown = await Promise.all(stored.map(({ reference, name }) => look(images, reference, name)));
  const rows = shown.map((image) => [
    image.reference ?? image.name,
    image.record?.disk?.format ?? '-',
    image.record?.disk ? fileSize(image.record.disk.virtualBytes) : '-',
    fileSize(image.usedBytes),
    addedOf(image).slice(0, 16).replace('T', ' '),
    image.reference === undefined ? oldName : '',
  ]);
  return table([['REFERENCE', 'FORMAT', 'DISK', 'ON THIS MACHINE', 'ADDED', ''], ...rows]);
}

/** All that is known of one image. Throws NodeError IMAGE_MISSING, IMAGE_INVALID. */
export async function describeImage({ paths, images }: ImageDeps, reference: string): Promise<string[]> {
  const dir = await findImage(images, reference);
  const image = await look(images, reference, path.basename(dir));
  const disk = image.record?.disk;
  const users = await imageUsers(paths, images, [reference]).then(
    (found) => found.get(reference)?.join(', ') ?? 'nobody',
    (error: Error) => `not known: ${error.message}`,
  );
  return [
    `reference        ${reference}`,
    `directory        ${dir}`,
    `added            ${addedOf(image)}`,
    `from             ${image.record?.source ?? 'not known: it was made by hand, or by an older version'}`,
    ...(disk
      ? [
          `disk             /${disk.file}, ${disk.format}${disk.givenAs === disk.format ? '' : `, given as ${disk.givenAs}`}`,
          `size of the disk ${fileSize(disk.virtualBytes)} (${disk.virtualBytes} bytes)`,
          `checksum         ${disk.checksum} of the file that was given`,
        ]
      : []),
    `on this machine  ${fileSize(image.usedBytes)}`,
    `used by          ${users}`,
  ];
}

/** Takes an image away that nobody uses. Throws NodeError IMAGE_IN_USE, IMAGE_MISSING, IMAGE_INVALID, NOT_RUNNING. */
export async function removeImage({ paths, images }: ImageDeps, reference: string, force: boolean): Promise<string> {
  await findImage(images, reference);
  if (!force) refuseUsed(await imageUsers(paths, images, [reference]), reference, 'removed');
  await images.remove(reference);
  return `${reference} is removed`;
}

/** That an image of this name may come: there is none, or nobody uses it. Throws as `removeImage`. */
export async function refuseReplacing({ paths, images }: ImageDeps, reference: string): Promise<void> {
  const dir = images.directoryOf(reference);
  if (!(await stat(dir).catch(() => undefined))) return;
  const users: ImageUsers = await imageUsers(paths, images, [reference]);
  refuseUsed(users, reference, 'replaced');
}

/** The directory of an image that somebody has named. */
async function findImage(images: ImageStore, reference: string): Promise<string> {
  try {
    return await images.resolve(reference);
  } catch (error) {
    if (!(error instanceof NodeError && error.code === 'IMAGE_MISSING')) throw error;
    const known = await images.list();
    const guess = didYouMean(
      reference,
      known.flatMap((each) => each.reference ?? []),
    );
    const text = `image ${reference} is not on this node${guess || '; virt-node image list shows all'}`;
    throw new NodeError('IMAGE_MISSING', text, { cause: error });
  }
}

async function look(images: ImageStore, reference: string | undefined, name: string): Promise<ShownImage> {
  const dir = path.join(images.dir, name);
  const [usedBytes, { mtime: changedAt }, record] = await Promise.all([sizeOf(dir), stat(dir), images.recordOf(dir)]);
  return { reference, name, usedBytes, changedAt, record };
}

async function sizeOf(dir: string): Promise<number> {
  let bytes = 0;
  for (const entry of await readdir(dir, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile()) continue;
    const found = await stat(path.join(entry.parentPath, entry.name)).catch(() => undefined);
    bytes += (found?.blocks ?? 0) * 512;
  }
  return bytes;
}

function addedOf({ record, changedAt }: ShownImage): string {
  return record?.addedAt ?? changedAt.toISOString().replace(/\.\d+Z$/, 'Z');
}

function table(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('   ')
      .trimEnd(),
  );
}
