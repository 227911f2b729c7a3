import { lstat } from 'node:fs/promises';
import { type PersistentVolume, type PersistentVolumeClaim, parseQuantity } from '../../api/index.ts';
import type { ClaimPlace, ClaimPlaces } from '../data-volumes/index.ts';
import { NodeError } from '../errors.ts';
import { type LoopDevices, ownHandle, type VolumeFiles } from '../storage/index.ts';

export interface ClaimPlacesParts {
  /** Holds a directory per volume. */
  readonly volumesDir: string;
  readonly volume: (name: string) => PersistentVolume | undefined;
  readonly files: Pick<VolumeFiles, 'image' | 'problem'>;
  readonly loops: Pick<LoopDevices, 'detach'>;
}

/** Where the node's storage keeps the disks of claims, for those who fill them. */
export function claimPlaces({ volumesDir, volume: find, files, loops }: ClaimPlacesParts): ClaimPlaces {
  return {
    workRoot: volumesDir,
    placeOf: async ({ metadata, spec, status }: PersistentVolumeClaim): Promise<ClaimPlace | undefined> => {
      const wrong = (why: string) =>
        new NodeError('UNSUPPORTED', `claim ${metadata.namespace}/${metadata.name} ${why}`);
      if (status?.phase === 'Lost') throw wrong('has lost its data: delete it');
      const volume = status?.phase === 'Bound' ? find(spec.volumeName ?? '') : undefined;
      if (!volume) return undefined;
      const handle = ownHandle(volume);
      if (handle === undefined) throw wrong(`has the volume ${volume.metadata.name}, which is not one of this node`);
      const problem = await files.problem(handle);
      if (problem) throw wrong(`cannot be filled: its data ${problem}`);
      const file = files.image(handle);
      const { uid, gid } = await lstat(file);
      return { file, sizeBytes: parseQuantity(volume.spec.capacity?.storage) ?? 0, owner: { uid, gid } };
    },
    // A device would go on showing the file that was there before; without one this does nothing.
    settle: (file) => loops.detach(file),
  };
}
