import { createWriteStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { rfc3339 } from '../../base/index.ts';
import type { ImageRow, WebImages } from '../../web/index.ts';
import { giveToImport, isNoSpace, makeWorkDirectory } from '../disk-images/index.ts';
import { NodeError } from '../errors.ts';
import { putImageDisk } from './image-disk.ts';
import type { ImageStore } from './images.ts';

/** The images of the node as its page shows and gets them. */
export function pageImages(store: ImageStore): WebImages {
  return {
    list: async () => {
      const stored = await store.list();
      const rows = stored.map(({ reference, name }) =>
        reference === undefined ? undefined : describe(reference, path.join(store.dir, name), store),
      );
      return (await Promise.all(rows)).filter((row) => row !== undefined);
    },
    upload: async (reference, content, signal) => {
      await refuseTaken(store, reference);
      const dir = await store.put(reference, async (draft) => {
        await makeWorkDirectory(draft.work);
        const given = { dir: draft.work, name: 'given', what: 'the upload' };
        const file = path.join(given.dir, given.name);
        await pipeline(content, createWriteStream(file, { flags: 'wx', mode: 0o600 }), { signal }).catch(
          (cause: unknown) => {
            throw signal.aborted ? signal.reason : writeError(cause);
          },
        );
        await giveToImport(file);
        const disk = await putImageDisk(given, draft, { signal, progress: () => undefined });
        // Another one may have come meanwhile.
        await refuseTaken(store, reference);
        return { source: 'upload by the page', addedAt: rfc3339(new Date()), disk };
      });
      return describe(reference, dir, store);
    },
  };
}

/** VMs may run on it, and boot from it again. */
async function refuseTaken(store: ImageStore, reference: string): Promise<void> {
  const found = await stat(store.directoryOf(reference)).catch(() => undefined);
  if (found) throw new NodeError('IMAGE_INVALID', `there is an image ${reference} already: give this one another name`);
}

function writeError(cause: unknown): unknown {
  if (!isNoSpace(cause)) return cause;
  return new NodeError('IMAGE_INVALID', 'the disk of the node is full: remove images, or files of other programs', {
    cause,
  });
}

async function describe(reference: string, dir: string, store: ImageStore): Promise<ImageRow> {
  const [disks, boot] = await Promise.all([filesIn(path.join(dir, 'disk')), filesIn(path.join(dir, 'boot'))]);
  const format = (await store.recordOf(dir))?.disk?.format;
  const isKernel = boot.some(({ name }) => name === 'vmlinuz') && boot.some(({ name }) => name === 'initramfs.gz');
  const sizeBytes = [...disks, ...boot].reduce((sum, { bytes }) => sum + bytes, 0);
  return {
    reference,
    boots: disks.length > 0 ? 'disk' : isKernel ? 'kernel' : 'nothing',
    sizeBytes,
    ...(format && { format }),
  };
}

async function filesIn(dir: string): Promise<{ readonly name: string; readonly bytes: number }[]> {
  const names = await readdir(dir).catch((): string[] => []);
  const found = names.map(async (name) => {
    const { blocks = 0 } = (await stat(path.join(dir, name)).catch(() => undefined)) ?? {};
    return { name, bytes: blocks * 512 };
  });
  return Promise.all(found);
}
