import {
  type DataVolume,
  type Key,
  keyOf,
  type PersistentVolumeClaim,
  type VirtualMachine,
  type VolumeSnapshotStatus,
} from '../../api/index.ts';
import { listOf, memberAt, textAt } from '../../base/index.ts';
import { claimsByVm, keptStateIndexes, type StateClaims } from '../kept-state/index.ts';
import type { SnapshotClasses } from './classes.ts';
import { noClaimWords, noClassWords, type SourceVolume, volumesOf, volumesOfVm } from './volumes.ts';

/** Index of the VM informer: keys of the claims that a VM's template names. */
export const vmsByClaim = 'claim';
export const volumeIndexes = {
  [vmsByClaim]: ({ metadata, spec }: VirtualMachine) =>
    volumesOf(spec).flatMap(({ claimName }) => (claimName === undefined ? [] : [`${metadata.namespace}/${claimName}`])),
};

interface ClaimHandlers {
  added(claim: PersistentVolumeClaim): void;
  updated(old: PersistentVolumeClaim, claim: PersistentVolumeClaim): void;
  deleted(claim: PersistentVolumeClaim): void;
}

export interface VolumeStatusDeps {
  readonly claims: {
    get(key: Key): PersistentVolumeClaim | undefined;
    addHandlers(handlers: ClaimHandlers): () => void;
  };
  readonly stateClaims: StateClaims;
  readonly vmsOfClaim: (claim: Key) => readonly Key[];
  readonly dataVolumes: { peek(key: Key): DataVolume | undefined };
  readonly classes: Pick<SnapshotClasses, 'known' | 'onChange'>;
}

/**
 * Says of each volume of a VM whether a snapshot would have it, for `status.volumeSnapshotStatuses` (upstream: updateVolumeSnapshotStatuses in
 * pkg/storage/snapshot/snapshot.go): virtctl, the clone controller of others and users read it before they take one.
 */
export class VolumeSnapshotStatuses {
  readonly #deps: VolumeStatusDeps;

  constructor(deps: VolumeStatusDeps) {
    this.#deps = deps;
  }

  /** Undefined: it has not been read yet which classes there are. Rejects only when it is aborted. */
  async of(vm: VirtualMachine, signal: AbortSignal): Promise<readonly VolumeSnapshotStatus[] | undefined> {
    const statuses: VolumeSnapshotStatus[] = [];
    for (const volume of volumesOfVm(vm, this.#deps.stateClaims)) {
      if (volume.isState && volume.claimName === undefined) continue;
      const status = await this.#ofVolume(vm, volume, signal);
      if (!status) return undefined;
      statuses.push(status);
    }
    return statuses;
  }

  /** Calls back with the key of a VM whose statuses may have changed; without one: with any. */
  onChange(listener: (vm?: Key) => void): () => void {
    const { claims, classes, vmsOfClaim } = this.#deps;
    const told = (claim: PersistentVolumeClaim) => {
      for (const vm of [...vmsOfClaim(keyOf(claim)), ...keptStateIndexes[claimsByVm](claim)]) listener(vm);
    };
    const ends = [
      classes.onChange(() => listener()),
      claims.addHandlers({
        added: told,
        deleted: told,
        // What a claim says besides is nothing that a status tells.
        updated: (old, claim) => {
          const [before, after] = [keptStateIndexes[claimsByVm](old), keptStateIndexes[claimsByVm](claim)];
          const isOther = old.spec.storageClassName !== claim.spec.storageClassName || before[0] !== after[0];
          const hasEnded = Boolean(old.metadata.deletionTimestamp) !== Boolean(claim.metadata.deletionTimestamp);
          if (isOther || hasEnded) for (const each of [old, claim]) told(each);
        },
      }),
    ];
    return () => {
      for (const end of ends) end();
    };
  }

  async #ofVolume(
    vm: VirtualMachine,
    { name, claimName }: SourceVolume,
    signal: AbortSignal,
  ): Promise<VolumeSnapshotStatus | undefined> {
    if (claimName === undefined) return { name, enabled: false, reason: noClaimWords(name) };
    const storageClass = this.#classOf(vm, claimName);
    if (storageClass === undefined) return { name, enabled: false, reason: 'PVC not found' };
    const found = await this.#deps.classes.known(storageClass, signal);
    if (!found) return undefined;
    if (found.kind === 'snapshot') return { name, enabled: true };
    return { name, enabled: false, reason: found.why || noClassWords(storageClass, name) };
  }

  /** Before there is a claim its DataVolume says it, or the template of that. Undefined: nobody does. */
  #classOf({ metadata, spec }: VirtualMachine, name: string): string | undefined {
    const key = `${metadata.namespace}/${name}`;
    const claim = this.#deps.claims.get(key);
    if (claim) return claim.spec.storageClassName ?? '';
    const templates = listOf(memberAt(spec, 'dataVolumeTemplates'));
    const template = templates.find((each) => memberAt(each, 'metadata', 'name') === name);
    return classIn(this.#deps.dataVolumes.peek(key)) ?? classIn(template);
  }
}

function classIn(dataVolume: unknown): string | undefined {
  const spec = memberAt(dataVolume, 'spec');
  const named = textAt(spec, 'pvc', 'storageClassName') ?? textAt(spec, 'storage', 'storageClassName');
  return named === '' ? undefined : named;
}
