import path from 'node:path';
import type { VirtualMachineInstance } from '../../../../api/index.ts';
import { HostError } from '../errors.ts';

/** A file of an image that has to appear in the launcher. */
export interface WantedFile {
  /** For words: `volume root`, `the kernel`. */
  readonly what: string;
  /** In the directory of container disks, or in `kernel-boot` below it. */
  readonly name: string;
  /** In the image; undefined: the only file in `/disk`. */
  readonly imagePath: string | undefined;
  readonly mode: number;
  /** Where its checksum belongs in the status. */
  readonly owner: { readonly kind: 'volume'; readonly volume: string } | { readonly kind: 'kernel' | 'initrd' };
}

/** What one side container is there for. */
export interface WantedImage {
  readonly what: string;
  /** As in MountEntry. */
  readonly target: string;
  readonly files: readonly WantedFile[];
}

export const kernelBootName = 'kernel-boot';

/** Images of a VMI, each with a side container of its own where they are mounted by the agent. Throws HostError DISK_NAME. */
export function wantedImages({ spec }: VirtualMachineInstance): WantedImage[] {
  const disks = (spec.volumes ?? []).flatMap(({ name: volume, containerDisk }, index) => {
    if (!containerDisk) return [];
    const [what, name, imagePath] = [`volume ${volume}`, `disk_${index}.img`, containerDisk.path || undefined];
    const file: WantedFile = { what, name, imagePath, mode: 0o777, owner: { kind: 'volume', volume } };
    return [{ what, target: name, files: [file] }];
  });
  const container = spec.domain.firmware?.kernelBoot?.container;
  if (!container?.image) return disks;
  const files = (['kernel', 'initrd'] as const).flatMap((kind) => {
    const imagePath = container[`${kind}Path`];
    if (!imagePath) return [];
    return [{ what: `the ${kind}`, name: artefactName(imagePath), imagePath, mode: 0o655, owner: { kind } }];
  });
  return [...disks, { what: 'kernel boot', target: kernelBootName, files }];
}

function artefactName(imagePath: string): string {
  const name = path.posix.basename(imagePath);
  if (name !== '' && name !== '.' && name !== '..') return name;
  throw new HostError('DISK_NAME', `${JSON.stringify(imagePath)} of the kernel boot names no file`);
}
