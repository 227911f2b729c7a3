import { type KubeObject, resources, type StorageClass, type VolumeSnapshotClass } from '../../api/index.ts';
import { memberAt } from '../../base/index.ts';
import { getIfThere, type Informer, type KubeClient } from '../../kube/index.ts';

export type FoundClass =
  | { readonly kind: 'snapshot'; readonly snapshotClass: string }
  | { readonly kind: 'none'; readonly why: string }
  | { readonly kind: 'waits'; readonly why: string };

export interface SnapshotClassesDeps {
  readonly client: Pick<KubeClient, 'get'>;
  readonly storageClasses: Pick<Informer<StorageClass>, 'get' | 'hasSynced' | 'health'>;
  readonly snapshotClasses: Pick<Informer<VolumeSnapshotClass>, 'list' | 'hasSynced' | 'health'>;
}

const isDefault = ({ metadata }: KubeObject) =>
  metadata.annotations?.['snapshot.storage.kubernetes.io/is-default-class'] === 'true';

/** Of which class VolumeSnapshots of a storage class are made. */
export class SnapshotClasses {
  readonly #deps: SnapshotClassesDeps;

  constructor(deps: SnapshotClassesDeps) {
    this.#deps = deps;
  }

  /** Rejects with KubeError where the API server does not answer. */
  async of(storageClass: string, signal: AbortSignal): Promise<FoundClass> {
    const { storageClasses, snapshotClasses } = this.#deps;
    for (const [what, { hasSynced, health }] of [
      ['StorageClasses', storageClasses],
      ['VolumeSnapshotClasses', snapshotClasses],
    ] as const) {
      if (!hasSynced) return { kind: 'waits', why: `${what} cannot be read: ${health.lastError ?? 'no answer yet'}` };
    }
    const provisioner = storageClasses.get(storageClass)?.provisioner;
    const matching = snapshotClasses.list().filter(({ driver }) => driver === provisioner);
    const [only, second] = matching;
    if (!only) return { kind: 'none', why: '' };
    if (!second) return { kind: 'snapshot', snapshotClass: only.metadata.name };
    const chosen = (await this.#profiled(storageClass, signal)) ?? matching.find(isDefault)?.metadata.name;
    if (chosen !== undefined) return { kind: 'snapshot', snapshotClass: chosen };
    const names = matching.map(({ metadata }) => metadata.name).join(', ');
    const why = `${matching.length} matching VolumeSnapshotClasses for ${storageClass}: ${names}: mark one as the default class`;
    return { kind: 'none', why };
  }

  /** What CDI's profile of the storage class says; it matters where there are several. */
  async #profiled(name: string, signal: AbortSignal): Promise<string | undefined> {
    const profile = await getIfThere<KubeObject>(this.#deps.client, resources.storageProfiles, { name }, { signal });
    const wanted = memberAt(profile, 'status', 'snapshotClass');
    return this.#deps.snapshotClasses.list().find(({ metadata }) => metadata.name === wanted)?.metadata.name;
  }
}
