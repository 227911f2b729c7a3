import { type PersistentVolumeClaim, parseQuantity } from '../../api/index.ts';
import type { ClaimPlace, ClaimPlaces } from '../data-volumes/index.ts';
import { NodeError } from '../errors.ts';
import { awaitedBy, boundHandle, type ClaimDeps } from '../storage/index.ts';

export interface ClaimPlacesParts extends ClaimDeps {
  /** Holds a directory per volume. */
  readonly volumesDir: string;
}

/** Where the node's storage keeps the disks of claims, for those who fill them. */
export function claimPlaces({ volumesDir, ...parts }: ClaimPlacesParts): ClaimPlaces {
  const { caches, files, loops } = parts;
  return {
    workRoot: volumesDir,
    placeOf: async (claim: PersistentVolumeClaim): Promise<ClaimPlace | undefined> => {
      const { metadata, spec, status } = claim;
      const wrong = (why: string) =>
        new NodeError('UNSUPPORTED', `claim ${metadata.namespace}/${metadata.name} ${why}`);
      if (status?.phase === 'Lost') throw wrong('has lost its data: delete it');
      const volume = status?.phase === 'Bound' ? caches.volumes.get(spec.volumeName ?? '') : undefined;
      if (!volume) return undefined;
      const bound = boundHandle(claim, volume);
      if ('problem' in bound) throw wrong(bound.problem);
      const problem = await files.problem(bound.handle);
      if (problem) throw wrong(`cannot be filled: its data ${problem}`);
      return { volume: bound.handle, sizeBytes: parseQuantity(volume.spec.capacity?.storage) ?? 0 };
    },
    awaitedBy: (claim) => awaitedBy(claim, parts),
    put: async ({ volume, sizeBytes }, disk) => {
      // A device would go on showing the file that was there before.
      await loops.detach(files.image(volume));
      await files.replace(volume, disk, sizeBytes);
    },
  };
}
