import type { TunnelHandlers } from '../../nbd-tunnel/index.ts';
import { LauncherError } from '../errors.ts';
import { allocationContext, dirtyBitmapContext, NbdClient } from '../nbd/index.ts';
import { allChanged, ExtentBatches, mergedFlags } from './extents.ts';

/** Of one answer; upstream's. */
const chunkBytes = 256 * 1024;
/** What is asked of a map at once. */
const mapBytes = 1024 ** 3;

/** What QEMU serves at its socket, for whoever asks on the tunnel: a connection of its own for each of them. */
export function servedDisks(socketPath: string): TunnelHandlers {
  return {
    read: async ({ exportName, offset, length }, give, signal) => {
      const disk = await NbdClient.connect({ socketPath, exportName, contexts: [] }, signal);
      try {
        const end = endOf(disk, offset, length);
        for (let at = offset; at < end; at += chunkBytes)
          await give({ offset: at, data: await disk.read(at, Math.min(chunkBytes, end - at)) });
      } finally {
        disk.close();
      }
    },
    map: async ({ exportName, bitmapName, offset, length }, give, signal) => {
      const changes = bitmapName === '' ? undefined : dirtyBitmapContext(bitmapName);
      const known = { contexts: [allocationContext], optional: changes === undefined ? [] : [changes] };
      const disk = await NbdClient.connect({ socketPath, exportName, ...known }, signal);
      const batches = new ExtentBatches(changes !== undefined, (extents) => {
        const last = extents.at(-1);
        return give({ extents, nextOffset: last ? last.offset + last.length : offset });
      });
      try {
        const end = endOf(disk, offset, length);
        let at = offset;
        while (at < end) at = await addKnown(disk, { at, end, changes }, batches);
        await batches.end();
      } finally {
        disk.close();
      }
    },
  };
}

/** What is known from there on; where that ends. */
async function addKnown(
  disk: NbdClient,
  { at: start, end, changes }: { readonly at: number; readonly end: number; readonly changes: string | undefined },
  batches: ExtentBatches,
): Promise<number> {
  const known = await disk.blockStatus(start, Math.min(mapBytes, end - start));
  const allocation = known.get(allocationContext) ?? [];
  const changed = changes === undefined ? undefined : known.get(changes);
  let extents = allocation;
  if (changes !== undefined) extents = changed ? mergedFlags(allocation, changed) : allChanged(allocation);
  let at = start;
  for (const extent of extents) {
    const length = Math.min(extent.length, end - at);
    if (length > 0) await batches.add(at, { ...extent, length });
    at += length;
  }
  if (at === start) throw new LauncherError('INVALID_REQUEST', `QEMU does not know what is at ${at}`);
  return at;
}

function endOf({ size }: NbdClient, offset: number, length: number): number {
  if (offset < size) return length === 0 ? size : Math.min(size, offset + length);
  throw new LauncherError('INVALID_REQUEST', `offset ${offset} is beyond the ${size} bytes of the disk`);
}
