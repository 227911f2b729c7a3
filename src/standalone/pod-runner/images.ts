import { chmod, cp, lstat, mkdir, mkdtemp, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { errorCode, isRecord, jsonRecord } from '../../base/index.ts';
import { syncDirectory, syncTree } from '../../host/index.ts';
import { NodeError } from '../errors.ts';
import { readIfThere } from '../files.ts';

/** Letters of an image reference: host, port, path, tag, digest. */
const referencePattern = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,254}$/;
const maxNameBytes = 255;
/** Of images that are being added or replaced; a killed program leaves them. */
const draftPrefix = '.draft-';
const draftMs = 24 * 3_600_000;
const maxTurns = 20;
/** In the image, so that both come and go at once; a launcher looks at no file of this name. */
const recordName = '.virt-node-image.json';

/** What is in the directory of the images. */
export interface StoredImage {
  /** Undefined: its name is of an older version, and may stand for several; the first that is asked for gets it. */
  readonly reference: string | undefined;
  readonly name: string;
}

/** What was known of an image when it was added. */
export interface ImageRecord {
  /** The file, directory or address, as it may be shown. */
  readonly source: string;
  /** RFC 3339. */
  readonly addedAt: string;
  /** Of an image that is one disk. */
  readonly disk?: ImageDisk;
}

export interface ImageDisk {
  /** Below the image. */
  readonly file: string;
  /** As a launcher has it. */
  readonly format: 'raw' | 'qcow2';
  /** As it was given: `vmdk`, `iso` and so on. */
  readonly givenAs: string;
  /** What the guest sees. */
  readonly virtualBytes: number;
  /** Of the file that was given: `sha256:…`. */
  readonly checksum: string;
}

/** Where the files of an image are put together; `work` is on the same file system, and goes when it is done. */
export interface ImageDraft {
  readonly image: string;
  readonly work: string;
}

/**
 * Images without a registry (docs/decisions/0003): a reference is a directory of the node, whose files are the image's. A
 * container disk lies in its `disk/`, kernel and initrd where the VMI says.
 */
export class ImageStore {
  readonly dir: string;

  constructor(options: { readonly dir: string }) {
    this.dir = options.dir;
  }

  /** Where the image of this reference belongs, and no other's. Throws NodeError IMAGE_INVALID for what is no reference. */
  directoryOf(reference: string): string {
    if (!referencePattern.test(reference) || reference.split('/').some((part) => part === '..' || part === '.')) {
      throw new NodeError('IMAGE_INVALID', `${JSON.stringify(reference)} is no image reference`);
    }
    const name = imageName(reference);
    if (name.length <= maxNameBytes) return path.join(this.dir, name);
    const text = `${reference} is too long: with every / : _ @ + counted three times it may have ${maxNameBytes} letters`;
    throw new NodeError('IMAGE_INVALID', text);
  }

