import { chmod, cp, lstat, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../base/index.ts';
import { syncDirectory, syncTree } from '../../host/index.ts';
import { NodeError } from '../errors.ts';

/** Letters of an image reference: host, port, path, tag, digest. */
const referencePattern = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,254}$/;
const maxNameBytes = 255;
/** Of images that are being added or replaced; a killed program leaves them. */
const draftPrefix = '.draft-';
const draftMs = 24 * 3_600_000;
const maxTurns = 20;

/** What is in the directory of the images. */
export interface StoredImage {
  /** Undefined: its name is of an older version, and may stand for several; the first that is asked for gets it. */
  readonly reference: string | undefined;
  readonly name: string;
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

  /**
   * Copies a disk file (to `disk/`) or a directory (as it is) in, replacing what was there. Appears whole or not at all, also when
   * the power fails; of two at once the later stays. Every user of a pod may read it: no secret belongs there. Returns the
   * image's directory.
   */
  async add(reference: string, source: string): Promise<string> {
    const kind = await stat(source).catch((cause: unknown) => {
      throw new NodeError('NOT_FOUND', `${source} cannot be read (${errorCode(cause) ?? 'unknown'})`, { cause });
    });
    return this.make(reference, async (image) => {
      if (kind.isDirectory())
        await cp(source, image, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
      else {
        await mkdir(path.join(image, 'disk'));
        await cp(source, path.join(image, 'disk', path.basename(source)));
      }
    });
  }

  /** The same of files that `fill` writes into the directory that it is given; when it rejects, nothing has changed. */
  async make(reference: string, fill: (image: string) => Promise<void>): Promise<string> {
    const target = this.directoryOf(reference);
    await mkdir(this.dir, { recursive: true });
    await this.#removeOldDrafts();
    const draft = await mkdtemp(path.join(this.dir, draftPrefix));
    try {
      const image = path.join(draft, 'new');
      await mkdir(image);
      await fill(image);
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
