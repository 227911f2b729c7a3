import { constants } from 'node:fs';
import { chmod, chown, mkdir, open } from 'node:fs/promises';
import path from 'node:path';
import type { PersistentVolumeClaim } from '../../api/index.ts';
import { NodeError } from '../errors.ts';
import { qemuUser } from './accounts.ts';
import { createIfMissing } from './host-disks.ts';
import type { PodSource } from './ports.ts';

/** Claims of this class, or of none, are bound here. */
const storageClass = 'local';
const imageName = 'disk.img';

export interface ClaimWish {
  readonly namespace: string;
  readonly name: string;
  /** The guest gets it while it runs: nobody but the node makes the image that it has to have. */
  readonly needsImage: boolean;
}

/**
 * PersistentVolumeClaims of this node: each is a directory of its own, made when the first pod asks for it. The directory stays when the
 * claim is deleted, and no other claim ever gets it: its name has the claim's UID.
 */
export class ClaimDirectories {
  readonly #dir: string;
  readonly #objects: Pick<PodSource, 'claim' | 'bindClaim'>;

  constructor({ dir }: { readonly dir: string }, objects: Pick<PodSource, 'claim' | 'bindClaim'>) {
    this.#dir = dir;
    this.#objects = objects;
  }

  /** The claim's directory, once the claim is bound to it. Rejects with NodeError: NOT_FOUND, UNSUPPORTED, HOST_DISK_REFUSED. */
  async take({ namespace, name, needsImage }: ClaimWish): Promise<string> {
    const claim = await this.#objects.claim(namespace, name);
    if (!claim) {
      throw new NodeError('NOT_FOUND', `claim ${namespace}/${name} does not exist: create the PersistentVolumeClaim`);
    }
    refuseOthers(claim);
    const dir = path.join(this.#dir, `${namespace}_${name}_${claim.metadata.uid ?? ''}`);
    await mkdir(dir, { recursive: true });
    // QEMU is in the group of /dev/kvm, and not in its own.
    await chown(dir, qemuUser.uid, qemuUser.gid);
    await chmod(dir, 0o770);
    if (needsImage) await makeImage(dir, claim);
    if (claim.status?.phase !== 'Bound') await this.#objects.bindClaim(claim);
    return dir;
  }
}

function refuseOthers({ metadata, spec, status }: PersistentVolumeClaim): void {
  const refused = (why: string) => {
    throw new NodeError('UNSUPPORTED', `claim ${metadata.namespace}/${metadata.name} ${why}`);
  };
  const { storageClassName: wanted = storageClass } = spec;
  if (metadata.deletionTimestamp) refused('is being deleted: use another one');
  if (spec.volumeMode === 'Block') {
    refused('is a block device, which the standalone node does not have: create one with volumeMode Filesystem');
  }
  if (wanted !== storageClass) {
    const advice = `leave storageClassName out, or set it to ${JSON.stringify(storageClass)}`;
    refused(`is of the storage class ${JSON.stringify(wanted)}, which the standalone node does not have: ${advice}`);
  }
  if (status?.phase === 'Lost') refused('has lost its volume: create another one');
}

/** Sparse, of the size that was asked for. */
async function makeImage(dir: string, { metadata, spec }: PersistentVolumeClaim): Promise<void> {
  const image = path.join(dir, imageName);
  const capacity = spec.resources?.requests?.storage;
  await createIfMissing(image, `claim ${metadata.namespace}/${metadata.name}`, capacity);
  // A launcher that had the claim may have put anything in the image's place.
  const handle = await open(image, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = await handle.stat();
    if (found.isFile() && found.nlink === 1) await handle.chown(qemuUser.uid, qemuUser.gid);
  } finally {
    await handle.close();
  }
}