  /** Directory of an image that is there. Throws NodeError IMAGE_MISSING with what to do, or IMAGE_INVALID. */
  async resolve(reference: string): Promise<string> {
    const dir = this.directoryOf(reference);
    if (await isDirectory(dir)) return dir;
    if (await this.#takeOldName(reference, dir)) return dir;
    throw new NodeError(
      'IMAGE_MISSING',
      `image ${reference} is not on this node, and there is no registry: put its files in ${dir}, or run \`virt-node image add ${reference} FILE|DIRECTORY\``,
    );
  }

  async list(): Promise<StoredImage[]> {
    const entries = await readdir(this.dir, { withFileTypes: true }).catch(() => []);
    return entries
      .filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !entry.name.startsWith('.'))
      .map(({ name }) => ({ reference: referenceOf(name), name }))
      .sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  /** Undefined: it was made by hand, or by an older version. */
  async recordOf(dir: string): Promise<ImageRecord | undefined> {
    return parseRecord((await readIfThere(path.join(dir, recordName))) ?? '');
  }

  /**
   * Copies a disk file (to `disk/`) or a directory (as it is) in, replacing what was there. Every user of a pod may read it: no secret
   * belongs there. Returns the image's directory. Rejects as `put`, or with NodeError NOT_FOUND.
   */
  async add(reference: string, source: string): Promise<string> {
    this.directoryOf(reference);
    const kind = await stat(source).catch((cause: unknown) => {
      throw new NodeError('NOT_FOUND', `${source} cannot be read (${errorCode(cause) ?? 'unknown'})`, { cause });
    });
    return this.put(reference, async ({ image }) => {
      if (kind.isDirectory())
        await cp(source, image, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
      else {
        await mkdir(path.join(image, 'disk'));
        await cp(source, path.join(image, 'disk', path.basename(source)));
      }
      return undefined;
    });
  }

  /**
   * An image of the files that `fill` puts into the draft, in place of what was there. Appears whole or not at all, also when the power
   * fails; of two at once the later stays. Returns the image's directory. Rejects as `fill`; then nothing has changed.
   */
  async put(reference: string, fill: (draft: ImageDraft) => Promise<ImageRecord | undefined>): Promise<string> {
    const target = this.directoryOf(reference);
    await mkdir(this.dir, { recursive: true });
    await this.#removeOldDrafts();
    const draft = await mkdtemp(path.join(this.dir, draftPrefix));
    try {
      const image = path.join(draft, 'new');
      await mkdir(image);
      const record = await fill({ image, work: path.join(draft, 'work') });
      // Of an image that was copied whole, record and all.
      await rm(path.join(image, recordName), { force: true });
      if (record) await writeFile(path.join(image, recordName), `${JSON.stringify(record)}\n`);
      await openForReading(image);
      // An image of empty files would be believed.
      await syncTree(image);
      await replaceDirectory(image, target, path.join(draft, 'old'));
      await syncDirectory(this.dir);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
    return target;
  }

  /** Takes the image away: first its name, at once. Throws NodeError IMAGE_MISSING, IMAGE_INVALID. */
  async remove(reference: string): Promise<void> {
    const dir = await this.resolve(reference);
    const draft = await mkdtemp(path.join(this.dir, draftPrefix));
    try {
      await rename(dir, path.join(draft, 'old'));
      await syncDirectory(this.dir);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
  }

  /** Until 0.1 `/` and `:` became `_`, so that several references had one directory: the first that is asked for has it now. */
  async #takeOldName(reference: string, dir: string): Promise<boolean> {
    const old = path.join(this.dir, reference.replace(/[/:]/g, '_'));
    if (old === dir || !path.basename(old).includes('_') || !(await isDirectory(old))) return false;
    await rename(old, dir).catch((error: unknown) => {
      if (errorCode(error) !== 'ENOENT') throw error;
    });
    return isDirectory(dir);
  }

  async #removeOldDrafts(): Promise<void> {
    for (const name of await readdir(this.dir)) {
      if (!name.startsWith(draftPrefix)) continue;
      const draft = path.join(this.dir, name);
      const found = await lstat(draft).catch(() => undefined);
      if (found && Date.now() - found.mtimeMs > draftMs) await rm(draft, { recursive: true, force: true });
    }
  }
}

/** One name per reference: percent-encoded, `_` too, which in names of an older version stands for `/`, `:` or itself. */
function imageName(reference: string): string {
  return encodeURIComponent(reference).replaceAll('_', '%5F');
}

function parseRecord(text: string): ImageRecord | undefined {
  const value = jsonRecord(text);
  if (typeof value?.source !== 'string' || typeof value.addedAt !== 'string') return undefined;
  const { source, addedAt, disk } = value;
  if (!isRecord(disk)) return { source, addedAt };
  const { file, format, givenAs, virtualBytes, checksum } = disk;
  const isWhole = typeof file === 'string' && typeof givenAs === 'string' && typeof checksum === 'string';
  if (!isWhole || (format !== 'raw' && format !== 'qcow2') || typeof virtualBytes !== 'number')
    return { source, addedAt };
  return { source, addedAt, disk: { file, format, givenAs, virtualBytes, checksum } };
}

function referenceOf(name: string): string | undefined {
  if (name.includes('_')) return undefined;
  try {
    const reference = decodeURIComponent(name);
    return imageName(reference) === name ? reference : undefined;
  } catch {
    return undefined;
  }
}

async function isDirectory(dir: string): Promise<boolean> {
  const found = await stat(dir).catch(() => undefined);
  return found?.isDirectory() === true;
}

/** QEMU is another user in its pod; what only the owner could read would be a disk that cannot be opened. */
async function openForReading(image: string): Promise<void> {
  await chmod(image, 0o755);
  for (const entry of await readdir(image, { withFileTypes: true, recursive: true })) {
    const file = path.join(entry.parentPath, entry.name);
    if (entry.isDirectory()) await chmod(file, 0o755);
    else if (entry.isFile()) await chmod(file, 0o644);
  }
}

/** A directory cannot take a full one's place: that one is moved to `aside` first, again when another came in between. */
async function replaceDirectory(draft: string, target: string, aside: string): Promise<void> {
  for (let turn = 0; ; turn++) {
    await rename(target, `${aside}-${turn}`).catch((error: unknown) => {
      if (errorCode(error) !== 'ENOENT') throw error;
    });
    try {
      return await rename(draft, target);
    } catch (error) {
      const code = errorCode(error);
      if ((code !== 'ENOTEMPTY' && code !== 'EEXIST') || turn >= maxTurns) throw error;
    }
  }
}
