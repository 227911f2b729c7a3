import type { PersistentVolumeClaim } from '../../api/index.ts';
import { NodeError } from '../errors.ts';
import { boundHandle, type LoopDevices, type VolumeFiles } from '../storage/index.ts';
import type { PodSource } from './ports.ts';

export interface ClaimWish {
  readonly namespace: string;
  readonly name: string;
  /** The guest gets it while it runs, or an exporter reads it: its disk has to be QEMU's already. */
  readonly needsImage: boolean;
}

export interface ClaimParts {
  readonly files: Pick<VolumeFiles, 'directory' | 'image' | 'problem' | 'isBeingCopied' | 'giveToQemu'>;
  readonly loops: Pick<LoopDevices, 'attach'>;
  /** Calls back when a claim may have become ready. The returned function ends that. */
  readonly onChange: (listener: () => void) => () => void;
}

/** What pods get of the PersistentVolumeClaims that the node's storage has bound: a directory with a disk in it, or a device. */
export class ClaimDirectories {
  readonly #parts: ClaimParts;
  readonly #objects: Pick<PodSource, 'claim' | 'volume'>;

  constructor(parts: ClaimParts, objects: Pick<PodSource, 'claim' | 'volume'>) {
    this.#parts = parts;
    this.#objects = objects;
  }

  onChange(listener: () => void): () => void {
    return this.#parts.onChange(listener);
  }

  /** The directory of a claim with a file system. Rejects with NodeError: NOT_FOUND, CLAIM_NOT_READY, UNSUPPORTED, VOLUME_DAMAGED. */
  async take({ namespace, name, needsImage }: ClaimWish): Promise<string> {
    const { claim, handle } = await this.#bound(namespace, name);
    if (claim.spec.volumeMode === 'Block') throw wrongMode(claim, 'is a block device: pods have it by volumeDevices');
    if (needsImage) await this.#parts.files.giveToQemu(handle);
    return this.#parts.files.directory(handle);
  }

  /** The block device of a claim on this machine, which is one and the same for all pods. Rejects as `take`. */
  async device(namespace: string, name: string): Promise<string> {
    const { claim, handle } = await this.#bound(namespace, name);
    if (claim.spec.volumeMode !== 'Block') throw wrongMode(claim, 'has a file system: pods have it by volumeMounts');
    return this.#parts.loops.attach(this.#parts.files.image(handle));
  }

  async #bound(namespace: string, name: string) {
    const claim = await this.#objects.claim(namespace, name);
    if (!claim) {
      throw new NodeError('NOT_FOUND', `claim ${namespace}/${name} does not exist: create the PersistentVolumeClaim`);
    }
    const notReady = (why: string) => new NodeError('CLAIM_NOT_READY', `claim ${namespace}/${name} ${why}`);
    const { metadata, spec, status } = claim;
    if (metadata.deletionTimestamp) throw notReady('is being deleted: use another one');
    if (status?.phase === 'Lost') throw notReady('has lost its data (kubectl describe pvc says what): put it back');
    if (status?.phase !== 'Bound' || !spec.volumeName) {
      throw notReady('is not bound yet; kubectl describe pvc says what it waits for');
    }
    const bound = boundHandle(claim, await this.#objects.volume(spec.volumeName));
    if ('problem' in bound) throw notReady(`${bound.problem}: delete the claim, and make it anew`);
    const { handle } = bound;
    const problem = await this.#parts.files.problem(handle);
    if (problem) throw notReady(`cannot be used: its data ${problem}: put it back, or delete the claim`);
    if (this.#parts.files.isBeingCopied(handle)) throw notReady('is being copied: the pod starts when that is done');
    return { claim, handle };
  }
}

function wrongMode({ metadata }: PersistentVolumeClaim, why: string): NodeError {
  return new NodeError('UNSUPPORTED', `claim ${metadata.namespace}/${metadata.name} ${why}`);
}
