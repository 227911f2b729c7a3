import { cp, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { errorCode } from '../../base/index.ts';
import { syncDirectory, syncTree } from '../../host/index.ts';
import { NodeError } from '../errors.ts';

/** Letters of an image reference: host, port, path, tag, digest. */
const referencePattern = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,254}$/;

/**
 * Images without a registry (docs/decisions/0003): a reference is a directory of the node, whose files are the image's. A
 * container disk lies in its `disk/`, kernel and initrd where the VMI says.
 */
export class ImageStore {
  readonly dir: string;

  constructor(options: { readonly dir: string }) {
    this.dir = options.dir;
  }

  /** Where the image of this reference belongs. Throws NodeError IMAGE_INVALID for what is no reference. */
  directoryOf(reference: string): string {
    if (!referencePattern.test(reference) || reference.split('/').some((part) => part === '..' || part === '.')) {
      throw new NodeError('IMAGE_INVALID', `${JSON.stringify(reference)} is no image reference`);
    }
    return path.join(this.dir, reference.replace(/[/:]/g, '_'));
  }

  /** Directory of an image that is there. Throws NodeError IMAGE_MISSING with what to do, or IMAGE_INVALID. */
  async resolve(reference: string): Promise<string> {
    const dir = this.directoryOf(reference);
    const found = await stat(dir).catch(() => undefined);
    if (found?.isDirectory()) return dir;
    throw new NodeError(
      'IMAGE_MISSING',
      `image ${reference} is not on this node, and there is no registry: put its files in ${dir}, or run \`virt-node image add ${reference} FILE|DIRECTORY\``,
    );
  }

  /** Names of the image directories. */
  async list(): Promise<string[]> {
    const entries = await readdir(this.dir, { withFileTypes: true }).catch(() => []);
    return entries
      .filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !entry.name.startsWith('.'))
      .map((entry) => entry.name)
      .sort();
  }

  /**
   * Copies a disk file (to `disk/`) or a directory (as it is) in, replacing what was there. Appears whole or not at all, also when the power fails.
   * Returns the image's directory.
   */
  async add(reference: string, source: string): Promise<string> {
    const target = this.directoryOf(reference);
    const kind = await stat(source).catch((cause: unknown) => {
      throw new NodeError('NOT_FOUND', `${source} cannot be read (${errorCode(cause) ?? 'unknown'})`, { cause });
    });
    const draft = path.join(this.dir, `.${path.basename(target)}.${process.pid}`);
    await rm(draft, { recursive: true, force: true });
    try {
      await mkdir(draft, { recursive: true });
      if (kind.isDirectory()) await cp(source, draft, { recursive: true, preserveTimestamps: true });
      else {
        await mkdir(path.join(draft, 'disk'));
        await cp(source, path.join(draft, 'disk', path.basename(source)));
      }
      // An image of empty files would be believed.
      await syncTree(draft);
      await rm(target, { recursive: true, force: true });
      await rename(draft, target);
      await syncDirectory(this.dir);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
    return target;
  }
}
